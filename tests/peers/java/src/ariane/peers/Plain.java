package ariane.peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.beans.IntrospectionException;
import java.beans.Introspector;
import java.beans.PropertyDescriptor;
import java.net.InetSocketAddress;
import java.util.Base64;
import java.util.Collection;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;

/** Turns what Apache's classes return into plain JSON: beans by their getters, bytes as base64, enums by name. */
final class Plain {
    private Plain() { }

    static Object of(Object value) {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) {
            return value;
        }
        if (value instanceof byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        }
        if (value instanceof Enum<?> constant) {
            return constant.name();
        }
        if (value instanceof MessageExt message) {
            return Messages.show(message);
        }
        if (value instanceof InetSocketAddress address) {
            return address.getAddress().getHostAddress() + ":" + address.getPort();
        }
        if (value instanceof Map<?, ?> map) {
            return map(map);
        }
        if (value instanceof Collection<?> items) {
            return list(items);
        }
        if (value.getClass().getName().startsWith("org.apache.rocketmq.")) {
            return bean(value);
        }
        return value.toString();
    }

    private static JSONArray list(Collection<?> items) {
        JSONArray array = new JSONArray();
        items.forEach(item -> array.add(of(item)));
        return array;
    }

    /** Keys that are beans (such as MessageQueue) cannot be JSON keys: such a map becomes a list of key and value. */
    private static Object map(Map<?, ?> map) {
        boolean simple = map.keySet().stream().allMatch(key -> key instanceof String || key instanceof Number);
        JSONObject object = new JSONObject(true);
        JSONArray pairs = new JSONArray();
        map.forEach((key, value) -> {
            if (simple) {
                object.put(key.toString(), of(value));
            } else {
                pairs.add(new JSONObject(Map.of("key", of(key), "value", of(value))));
            }
        });
        return simple ? object : pairs;
    }

    private static JSONObject bean(Object value) {
        JSONObject object = new JSONObject(true);
        try {
            for (PropertyDescriptor property : Introspector.getBeanInfo(value.getClass(), Object.class).getPropertyDescriptors()) {
                if (property.getReadMethod() != null) {
                    object.put(property.getName(), of(property.getReadMethod().invoke(value)));
                }
            }
        } catch (IntrospectionException | ReflectiveOperationException e) {
            throw new IllegalStateException("cannot show " + value.getClass(), e);
        }
        return object;
    }
}

package ariane.peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.message.MessageQueue;

/** Calls any public method of an open client by name, so that a test can use Apache's whole API without a new op. */
final class Invoke {
    private final Handles handles;

    Invoke(Handles handles) {
        this.handles = handles;
    }

    Object run(JSONObject args) throws Exception {
        Object target = handles.get(args, Object.class);
        JSONArray params = args.getJSONArray("params");
        Method method = choose(target, args.getString("method"), params);
        Object[] values = new Object[params.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = cast(params.get(i), method.getGenericParameterTypes()[i]);
        }
        try {
            return method.invoke(target, values);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** The overload whose parameters fit the kinds of JSON values given. */
    private static Method choose(Object target, String name, JSONArray params) {
        List<String> seen = new ArrayList<>();
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name)) {
                seen.add(method.toGenericString());
                if (fits(method, params)) {
                    return method;
                }
            }
        }
        throw new IllegalArgumentException("no method " + name + " fits " + params + "; there is " + seen);
    }

    private static boolean fits(Method method, JSONArray params) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != params.size()) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            if (!fits(types[i], params.get(i))) {
                return false;
            }
        }
        return true;
    }

    private static boolean fits(Class<?> type, Object value) {
        if (value == null) {
            return !type.isPrimitive();
        }
        if (value instanceof String) {
            return type == String.class || type.isEnum();
        }
        if (value instanceof Boolean) {
            return type == boolean.class || type == Boolean.class;
        }
        if (value instanceof Number) {
            return type.isPrimitive() && type != boolean.class || Number.class.isAssignableFrom(type);
        }
        if (value instanceof JSONArray) {
            return Iterable.class.isAssignableFrom(type);
        }
        boolean selector = ((JSONObject) value).containsKey("sql") || ((JSONObject) value).containsKey("tag");
        return selector ? type == MessageSelector.class : type != MessageSelector.class && !type.isPrimitive() && type != String.class;
    }

    private static Object cast(Object value, Type type) {
        if (type == MessageSelector.class) {
            return selector((JSONObject) value);
        }
        if (type == MessageQueue.class) {
            return Messages.queue((JSONObject) value);
        }
        return TypeUtils.cast(value, type, ParserConfig.getGlobalInstance());
    }

    /** {"sql": "a > 1"} or {"tag": "A || B"}. */
    static MessageSelector selector(JSONObject json) {
        return json.containsKey("sql") ? MessageSelector.bySql(json.getString("sql")) : MessageSelector.byTag(json.getString("tag"));
    }
}

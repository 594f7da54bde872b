package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.remoting.RPCHook;

/** Client options: the request's "options" object names setters of Apache's own client classes. */
final class Options {
    private Options() { }

    /** Applies "namesrv", "instanceName" and every entry of "options" by its setter. */
    static void apply(ClientConfig client, JSONObject args) {
        client.setNamesrvAddr(args.getString("namesrv"));
        // Clients of one instance name share connections and name servers, across tests and JVMs too: keep them apart.
        client.setInstanceName(args.getString("handle") + "-" + ProcessHandle.current().pid());
        // Routes and heartbeats each second, not each half minute, unless the test says otherwise.
        client.setPollNameServerInterval(1000);
        client.setHeartbeatBrokerInterval(1000);
        bePatient(client);
        JSONObject options = args.getJSONObject("options");
        if (options != null) {
            options.forEach((name, value) -> set(client, name, value));
        }
    }

    /** A machine that is busy for some seconds is no failure. */
    private static void bePatient(ClientConfig client) {
        client.setMqClientApiTimeout(20000);
        if (client instanceof DefaultMQProducer) {
            ((DefaultMQProducer) client).setSendMsgTimeout(20000);
        }
    }

    /** Heartbeat, routes and rebalance now. */
    static Object refresh(ClientConfig client) {
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(client);
        instance.updateTopicRouteInfoFromNameServer();
        instance.sendHeartbeatToAllBrokerWithLock();
        instance.doRebalance();
        return null;
    }

    /** The signing hook when the request carries keys, else null. */
    static RPCHook credentials(JSONObject args) {
        String accessKey = args.getString("accessKey");
        if (accessKey == null) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(accessKey, args.getString("secretKey")));
    }

    private static void set(Object target, String name, Object value) {
        String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                invoke(target, method, value);
                return;
            }
        }
        throw new IllegalArgumentException(target.getClass().getSimpleName() + " has no option " + name);
    }

    private static void invoke(Object target, Method method, Object value) {
        try {
            Class<?> type = method.getParameterTypes()[0];
            if (type.isInterface() && !Map.class.isAssignableFrom(type) && value instanceof String) {
                value = Class.forName((String) value).getDeclaredConstructor().newInstance();
            }
            method.invoke(target, TypeUtils.cast(value, type, ParserConfig.getGlobalInstance()));
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("bad option " + method.getName() + ": " + value, e);
        }
    }
}

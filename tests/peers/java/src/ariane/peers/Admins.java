package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Opens DefaultMQAdminExt; its methods are reached through {@link Invoke}. */
final class Admins {
    private final Handles handles;

    Admins(Handles handles) {
        this.handles = handles;
    }

    void register(Map<String, Op> ops) {
        ops.put("admin.start", this::start);
        ops.put("admin.track", args -> admin(args).messageTrackDetail(
            admin(args).viewMessage(args.getString("topic"), args.getString("msgId"))));
    }

    private DefaultMQAdminExt admin(JSONObject args) {
        return handles.get(args, DefaultMQAdminExt.class);
    }

    private Object start(JSONObject args) throws MQClientException {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Options.credentials(args), args.getLongValue("timeout"));
        Options.apply(admin, args);
        admin.start();
        handles.put(args.getString("handle"), admin, admin::shutdown);
        return admin.buildMQClientId();
    }
}

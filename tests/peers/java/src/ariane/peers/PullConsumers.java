package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageQueue;

/** Opens lite pull and plain pull consumers; what they can do is reached through {@link Invoke}. */
final class PullConsumers {
    private final Handles handles;

    PullConsumers(Handles handles) {
        this.handles = handles;
    }

    void register(Map<String, Op> ops) {
        ops.put("lite.start", this::startLite);
        ops.put("lite.commit", this::commitLite);
        ops.put("pull.start", this::startPull);
    }

    private Object startLite(JSONObject args) throws MQClientException {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(
            args.getString("namespace"), args.getString("group"), Options.credentials(args));
        Options.apply(consumer, args);
        JSONObject subscriptions = args.getJSONObject("subscriptions");
        for (String topic : subscriptions.keySet()) {
            consumer.subscribe(topic, Invoke.selector(subscriptions.getJSONObject(topic)));
        }
        consumer.start();
        handles.put(args.getString("handle"), consumer, consumer::shutdown);
        return consumer.buildMQClientId();
    }

    private Object commitLite(JSONObject args) {
        Map<MessageQueue, Long> offsets = new HashMap<>();
        for (Object item : args.getJSONArray("offsets")) {
            JSONObject entry = (JSONObject) item;
            offsets.put(Messages.queue(entry), entry.getLong("offset"));
        }
        handles.get(args, DefaultLitePullConsumer.class).commitSync(offsets, true);
        return null;
    }

    private Object startPull(JSONObject args) throws MQClientException {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(
            args.getString("namespace"), args.getString("group"), Options.credentials(args));
        Options.apply(consumer, args);
        consumer.start();
        handles.put(args.getString("handle"), consumer, consumer::shutdown);
        return consumer.buildMQClientId();
    }
}

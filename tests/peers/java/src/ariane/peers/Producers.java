package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Opens and closes plain producers. */
final class Producers {
    private final Handles handles;

    Producers(Handles handles) {
        this.handles = handles;
    }

    void register(Map<String, Op> ops) {
        ops.put("producer.start", this::start);
        ops.put("producer.queues", args -> handles.get(args, DefaultMQProducer.class)
            .fetchPublishMessageQueues(args.getString("topic")));
        ops.put("producer.createTopic", this::createTopic);
    }

    private Object start(JSONObject args) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer(
            args.getString("namespace"), args.getString("group"), Options.credentials(args),
            args.getBooleanValue("trace"), args.getString("traceTopic"));
        Options.apply(producer, args);
        producer.start();
        handles.put(args.getString("handle"), producer, producer::shutdown);
        return producer.buildMQClientId();
    }

    private Object createTopic(JSONObject args) throws MQClientException {
        handles.get(args, DefaultMQProducer.class).createTopic(
            args.getString("key"), args.getString("topic"), args.getIntValue("queues"));
        return null;
    }
}

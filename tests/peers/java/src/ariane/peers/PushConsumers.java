package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;

/** Push consumers with scripted listeners. */
final class PushConsumers {
    private final Handles handles;
    private final Wire wire;

    PushConsumers(Handles handles, Wire wire) {
        this.handles = handles;
        this.wire = wire;
    }

    void register(Map<String, Op> ops) {
        ops.put("consumer.start", this::start);
        ops.put("consumer.messages", args -> listener(args).inbox.since(args.getIntValue("from")));
        ops.put("consumer.await", args -> listener(args).inbox.await(args));
        ops.put("consumer.clear", args -> listener(args).inbox.clear());
        ops.put("consumer.script", this::script);
        ops.put("consumer.release", this::release);
        ops.put("consumer.queues", args -> handles.get(args, DefaultMQPushConsumer.class)
            .getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet());
        ops.put("consumer.persist", this::persist);
    }

    private Listener listener(JSONObject args) {
        return handles.get(args.getString("handle") + "/listener", Listener.class);
    }

    private Object start(JSONObject args) throws MQClientException {
        String handle = args.getString("handle");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            args.getString("namespace"), args.getString("group"), Options.credentials(args),
            new AllocateMessageQueueAveragely(), args.getBooleanValue("trace"), args.getString("traceTopic"));
        Options.apply(consumer, args);
        subscribe(consumer, args.getJSONObject("subscriptions"));
        Listener listener = new Listener(handles, wire, args);
        if (args.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) listener::orderly);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) listener::concurrently);
        }
        // Before the start: its first deliveries may come while it still runs.
        handles.put(handle + "/listener", listener, listener::release);
        try {
            consumer.start();
        } catch (MQClientException | RuntimeException e) {
            handles.close(handle + "/listener");
            throw e;
        }
        handles.put(handle, consumer, () -> shutdown(handle, consumer));
        return consumer.buildMQClientId();
    }

    private static void subscribe(DefaultMQPushConsumer consumer, JSONObject subscriptions) throws MQClientException {
        for (String topic : subscriptions.keySet()) {
            consumer.subscribe(topic, Invoke.selector(subscriptions.getJSONObject(topic)));
        }
    }

    private void shutdown(String handle, DefaultMQPushConsumer consumer) {
        handles.close(handle + "/listener");
        consumer.shutdown();
    }

    private Object script(JSONObject args) {
        listener(args).follow(new Script(args.getJSONObject("script")));
        return null;
    }

    private Object release(JSONObject args) {
        listener(args).release();
        return null;
    }

    private Object persist(JSONObject args) {
        handles.get(args, DefaultMQPushConsumer.class).getDefaultMQPushConsumerImpl().persistConsumerOffset();
        return null;
    }
}

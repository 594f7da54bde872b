package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.common.message.MessageQueue;

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
        consumer.getDefaultMQPushConsumerImpl().shutdown(10000);  // what the listener returned from is acknowledged
        consumer.shutdown();  // the rest: traces
    }

    private Object script(JSONObject args) {
        listener(args).follow(new Script(args.getJSONObject("script")));
        return null;
    }

    private Object release(JSONObject args) {
        listener(args).release();
        return null;
    }

    /** Stores the offsets once they have caught up with the listener: a delivery shows before it is acknowledged. */
    private Object persist(JSONObject args) throws InterruptedException {
        DefaultMQPushConsumerImpl consumer = handles.get(args, DefaultMQPushConsumer.class).getDefaultMQPushConsumerImpl();
        Inbox inbox = listener(args).inbox;
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!acknowledged(consumer, inbox) && System.nanoTime() < deadline) {
            Thread.sleep(5);
        }
        consumer.persistConsumerOffset();
        return null;
    }

    private static boolean acknowledged(DefaultMQPushConsumerImpl consumer, Inbox inbox) {
        Set<MessageQueue> mine = consumer.getRebalanceImpl().getProcessQueueTable().keySet();
        return inbox.ends().entrySet().stream().filter(end -> mine.contains(end.getKey())).allMatch(end ->
            consumer.getOffsetStore().readOffset(end.getKey(), ReadOffsetType.READ_FROM_MEMORY) >= end.getValue());
    }
}

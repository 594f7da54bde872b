package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;

/** Every way Apache's producer can send: sync, async, one-way, batch, to a queue, by hash key, request, burst. */
final class Sends {
    static final MessageQueueSelector BY_HASH = new SelectMessageQueueByHash();
    private final Handles handles;
    private final ExecutorService threads;

    Sends(Handles handles, ExecutorService threads) {
        this.handles = handles;
        this.threads = threads;
    }

    void register(Map<String, Op> ops) {
        ops.put("producer.send", args -> Messages.show(sync(producer(args), Messages.read(args), args)));
        ops.put("producer.sendAsync", this::sendAsync);
        ops.put("producer.sendOneway", this::sendOneway);
        ops.put("producer.sendBatch", this::sendBatch);
        ops.put("producer.request", this::request);
        ops.put("producer.burst", args -> new Burst(producer(args), args, threads).run());
    }

    private DefaultMQProducer producer(JSONObject args) {
        return handles.get(args, DefaultMQProducer.class);
    }

    private static long timeout(DefaultMQProducer producer, JSONObject args) {
        return args.containsKey("timeout") ? args.getLongValue("timeout") : producer.getSendMsgTimeout();
    }

    private static SendResult sync(DefaultMQProducer producer, Message message, JSONObject args) throws Exception {
        long timeout = timeout(producer, args);
        if (args.containsKey("queue")) {
            return producer.send(message, Messages.queue(args.getJSONObject("queue")), timeout);
        }
        if (args.containsKey("hashKey")) {
            return producer.send(message, BY_HASH, args.getString("hashKey"), timeout);
        }
        return producer.send(message, timeout);
    }

    private Object sendAsync(JSONObject args) throws Exception {
        DefaultMQProducer producer = producer(args);
        Message message = Messages.read(args);
        long timeout = timeout(producer, args);
        Callback callback = new Callback();
        if (args.containsKey("queue")) {
            producer.send(message, Messages.queue(args.getJSONObject("queue")), callback, timeout);
        } else if (args.containsKey("hashKey")) {
            producer.send(message, BY_HASH, args.getString("hashKey"), callback, timeout);
        } else {
            producer.send(message, callback, timeout);
        }
        return Messages.show(callback.await());
    }

    private Object sendOneway(JSONObject args) throws Exception {
        DefaultMQProducer producer = producer(args);
        Message message = Messages.read(args);
        if (args.containsKey("queue")) {
            producer.sendOneway(message, Messages.queue(args.getJSONObject("queue")));
        } else if (args.containsKey("hashKey")) {
            producer.sendOneway(message, BY_HASH, args.getString("hashKey"));
        } else {
            producer.sendOneway(message);
        }
        return message.getProperties().get("UNIQ_KEY");
    }

    private Object sendBatch(JSONObject args) throws Exception {
        DefaultMQProducer producer = producer(args);
        Collection<Message> messages = Messages.readAll(args.getJSONArray("messages"));
        long timeout = timeout(producer, args);
        if (args.containsKey("queue")) {
            return Messages.show(producer.send(messages, Messages.queue(args.getJSONObject("queue")), timeout));
        }
        return Messages.show(producer.send(messages, timeout));
    }

    private Object request(JSONObject args) throws Exception {
        Message reply = producer(args).request(Messages.read(args), args.getLongValue("timeout"));
        return Plain.of(reply);
    }

    /** Lets an op wait for an asynchronous send and see its own exception, not a wrapper. */
    static final class Callback implements SendCallback {
        private final CompletableFuture<SendResult> done = new CompletableFuture<>();

        @Override
        public void onSuccess(SendResult result) {
            done.complete(result);
        }

        @Override
        public void onException(Throwable error) {
            done.completeExceptionally(error);
        }

        SendResult await() throws Exception {
            try {
                return done.get();
            } catch (ExecutionException e) {
                throw e.getCause() instanceof Exception cause ? cause : e;
            }
        }
    }
}

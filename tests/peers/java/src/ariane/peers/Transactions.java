package ariane.peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transactional producers whose local transactions and check answers the test has written down beforehand. */
final class Transactions {
    private final Handles handles;
    private final Wire wire;

    Transactions(Handles handles, Wire wire) {
        this.handles = handles;
        this.wire = wire;
    }

    void register(Map<String, Op> ops) {
        ops.put("transaction.start", this::start);
        ops.put("transaction.send", this::send);
        ops.put("transaction.answers", this::answers);
        ops.put("transaction.checks", args -> desk(args).checks.since(args.getIntValue("from")));
        ops.put("transaction.await", args -> desk(args).checks.await(args));
    }

    private Desk desk(JSONObject args) {
        return handles.get(args.getString("handle") + "/desk", Desk.class);
    }

    private Object start(JSONObject args) throws MQClientException {
        String handle = args.getString("handle");
        TransactionMQProducer producer = new TransactionMQProducer(
            args.getString("namespace"), args.getString("group"), Options.credentials(args),
            args.getBooleanValue("trace"), args.getString("traceTopic"));
        Options.apply(producer, args);
        Desk desk = new Desk(handle, wire, args.getJSONArray("answers"));
        producer.setTransactionListener(desk);
        producer.start();
        handles.put(handle + "/desk", desk, () -> { });
        handles.put(handle, producer, () -> shutdown(handle, producer));
        return producer.buildMQClientId();
    }

    private void shutdown(String handle, TransactionMQProducer producer) {
        handles.close(handle + "/desk");
        producer.shutdown();
    }

    /** "state" is what the local transaction returns; "answers" what checks of this message get, the last one repeated. */
    private Object send(JSONObject args) throws MQClientException {
        TransactionMQProducer producer = handles.get(args, TransactionMQProducer.class);
        return Messages.show(producer.sendMessageInTransaction(Messages.read(args), args));
    }

    private Object answers(JSONObject args) {
        desk(args).fallback = args.getJSONArray("answers");
        return null;
    }

    /** Answers checks; reports each as an event and keeps it for later questions. */
    private static final class Desk implements TransactionListener {
        private final String producer;
        private final Wire wire;
        private final Inbox checks = new Inbox();
        private final Map<String, JSONArray> answers = new ConcurrentHashMap<>();
        private final Map<String, AtomicInteger> asked = new ConcurrentHashMap<>();
        private volatile JSONArray fallback;

        Desk(String producer, Wire wire, JSONArray fallback) {
            this.producer = producer;
            this.wire = wire;
            this.fallback = fallback;
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
            JSONObject args = (JSONObject) arg;
            if (args.containsKey("answers")) {
                answers.put(message.getTransactionId(), args.getJSONArray("answers"));
            }
            if (args.getString("state").equals("THROW")) {
                throw new IllegalStateException("thrown as scripted");
            }
            return LocalTransactionState.valueOf(args.getString("state"));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String answer = next(message.getTransactionId());
            checks.add(message, answer);
            JSONObject event = new JSONObject();
            event.put("producer", producer);
            event.put("answer", answer);
            event.put("message", Messages.show(message));
            wire.event("check", event);
            return LocalTransactionState.valueOf(answer);
        }

        private String next(String transactionId) {
            JSONArray list = answers.getOrDefault(transactionId, fallback);
            int turn = asked.computeIfAbsent(transactionId, id -> new AtomicInteger()).getAndIncrement();
            return list.isEmpty() ? "UNKNOW" : list.getString(Math.min(turn, list.size() - 1));
        }
    }
}

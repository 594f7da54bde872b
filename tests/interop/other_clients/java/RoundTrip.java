import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends a message of each kind and prints, sorted, what came back to each kind of consumer. */
public final class RoundTrip implements TransactionListener {
    private static final ConcurrentSkipListSet<String> RECEIVED = new ConcurrentSkipListSet<>();
    private static String topic;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        topic = args[1];
        String group = args[2];
        CountDownLatch wanted = new CountDownLatch(Integer.parseInt(args[3]));
        send(namesrv, group);
        sendInTransactions(namesrv, group);
        consume(namesrv, group, wanted);
        wanted.await(30, TimeUnit.SECONDS);
        RECEIVED.add("pulled " + pull(namesrv, group));
        RECEIVED.forEach(System.out::println);
        System.exit(0);
    }

    private static Message message(String tag, String body) {
        return new Message(topic, tag, "key", body.getBytes(StandardCharsets.UTF_8));
    }

    private static void send(String namesrv, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group + "-plain");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        producer.send(message("A", "sync"));
        producer.send(message("B", "other tag"));
        producer.send(message("A", "again"));
        sendAsync(producer);
        producer.sendOneway(message("A", "oneway"));
        producer.send(Arrays.asList(message("A", "batch 0"), message("A", "batch 1")));
        producer.send(message("A", new String(new char[20000]).replace('\0', 'x')));
        for (int i = 0; i < 3; i++) {
            producer.send(message("A", "ordered " + i), new SelectMessageQueueByHash(), "key");
        }
        Message late = message("A", "delayed");
        late.setDelayTimeLevel(1);
        producer.send(late);
    }

    private static void sendAsync(DefaultMQProducer producer) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        producer.send(message("A", "async"), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.countDown();
            }

            @Override
            public void onException(Throwable error) {
                error.printStackTrace();
            }
        });
        done.await(10, TimeUnit.SECONDS);
    }

    private static void sendInTransactions(String namesrv, String group) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group + "-transactions");
        producer.setNamesrvAddr(namesrv);
        producer.setTransactionListener(new RoundTrip());
        producer.start();
        for (String state : new String[] {"COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"}) {
            producer.sendMessageInTransaction(message("A", state), null);
        }
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object unused) {
        return LocalTransactionState.valueOf(new String(message.getBody(), StandardCharsets.UTF_8));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }

    private static void consume(String namesrv, String group, CountDownLatch wanted) throws Exception {
        DefaultMQPushConsumer push = consumer(namesrv, group, "A || C");
        push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            boolean refused = text(message).equals("again") && message.getReconsumeTimes() == 0;
            take(refused ? "refused " : "pushed ", message, wanted);
            return refused ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQPushConsumer orderly = consumer(namesrv, group + "-orderly", "B");
        orderly.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            take("orderly ", messages.get(0), wanted);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        push.start();
        orderly.start();
    }

    private static DefaultMQPushConsumer consumer(String namesrv, String group, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        return consumer;
    }

    private static void take(String how, MessageExt message, CountDownLatch wanted) {
        if (RECEIVED.add(how + text(message))) {
            wanted.countDown();
        }
    }

    private static String text(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        return body.length() > 100 ? "large " + body.length() : body;
    }

    private static int pull(String namesrv, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group + "-pull");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        int count = 0;
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            count += consumer.pull(queue, "*", consumer.minOffset(queue), 32).getMsgFoundList() == null ? 0
                : (int) consumer.maxOffset(queue);
        }
        return count;
    }
}

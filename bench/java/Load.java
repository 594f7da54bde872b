import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Load by Apache's own client. Reads one case a line ("sync namesrv=... topic=... threads=16 size=128 millis=5000"),
 * answers with one line of JSON. One process serves all cases, so that its compiler is warm.
 */
public class Load {
    interface Case {
        Map<String, Object> run(Args args) throws Exception;
    }

    record Args(Map<String, String> values) {
        String text(String name) {
            return values.get(name);
        }

        int number(String name) {
            return Integer.parseInt(values.get(name));
        }
    }

    private static final AtomicLong COUNTER = new AtomicLong();

    public static void main(String[] ignored) throws Exception {
        Map<String, Case> cases = Map.of("sync", Load::sync, "async", Load::async, "oneway", Load::oneway,
            "batch", Load::batch, "push", Load::push, "pull", Load::pull, "latency", Load::latency, "fill", Load::fill,
            "idle", Load::idle);
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().trim().split(" ");
            Map<String, String> values = new HashMap<>();
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                values.put(pair[0], pair[1]);
            }
            try {
                System.out.println(json(cases.get(words[0]).run(new Args(values))));
            } catch (Throwable error) {
                System.out.println("{\"error\":\"" + String.valueOf(error).replaceAll("[\"\\\\\\n]", " ") + "\"}");
            }
            System.out.flush();
        }
        System.exit(0);
    }

    static DefaultMQProducer producer(Args args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-producer");
        producer.setNamesrvAddr(args.text("namesrv"));
        producer.setInstanceName("bench-" + COUNTER.incrementAndGet());
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        return producer;
    }

    interface Sender {
        int send(DefaultMQProducer producer) throws Exception;
    }

    /** Threads that call the sender until the time is over; counts messages and failures. */
    static Map<String, Object> threads(Args args, int threads, Sender sender) throws Exception {
        DefaultMQProducer producer = producer(args);
        try {
            return threads(args, producer, threads, sender);
        } finally {
            producer.shutdown();
        }
    }

    static Map<String, Object> threads(Args args, DefaultMQProducer producer, int threads, Sender sender)
        throws Exception {
        firstSend(producer, sender);
        LongAdder sent = new LongAdder();
        LongAdder failed = new LongAdder();
        long start = System.nanoTime();
        long end = start + TimeUnit.MILLISECONDS.toNanos(args.number("millis"));
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread worker = new Thread(() -> {
                while (System.nanoTime() < end) {
                    try {
                        sent.add(sender.send(producer));
                    } catch (Exception error) {
                        failed.increment();
                    }
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        Map<String, Object> result = result(sent.sum(), System.nanoTime() - start);
        result.put("failed", failed.sum());
        return result;
    }

    /** Makes the topic; right after its start a broker may not be known to the name server yet. */
    static void firstSend(DefaultMQProducer producer, Sender sender) throws Exception {
        for (int left = 10; left > 0; left--) {
            try {
                sender.send(producer);
                return;
            } catch (MQClientException error) {
                if (left == 1) {
                    throw error;
                }
                Thread.sleep(500);
            }
        }
    }

    static Map<String, Object> sync(Args args) throws Exception {
        byte[] body = new byte[args.number("size")];
        AtomicIntegerArray took = new AtomicIntegerArray(BUCKETS);
        AtomicLong stored = new AtomicLong();
        Map<String, Object> result = threads(args, args.number("threads"), producer -> {
            long start = System.nanoTime();
            boolean kept = producer.send(new Message(args.text("topic"), body)).getSendStatus() == SendStatus.SEND_OK;
            took.incrementAndGet((int) Math.min((System.nanoTime() - start) / BUCKET_NANOS, BUCKETS - 1));
            if (!kept) {
                stored.incrementAndGet();
            }
            return 1;
        });
        result.put("p50", percentile(took, 0.5));
        result.put("p99", percentile(took, 0.99));
        result.put("not_ok", stored.get());  // stored, but not as promised: no slave, or a slow one
        return result;
    }

    static final int BUCKETS = 100_000;
    static final long BUCKET_NANOS = 10_000;

    /** Milliseconds that a part of the sends took at most. */
    static double percentile(AtomicIntegerArray took, double part) {
        long all = 0;
        for (int i = 0; i < BUCKETS; i++) {
            all += took.get(i);
        }
        long seen = 0;
        for (int i = 0; i < BUCKETS; i++) {
            seen += took.get(i);
            if (seen >= all * part) {
                return (i + 1) * BUCKET_NANOS / 1e6;
            }
        }
        return 0;
    }

    /** Nobody answers a one-way message: what arrived is told by the queues' ends, once they stop moving. */
    static Map<String, Object> oneway(Args args) throws Exception {
        byte[] body = new byte[args.number("size")];
        DefaultMQProducer watcher = producer(args);
        DefaultMQProducer sender = producer(args);  // closed at the end: it may hold messages that it has not written yet
        watcher.send(new Message(args.text("topic"), body));
        long before = stored(watcher, args.text("topic"));
        long start = System.nanoTime();
        Map<String, Object> sent = threads(args, sender, args.number("threads"), producer -> {
            producer.sendOneway(new Message(args.text("topic"), body));
            return 1;
        });
        long last = 0;
        long moved = System.nanoTime();
        while (System.nanoTime() - moved < 2_000_000_000L) {
            long now = stored(watcher, args.text("topic"));
            if (now != last) {
                last = now;
                moved = System.nanoTime();
            }
            Thread.sleep(20);
        }
        watcher.shutdown();
        sender.shutdown();
        Map<String, Object> result = result(last - before, moved - start);
        result.put("failed", sent.get("failed"));
        result.put("lost", (long) sent.get("messages") + 1 - (last - before));
        return result;
    }

    static long stored(DefaultMQProducer producer, String topic) throws Exception {
        long sum = 0;
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            sum += producer.maxOffset(new MessageQueue(topic, queue.getBrokerName(), queue.getQueueId()));
        }
        return sum;
    }

    static Map<String, Object> batch(Args args) throws Exception {
        byte[] body = new byte[args.number("size")];
        return threads(args, args.number("threads"), producer -> {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < args.number("batch"); i++) {
                messages.add(new Message(args.text("topic"), body));
            }
            producer.send(messages);
            return messages.size();
        });
    }

    static Map<String, Object> async(Args args) throws Exception {
        byte[] body = new byte[args.number("size")];
        Semaphore window = new Semaphore(args.number("window"));
        LongAdder failures = new LongAdder();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                window.release();
            }

            @Override
            public void onException(Throwable error) {
                failures.increment();
                window.release();
            }
        };
        Map<String, Object> result = threads(args, args.number("threads"), producer -> {
            window.acquire();
            producer.send(new Message(args.text("topic"), body), callback);
            return 1;
        });
        result.put("failed", failures.sum());
        return result;
    }

    /** A backlog of `count` messages, in batches. */
    static Map<String, Object> fill(Args args) throws Exception {
        DefaultMQProducer producer = producer(args);
        byte[] body = new byte[args.number("size")];
        long start = System.nanoTime();
        long count = args.number("count");
        for (long sent = 0; sent < count; sent += 256) {
            List<Message> messages = new ArrayList<>();
            for (long i = sent; i < Math.min(sent + 256, count); i++) {
                messages.add(new Message(args.text("topic"), body));
            }
            producer.send(messages);
        }
        producer.shutdown();
        return result(count, System.nanoTime() - start);
    }

    static Map<String, Object> push(Args args) throws Exception {
        CountDownLatch left = new CountDownLatch(args.number("count"));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-push-" + System.nanoTime());
        consumer.setNamesrvAddr(args.text("namesrv"));
        consumer.setInstanceName("bench-" + COUNTER.incrementAndGet());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(args.values().containsKey("batch") ? args.number("batch") : 32);
        consumer.subscribe(args.text("topic"), "*");
        AtomicLong first = new AtomicLong();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            for (int i = 0; i < messages.size(); i++) {
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = left.await(180, TimeUnit.SECONDS);
        Map<String, Object> result = result(args.number("count") - left.getCount(), System.nanoTime() - first.get());
        result.put("failed", all ? 0 : left.getCount());
        consumer.shutdown();
        return result;
    }

    /** Starts a producer, sends one message and leaves the producer open: what an idle client costs. */
    static Map<String, Object> idle(Args args) throws Exception {
        long start = System.nanoTime();
        DefaultMQProducer producer = producer(args);
        firstSend(producer, each -> {
            each.send(new Message(args.text("topic"), new byte[args.number("size")]));
            return 1;
        });
        return result(1, System.nanoTime() - start);
    }

    static Map<String, Object> pull(Args args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("bench-pull");
        consumer.setNamesrvAddr(args.text("namesrv"));
        consumer.setInstanceName("bench-" + COUNTER.incrementAndGet());
        consumer.start();
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(args.text("topic"));
        long start = System.nanoTime();
        LongAdder pulled = new LongAdder();
        List<Thread> workers = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Thread worker = new Thread(() -> pullAll(consumer, queue, pulled));
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        Map<String, Object> result = result(pulled.sum(), System.nanoTime() - start);
        consumer.shutdown();
        return result;
    }

    static void pullAll(DefaultMQPullConsumer consumer, MessageQueue queue, LongAdder pulled) {
        try {
            long offset = 0;
            while (true) {
                PullResult answer = consumer.pull(queue, "*", offset, 32);
                if (answer.getPullStatus() != PullStatus.FOUND) {
                    return;
                }
                pulled.add(answer.getMsgFoundList().size());
                offset = answer.getNextBeginOffset();
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Sends at a fixed rate and measures from send to listener. */
    static Map<String, Object> latency(Args args) throws Exception {
        int count = args.number("rate") * args.number("millis") / 1000;
        long[] latencies = new long[count];
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-latency-" + System.nanoTime());
        consumer.setNamesrvAddr(args.text("namesrv"));
        consumer.setInstanceName("bench-" + COUNTER.incrementAndGet());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            messages.forEach(message -> {
                String stamp = message.getUserProperty("at");
                if (stamp != null) {
                    latencies[Integer.parseInt(message.getUserProperty("n"))] = now - Long.parseLong(stamp);
                    left.countDown();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = producer(args);
        producer.send(new Message(args.text("topic"), new byte[1]));
        consumer.start();
        Thread.sleep(3000);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long due = start + i * 1_000_000_000L / args.number("rate");
            while (System.nanoTime() < due) {
                LockSupport.parkNanos(50_000);
            }
            Message message = new Message(args.text("topic"), new byte[args.number("size")]);
            message.putUserProperty("n", String.valueOf(i));
            message.putUserProperty("at", String.valueOf(System.nanoTime()));
            producer.send(message, QUIET);
        }
        left.await(30, TimeUnit.SECONDS);
        Map<String, Object> result = result(count - left.getCount(), System.nanoTime() - start);
        Arrays.sort(latencies);
        result.put("p50", latencies[count / 2] / 1e6);
        result.put("p99", latencies[count * 99 / 100] / 1e6);
        result.put("p999", latencies[count * 999 / 1000] / 1e6);
        consumer.shutdown();
        producer.shutdown();
        return result;
    }

    private static final SendCallback QUIET = new SendCallback() {
        @Override
        public void onSuccess(SendResult result) {
        }

        @Override
        public void onException(Throwable error) {
        }
    };

    static Map<String, Object> result(long messages, long nanos) {
        Map<String, Object> result = new HashMap<>();
        result.put("messages", messages);
        result.put("seconds", nanos / 1e9);
        return result;
    }

    static String json(Map<String, Object> result) {
        List<String> members = new ArrayList<>();
        result.forEach((name, value) -> members.add("\"" + name + "\":" + value));
        return "{" + String.join(",", members) + "}";
    }
}

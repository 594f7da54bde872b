package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Many messages from several threads; the body of message i begins with "prefix-i" and is filled with dots to its size.
 * Failures are part of the result: a test that kills a broker meanwhile wants to know exactly what was acknowledged.
 */
final class Burst {
    private final DefaultMQProducer producer;
    private final ExecutorService threads;
    private final String topic;
    private final String prefix;
    private final String mode;
    private final String tags;
    private final String keyPrefix;
    private final int hashKeys;
    private final int count;
    private final int size;
    private final int threadCount;
    private final int windowSize;
    private final Semaphore window;
    private final AtomicInteger next = new AtomicInteger();
    private final List<Object> sent = new ArrayList<>();
    private final List<Object> failed = new ArrayList<>();

    Burst(DefaultMQProducer producer, JSONObject args, ExecutorService threads) {
        this.producer = producer;
        this.threads = threads;
        topic = args.getString("topic");
        prefix = args.getString("prefix");
        mode = args.getString("mode");
        tags = args.getString("tags");
        keyPrefix = args.getString("keyPrefix");
        hashKeys = args.getIntValue("hashKeys");
        count = args.getIntValue("count");
        size = args.getIntValue("size");
        threadCount = args.getIntValue("threads");
        windowSize = args.getIntValue("window");
        window = new Semaphore(windowSize);
    }

    Object run() throws Exception {
        List<Future<?>> workers = new ArrayList<>();
        for (int i = 0; i < threadCount; i++) {
            workers.add(threads.submit(this::work));
        }
        for (Future<?> worker : workers) {
            worker.get();
        }
        return Map.of("sent", sent, "failed", failed);
    }

    private Void work() throws InterruptedException {
        for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
            Message message = new Message(topic, tags, keyPrefix == null ? null : keyPrefix + i, body(i));
            try {
                send(i, message);
            } catch (InterruptedException e) {
                throw e;
            } catch (Exception e) {
                fail(i, e);
            }
        }
        drain();
        return null;
    }

    private byte[] body(int i) {
        byte[] name = (prefix + "-" + i).getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(name, Math.max(size, name.length));
        Arrays.fill(body, name.length, body.length, (byte) '.');
        return body;
    }

    private void send(int i, Message message) throws Exception {
        switch (mode) {
            case "sync" -> succeed(i, hashKeys > 0 ? sendByHash(i, message) : producer.send(message));
            case "oneway" -> producer.sendOneway(message);
            case "async" -> sendAsync(i, message);
            default -> throw new IllegalArgumentException("no such mode: " + mode);
        }
    }

    private SendResult sendByHash(int i, Message message) throws Exception {
        return producer.send(message, Sends.BY_HASH, String.valueOf(i % hashKeys));
    }

    private void sendAsync(int i, Message message) throws Exception {
        window.acquire();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                succeed(i, result);
                window.release();
            }

            @Override
            public void onException(Throwable error) {
                fail(i, error);
                window.release();
            }
        });
    }

    /** Waits for the answers still under way: with all permits back there are none. */
    private void drain() throws InterruptedException {
        if (mode.equals("async")) {
            window.acquire(windowSize);
            window.release(windowSize);
        }
    }

    private void succeed(int i, SendResult result) {
        Map<String, Object> shown = Messages.show(result);
        shown.put("index", i);
        synchronized (sent) {
            sent.add(shown);
        }
    }

    private void fail(int i, Throwable error) {
        Map<String, Object> shown = new HashMap<>(Wire.describe(error));
        shown.put("index", i);
        synchronized (failed) {
            failed.add(shown);
        }
    }
}

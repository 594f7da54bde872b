package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The deliveries a listener has seen, in order, with the verdict it gave on each; waits for more on request. */
final class Inbox {
    private final List<Map<String, Object>> deliveries = new ArrayList<>();
    private final Map<MessageQueue, Long> ends = new HashMap<>();

    synchronized void add(MessageExt message, String verdict) {
        Map<String, Object> shown = Messages.show(message);
        shown.put("verdict", verdict);
        shown.put("arrivedAt", System.currentTimeMillis());
        shown.put("thread", Thread.currentThread().getName());
        deliveries.add(shown);
        if (message.getReconsumeTimes() == 0) {  // a retried one shows its first topic, but lies in another queue
            MessageQueue queue = new MessageQueue(message.getTopic(), message.getBrokerName(), message.getQueueId());
            ends.merge(queue, message.getQueueOffset() + 1, Math::max);
        }
        notifyAll();
    }

    /** Waits until "count" deliveries are there or "timeout" milliseconds have passed; returns all from "from" on. */
    synchronized Object await(JSONObject args) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(args.getLongValue("timeout"));
        for (long left = deadline - System.nanoTime(); deliveries.size() < args.getIntValue("count") && left > 0;
             left = deadline - System.nanoTime()) {
            TimeUnit.NANOSECONDS.timedWait(this, left);
        }
        return since(args.getIntValue("from"));
    }

    synchronized List<Map<String, Object>> since(int from) {
        return new ArrayList<>(deliveries.subList(Math.min(from, deliveries.size()), deliveries.size()));
    }

    /** The offset behind the last delivery of each queue. */
    synchronized Map<MessageQueue, Long> ends() {
        return new HashMap<>(ends);
    }

    synchronized int clear() {
        int size = deliveries.size();
        deliveries.clear();
        return size;
    }
}

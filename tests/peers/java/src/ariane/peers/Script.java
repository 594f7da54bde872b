package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * What a listener answers. Fields, all optional: "fail" (this many first deliveries of each message fail),
 * "failPrefix" (but only of messages whose body begins so), "result" (the
 * answer once they are over, default SUCCESS), "failure" (what failing means, default RECONSUME_LATER or
 * SUSPEND_CURRENT_QUEUE_A_MOMENT; THROW and NULL too), "hold" (block until released), "delayLevel", "suspendMillis",
 * "ackIndex" and "reply" (base64 body or "echo", sent by the producer named in "replyBy").
 */
final class Script {
    private final JSONObject fields;
    private final Map<String, AtomicInteger> deliveries = new ConcurrentHashMap<>();
    private final CountDownLatch released;

    Script(JSONObject fields) {
        this.fields = fields == null ? new JSONObject() : fields;
        this.released = new CountDownLatch(this.fields.getBooleanValue("hold") ? 1 : 0);
    }

    /** Decides this delivery; blocks first while the script holds. */
    String verdict(MessageExt message, String success, String failure) throws InterruptedException {
        released.await();
        int delivery = deliveries.computeIfAbsent(message.getMsgId(), id -> new AtomicInteger()).incrementAndGet();
        if (delivery <= fields.getIntValue("fail") && concerns(message)) {
            return text("failure", failure);
        }
        return text("result", success);
    }

    private boolean concerns(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8).startsWith(text("failPrefix", ""));
    }

    void release() {
        released.countDown();
    }

    Integer number(String name) {
        return fields.getInteger(name);
    }

    String text(String name, String otherwise) {
        return fields.containsKey(name) ? fields.getString(name) : otherwise;
    }
}

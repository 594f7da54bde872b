package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.List;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.MessageExt;

/** The scripted listener of a push consumer: notes every delivery in the inbox and answers as the script says. */
final class Listener {
    final Inbox inbox = new Inbox();
    private final Handles handles;
    private final Wire wire;
    private final String consumer;
    private final boolean events;
    private volatile Script script;

    Listener(Handles handles, Wire wire, JSONObject args) {
        this.handles = handles;
        this.wire = wire;
        this.consumer = args.getString("handle");
        this.events = args.getBooleanValue("events");
        this.script = new Script(args.getJSONObject("script"));
    }

    /** Puts another script in place of this one, letting go what the old one held. */
    void follow(Script next) {
        Script old = script;
        script = next;
        old.release();
    }

    void release() {
        script.release();
    }

    ConsumeConcurrentlyStatus concurrently(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        Script current = script;
        String verdict = judge(current, messages, "CONSUME_SUCCESS", "RECONSUME_LATER");
        if (current.number("delayLevel") != null) {
            context.setDelayLevelWhenNextConsume(current.number("delayLevel"));
        }
        if (current.number("ackIndex") != null) {
            context.setAckIndex(current.number("ackIndex"));
        }
        return verdict.equals("NULL") ? null : ConsumeConcurrentlyStatus.valueOf(verdict);
    }

    ConsumeOrderlyStatus orderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
        Script current = script;
        String verdict = judge(current, messages, "SUCCESS", "SUSPEND_CURRENT_QUEUE_A_MOMENT");
        if (current.number("suspendMillis") != null) {
            context.setSuspendCurrentQueueTimeMillis(current.number("suspendMillis"));
        }
        return verdict.equals("NULL") ? null : ConsumeOrderlyStatus.valueOf(verdict);
    }

    /** One verdict for the batch: the worst of its messages. */
    private String judge(Script current, List<MessageExt> messages, String success, String failure) {
        String whole = success;
        try {
            for (MessageExt message : messages) {
                String verdict = current.verdict(message, success, failure);
                note(message, verdict);
                whole = verdict.equals(success) ? whole : verdict;
                reply(current, message);
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        if (whole.equals("THROW")) {
            throw new IllegalStateException("thrown as scripted");
        }
        return whole;
    }

    private void note(MessageExt message, String verdict) {
        inbox.add(message, verdict);
        if (events) {
            JSONObject event = new JSONObject();
            event.put("consumer", consumer);
            event.put("message", Messages.show(message));
            wire.event("message", event);
        }
    }

    private void reply(Script current, MessageExt message) throws Exception {
        String body = current.text("reply", null);
        if (body != null) {
            DefaultMQProducer producer = handles.get(current.text("replyBy", null), DefaultMQProducer.class);
            byte[] bytes = body.equals("echo") ? message.getBody() : Messages.bytes(body);
            producer.send(MessageUtil.createReplyMessage(message, bytes));
        }
    }
}

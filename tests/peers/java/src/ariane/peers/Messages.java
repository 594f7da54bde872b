package ariane.peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages, queues and send results, to and from JSON. */
final class Messages {
    private Messages() { }

    static Message read(JSONObject json) {
        Message message = new Message(json.getString("topic"), bytes(json.getString("body")));
        message.setFlag(json.getIntValue("flag"));
        if (json.containsKey("tags")) {
            message.setTags(json.getString("tags"));
        }
        if (json.containsKey("keys")) {
            message.setKeys(json.getString("keys"));
        }
        if (json.containsKey("delayLevel")) {
            message.setDelayTimeLevel(json.getIntValue("delayLevel"));
        }
        if (json.containsKey("waitStoreMsgOK")) {
            message.setWaitStoreMsgOK(json.getBooleanValue("waitStoreMsgOK"));
        }
        JSONObject properties = json.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) -> message.putUserProperty(name, value.toString()));
        }
        return message;
    }

    static List<Message> readAll(JSONArray array) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            messages.add(read(array.getJSONObject(i)));
        }
        return messages;
    }

    static byte[] bytes(String base64) {
        return base64 == null ? null : Base64.getDecoder().decode(base64);
    }

    static MessageQueue queue(JSONObject json) {
        return new MessageQueue(json.getString("topic"), json.getString("brokerName"), json.getIntValue("queueId"));
    }

    static Map<String, Object> show(MessageExt message) {
        Map<String, Object> shown = new HashMap<>();
        shown.put("topic", message.getTopic());
        shown.put("msgId", message.getMsgId());
        shown.put("offsetMsgId", message instanceof MessageClientExt ext ? ext.getOffsetMsgId() : message.getMsgId());
        shown.put("body", message.getBody() == null ? null : Base64.getEncoder().encodeToString(message.getBody()));
        shown.put("flag", message.getFlag());
        shown.put("tags", message.getTags());
        shown.put("keys", message.getKeys());
        shown.put("properties", new HashMap<>(message.getProperties()));
        shown.put("brokerName", message.getBrokerName());
        shown.put("queueId", message.getQueueId());
        shown.put("queueOffset", message.getQueueOffset());
        shown.put("commitLogOffset", message.getCommitLogOffset());
        shown.put("storeSize", message.getStoreSize());
        shown.put("sysFlag", message.getSysFlag());
        shown.put("bodyCRC", message.getBodyCRC());
        shown.put("reconsumeTimes", message.getReconsumeTimes());
        shown.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        shown.put("transactionId", message.getTransactionId());
        shown.put("bornTimestamp", message.getBornTimestamp());
        shown.put("bornHost", Plain.of(message.getBornHost()));
        shown.put("storeTimestamp", message.getStoreTimestamp());
        shown.put("storeHost", Plain.of(message.getStoreHost()));
        return shown;
    }

    static Map<String, Object> show(SendResult result) {
        Map<String, Object> shown = new HashMap<>();
        shown.put("status", result.getSendStatus().name());
        shown.put("msgId", result.getMsgId());
        shown.put("offsetMsgId", result.getOffsetMsgId());
        shown.put("topic", result.getMessageQueue().getTopic());
        shown.put("brokerName", result.getMessageQueue().getBrokerName());
        shown.put("queueId", result.getMessageQueue().getQueueId());
        shown.put("queueOffset", result.getQueueOffset());
        shown.put("transactionId", result.getTransactionId());
        shown.put("regionId", result.getRegionId());
        shown.put("traceOn", result.isTraceOn());
        if (result instanceof TransactionSendResult transactional) {
            shown.put("localState", transactional.getLocalTransactionState());
        }
        return shown;
    }
}

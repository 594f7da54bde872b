import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;

/** Prints what Apache's allocation strategies give for many inputs: one JSON object a line. */
public class Allocations {
    static final AllocateMachineRoomNearby.MachineRoomResolver ROOMS = new AllocateMachineRoomNearby.MachineRoomResolver() {
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().split("@")[0];
        }

        public String consumerDeployIn(String id) {
            return id.split("-")[0];
        }
    };

    static List<MessageQueue> queues(List<String> brokers, int each) {
        List<MessageQueue> queues = new ArrayList<>();
        for (String broker : brokers) {
            for (int i = 0; i < each; i++) {
                queues.add(new MessageQueue("orders", broker, i));
            }
        }
        return queues;
    }

    static List<String> members(List<String> rooms, int each) {
        List<String> members = new ArrayList<>();
        for (String room : rooms) {
            for (int i = 0; i < each; i++) {
                members.add(room + "-10.0.0." + i + "@" + (4000 + 7 * i));
            }
        }
        return members;
    }

    static void print(String name, AllocateMessageQueueStrategy strategy, List<MessageQueue> queues, List<String> members) {
        Map<String, Object> line = new LinkedHashMap<>();
        Map<String, List<String>> shares = new LinkedHashMap<>();
        for (String member : members) {
            List<String> share = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", member, queues, members)) {
                share.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
            shares.put(member, share);
        }
        List<String> names = new ArrayList<>();
        for (MessageQueue queue : queues) {
            names.add(queue.getBrokerName() + ":" + queue.getQueueId());
        }
        line.put("strategy", name);
        line.put("queues", names);
        line.put("shares", shares);
        System.out.println(JSON.toJSONString(line));
    }

    public static void main(String[] args) {
        AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
        byRoom.setConsumeridcs(new HashSet<>(Arrays.asList("r1", "r3")));
        AllocateMachineRoomNearby nearby = new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), ROOMS);
        for (int each : new int[] {1, 3, 8}) {
            for (int count : new int[] {1, 2, 3, 5}) {
                List<MessageQueue> queues = queues(Arrays.asList("r1@a", "r2@b", "r3@c", "r4@d"), each);
                List<String> members = members(Arrays.asList("r1", "r2"), count);
                print("averagely", new AllocateMessageQueueAveragely(), queues, members);
                print("by_circle", new AllocateMessageQueueAveragelyByCircle(), queues, members);
                print("consistent_hash", new AllocateMessageQueueConsistentHash(), queues, members);
                print("consistent_hash_40", new AllocateMessageQueueConsistentHash(40), queues, members);
                print("by_machine_room", byRoom, queues, members);
                print("machine_room_nearby", nearby, queues, members);
            }
        }
    }
}

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends a message for each way to ask for a delivery time, and prints when it is due. */
public final class TimedSends {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("timed-sends");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        for (String way : new String[] {"deliverTimeMs", "delayTimeMs", "delayTimeSec"}) {
            Message message = new Message(args[1], way.getBytes(StandardCharsets.UTF_8));
            long now = System.currentTimeMillis();
            if (way.equals("deliverTimeMs")) {
                message.setDeliverTimeMs(now + 1500);
            } else if (way.equals("delayTimeMs")) {
                message.setDelayTimeMs(1500);
            } else {
                message.setDelayTimeSec(2);
            }
            System.out.println(way + " " + producer.send(message).getSendStatus()
                + " " + (now + (way.equals("delayTimeSec") ? 2000 : 1500)));
        }
        producer.shutdown();
        System.exit(0);
    }
}

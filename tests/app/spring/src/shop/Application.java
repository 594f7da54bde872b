package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Component;

/** A shop as Spring teams write it. Its stdin takes one command a line as JSON; its stdout tells what it got. */
@SpringBootApplication
public class Application implements CommandLineRunner {
    static final ObjectMapper JSON = new ObjectMapper();
    private final RocketMQTemplate template;

    public Application(RocketMQTemplate template) {
        this.template = template;
    }

    public static void main(String[] args) {
        SpringApplication.run(Application.class, args);
    }

    public static class Order {
        public int id;
        public String item;
        public int amount;
    }

    public static class Invoice {
        public int id;
        public double total;
    }

    static synchronized void tell(String what, Object value) {
        try {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("event", what);
            line.put("value", value);
            System.out.println("@" + JSON.writeValueAsString(line));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    abstract static class FromFirst implements RocketMQPushConsumerLifecycleListener {
        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${shop.orders}", consumerGroup = "${shop.orders}-spring", selectorExpression = "paid || refunded")
    public static class Orders extends FromFirst implements RocketMQListener<Order> {
        @Override
        public void onMessage(Order order) {
            tell("order", order);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${shop.orders}", consumerGroup = "${shop.orders}-spring-raw")
    public static class Raw extends FromFirst implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt message) {
            tell("raw", message.getProperties());
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${shop.steps}", consumerGroup = "${shop.steps}-spring", consumeMode = ConsumeMode.ORDERLY)
    public static class Steps extends FromFirst implements RocketMQListener<Order> {
        @Override
        public void onMessage(Order order) {
            tell("step", order);
        }
    }

    @Component
    @RocketMQMessageListener(topic = "${shop.prices}", consumerGroup = "${shop.prices}-spring")
    public static class Prices extends FromFirst implements RocketMQReplyListener<Order, Invoice> {
        @Override
        public Invoice onMessage(Order order) {
            Invoice invoice = new Invoice();
            invoice.id = order.id;
            invoice.total = order.amount * 2.5;
            return invoice;
        }
    }

    @Component
    @RocketMQTransactionListener
    public static class Transactions implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return RocketMQLocalTransactionState.valueOf((String) argument);
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return RocketMQLocalTransactionState.COMMIT;
        }
    }

    @Override
    public void run(String... args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        tell("ready", true);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                tell("done", command(JSON.readTree(line)));
            } catch (Exception error) {
                tell("failed", error.toString());
            }
        }
        System.exit(0);
    }

    private Object command(JsonNode command) throws Exception {
        String destination = command.get("to").asText();
        Order order = JSON.treeToValue(command.get("order"), Order.class);
        switch (command.get("op").asText()) {
            case "send":
                return template.syncSend(destination, MessageBuilder.withPayload(order)
                    .setHeader("KEYS", "key-" + order.id).setHeader("region", "eu").build()).getSendStatus().name();
            case "batch":
                List<Message<Order>> batch = new ArrayList<>();
                for (int i = 0; i < 3; i++) {
                    batch.add(MessageBuilder.withPayload(order).build());
                }
                return template.syncSend(destination, batch).getSendStatus().name();
            case "async":
                template.asyncSend(destination, order, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        tell("async", result.getSendStatus().name());
                    }

                    @Override
                    public void onException(Throwable error) {
                        tell("async", error.toString());
                    }
                });
                return true;
            case "oneway":
                template.sendOneWay(destination, order);
                return true;
            case "orderly":
                return template.syncSendOrderly(destination, order, order.item).getMessageQueue().getQueueId();
            case "delay":
                return template.syncSend(destination, MessageBuilder.withPayload(order).build(), 10000, 1)
                    .getSendStatus().name();
            case "delaySeconds":
                return template.syncSendDelayTimeSeconds(destination, order, 2).getSendStatus().name();
            case "request":
                return template.sendAndReceive(destination, order, Invoice.class, 30000L);
            case "transaction":
                return template.sendMessageInTransaction(
                    destination, MessageBuilder.withPayload(order).build(), command.get("fate").asText()
                ).getLocalTransactionState().name();
            default:
                throw new IllegalArgumentException(command.toString());
        }
    }
}

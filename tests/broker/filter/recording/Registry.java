import java.util.Arrays;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.filter.util.BloomFilter;

/** Prints a consumerFilter.json and bit positions; the last lines of its output are apache_registry.json. */
public class Registry {
    private static final int[][] SIZES = {{20, 32}, {20, 64}, {1, 1}, {99, 1000}, {50, 7}, {10, 128}, {33, 200}};
    private static final String[] NAMES = {
        "", "a", "group1#TopicA", "GID_order#OrderTopic", "1234567890123456", "12345678901234567",
        "a-much-longer-group-name-than-thirty-two-bytes#topic", "\u4e2d\u6587#\u4e3b\u9898"
    };

    public static void main(String[] args) {
        ConsumerFilterManager filters = new ConsumerFilterManager();
        filters.register("TopicA", "group1", "a > 5", "SQL92", 1234567890123L);
        filters.register("TopicA", "group2", "b = 'it''s' AND c IS NULL", "SQL92", 5L);
        filters.register("TopicB", "group1", "c IS NULL", "SQL92", 6L);
        filters.unRegister("group2");
        StringBuilder out = new StringBuilder("{\"file\": " + filters.encode(false) + ",\n\"positions\": [\n");
        for (int[] size : SIZES) {
            out.append(size == SIZES[0] ? "" : ",\n").append(row(size));
        }
        System.out.println(out + "\n]}");
    }

    private static String row(int[] size) {
        BloomFilter bloom = BloomFilter.createByFn(size[0], size[1]);
        StringBuilder row = new StringBuilder("[" + Arrays.toString(size) + ", " + bloom.getK() + ", " + bloom.getM() + ", {");
        for (String name : NAMES) {
            row.append(name.isEmpty() ? "" : ", ").append('"').append(name).append("\": ");
            row.append(Arrays.toString(bloom.calcBitPositions(name)));
        }
        return row + "}]";
    }
}

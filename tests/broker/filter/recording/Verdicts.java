import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/** Reads property sets and expressions, writes what Apache's SQL92 filter says of each pair; see record.py. */
public class Verdicts {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int sets = Integer.parseInt(in.readLine());
        List<EvaluationContext> contexts = new ArrayList<>();
        for (int i = 0; i < sets; i++) {
            contexts.add(new Context(in.readLine()));
        }
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.append(verdicts(text(line), contexts)).append('\n');
        }
        System.out.print(out);
    }

    private static String verdicts(String sql, List<EvaluationContext> contexts) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(sql);
        } catch (Throwable refused) {
            return "!";
        }
        StringBuilder row = new StringBuilder();
        for (EvaluationContext context : contexts) {
            row.append(verdict(compiled, context));
        }
        return row.toString();
    }

    private static char verdict(Expression compiled, EvaluationContext context) {
        try {
            Object value = compiled.evaluate(context);
            return value == null ? 'N' : value.equals(Boolean.TRUE) ? 'T' : 'F';
        } catch (Throwable failed) {
            return 'X';
        }
    }

    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }

    private static final class Context implements EvaluationContext {
        private final Map<String, Object> values = new HashMap<>();

        Context(String line) {
            for (String pair : line.split(",")) {
                if (!pair.isEmpty()) {
                    int colon = pair.indexOf(':');
                    values.put(text(pair.substring(0, colon)), text(pair.substring(colon + 1)));
                }
            }
        }

        @Override
        public Object get(String name) {
            return values.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return values;
        }
    }
}

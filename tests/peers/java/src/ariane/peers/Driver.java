package ariane.peers;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.ClientConfig;

/** Reads one JSON request a line from stdin, runs each on its own thread, and answers on stdout; ends with stdin. */
public final class Driver {
    private final Map<String, Op> ops = new TreeMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(Driver::daemon);
    private final Wire wire;

    private Driver(Wire wire) {
        this.wire = wire;
        Handles handles = new Handles();
        new Producers(handles).register(ops);
        new Sends(handles, threads).register(ops);
        new Transactions(handles, wire).register(ops);
        new PushConsumers(handles, wire).register(ops);
        new PullConsumers(handles).register(ops);
        new Admins(handles).register(ops);
        new AdminTool.Runner().register(ops);
        ops.put("invoke", new Invoke(handles)::run);
        ops.put("client.refresh", args -> Options.refresh(handles.get(args, ClientConfig.class)));
        ops.put("close", args -> handles.close(args.getString("handle")));
        ops.put("handles", args -> handles.names());
        ops.put("ops", args -> ops.keySet());
    }

    public static void main(String[] args) throws IOException {
        Wire wire = Wire.takeStdout();
        new Driver(wire).serve();
        // Clients leave non-daemon threads behind; whoever closed stdin wants this JVM gone.
        Runtime.getRuntime().halt(0);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "op");
        thread.setDaemon(true);
        return thread;
    }

    private void serve() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        wire.ready();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject request = JSON.parseObject(line);
            threads.execute(() -> answer(request));
        }
    }

    private void answer(JSONObject request) {
        long id = request.getLongValue("id");
        try {
            Op op = ops.get(request.getString("op"));
            if (op == null) {
                throw new IllegalArgumentException("no such op: " + request.getString("op"));
            }
            wire.result(id, Plain.of(op.run(request)));
        } catch (Throwable error) {
            wire.error(id, error);
        }
    }
}

package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.apache.commons.cli.Options;
import org.apache.commons.cli.ParseException;
import org.apache.commons.cli.PosixParser;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.srvutil.ServerUtil;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.SubCommand;

/** Apache's mqadmin inside this JVM, its output caught as text. A subclass only to reach the list of subcommands. */
final class AdminTool extends MQAdminStartup {
    private AdminTool() { }

    /** Runs mqadmin once; bad options print the help as the tool does, but do not end the JVM as the tool would. */
    private static void call(String[] args) {
        subCommandList.clear();
        initCommand();
        SubCommand command = find(args[0]);
        if (command == null || usable(command, Arrays.copyOfRange(args, 1, args.length))) {
            subCommandList.clear();
            main0(args, null);
        } else {
            ServerUtil.printCommandLineHelp("mqadmin " + command.commandName(), options(command));
        }
    }

    private static SubCommand find(String name) {
        for (SubCommand command : subCommandList) {
            if (command.commandName().equalsIgnoreCase(name) || name.equalsIgnoreCase(command.commandAlias())) {
                return command;
            }
        }
        return null;
    }

    private static Options options(SubCommand command) {
        return command.buildCommandlineOptions(ServerUtil.buildCommandlineOptions(new Options()));
    }

    private static boolean usable(SubCommand command, String[] args) {
        try {
            return !new PosixParser().parse(options(command), args).hasOption('h');
        } catch (ParseException e) {
            return false;
        }
    }

    /** The op: one mqadmin at a time, since stdout, the name server property and the key file belong to the whole JVM. */
    static final class Runner {
        void register(Map<String, Op> ops) {
            ops.put("mqadmin", this::run);
        }

        private synchronized Object run(JSONObject args) throws IOException, InterruptedException {
            String[] words = args.getJSONArray("args").toArray(new String[0]);
            Path keys = Path.of(System.getProperty(MixAll.ROCKETMQ_HOME_PROPERTY), "conf", "tools.yml");
            if (args.containsKey("accessKey")) {
                Files.writeString(keys, "accessKey: \"" + args.getString("accessKey") + "\"\nsecretKey: \""
                    + args.getString("secretKey") + "\"\n");
            }
            try {
                return capture(words, args.getLongValue("timeout"));
            } finally {
                Files.deleteIfExists(keys);
                System.clearProperty(MixAll.NAMESRV_ADDR_PROPERTY);
            }
        }

        /** What was printed within the time; some subcommands never end by themselves. */
        private static Object capture(String[] words, long timeout) throws InterruptedException {
            ByteArrayOutputStream caught = new ByteArrayOutputStream();
            PrintStream out = System.out;
            PrintStream err = System.err;
            PrintStream text = new PrintStream(caught, true, StandardCharsets.UTF_8);
            Thread tool = new Thread(() -> call(words), "mqadmin");
            tool.setDaemon(true);
            System.setOut(text);
            System.setErr(text);
            try {
                tool.start();
                tool.join(timeout);
            } finally {
                System.setOut(out);
                System.setErr(err);
            }
            boolean finished = !tool.isAlive();
            tool.interrupt();
            return Map.of("text", caught.toString(StandardCharsets.UTF_8), "finished", finished);
        }
    }
}

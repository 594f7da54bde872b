package ariane.peers;

import java.io.IOException;
import java.util.Arrays;

/** Runs an Apache main class unchanged, but ends with stdin, so that no server outlives the test run that started it. */
public final class Server {
    private Server() { }

    public static void main(String[] args) throws ReflectiveOperationException {
        Thread watch = new Thread(Server::endWithStdin, "end-with-stdin");
        watch.setDaemon(true);
        watch.start();
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void endWithStdin() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is ever sent; only the end matters.
            }
        } catch (IOException e) {
            System.err.println("stdin failed, ending: " + e);
        }
        Runtime.getRuntime().halt(3);
    }
}

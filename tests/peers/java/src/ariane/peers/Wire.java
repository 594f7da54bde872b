package ariane.peers;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/** The answering side of the line protocol: results, errors and events, one JSON object a line. */
final class Wire {
    private static final SerializerFeature[] FEATURES = {
        SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.WriteMapNullValue};
    private final OutputStream out;

    private Wire(OutputStream out) {
        this.out = out;
    }

    /** Keeps the real stdout for the protocol; whatever the client library prints goes to stderr from now on. */
    static Wire takeStdout() {
        Wire wire = new Wire(new FileOutputStream(FileDescriptor.out));
        System.setOut(System.err);
        return wire;
    }

    void ready() {
        event("ready", new JSONObject());
    }

    void result(long id, Object value) {
        JSONObject line = new JSONObject();
        line.put("id", id);
        line.put("ok", true);
        line.put("result", value);
        write(line);
    }

    void error(long id, Throwable error) {
        JSONObject line = new JSONObject();
        line.put("id", id);
        line.put("ok", false);
        line.put("error", describe(error));
        write(line);
    }

    void event(String name, JSONObject fields) {
        fields.put("event", name);
        write(fields);
    }

    static JSONObject describe(Throwable error) {
        JSONObject shown = new JSONObject();
        shown.put("class", error.getClass().getName());
        shown.put("message", error.getMessage());
        shown.put("code", code(error));
        shown.put("cause", error.getCause() == null ? null : error.getCause().toString());
        return shown;
    }

    private static Integer code(Throwable error) {
        if (error instanceof MQBrokerException) {
            return ((MQBrokerException) error).getResponseCode();
        }
        if (error instanceof MQClientException) {
            return ((MQClientException) error).getResponseCode();
        }
        return null;
    }

    private synchronized void write(JSONObject line) {
        String text = JSON.toJSONString(line, FEATURES) + "\n";
        try {
            out.write(text.getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}

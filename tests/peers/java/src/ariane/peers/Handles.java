package ariane.peers;

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/** Everything a test has opened, by the name the test gave it. */
final class Handles {
    /** What one name stands for, and how to end it. */
    private record Entry(Object object, Runnable close) { }

    private final Map<String, Entry> entries = new ConcurrentHashMap<>();

    void put(String name, Object object, Runnable close) {
        if (entries.putIfAbsent(name, new Entry(object, close)) != null) {
            throw new IllegalStateException("handle is in use: " + name);
        }
    }

    <T> T get(JSONObject args, Class<T> type) {
        return get(args.getString("handle"), type);
    }

    <T> T get(String name, Class<T> type) {
        Entry entry = entries.get(name);
        if (entry == null) {
            throw new IllegalArgumentException("no such handle: " + name);
        }
        return type.cast(entry.object());
    }

    boolean close(String name) {
        Entry entry = entries.remove(name);
        if (entry != null) {
            entry.close().run();
        }
        return entry != null;
    }

    Set<String> names() {
        return new TreeSet<>(entries.keySet());
    }
}

package ariane.peers;

import com.alibaba.fastjson.JSONObject;

/** One operation of the driver: arguments in, a value that {@link Plain} can show out. */
@FunctionalInterface
interface Op {
    Object run(JSONObject args) throws Exception;
}

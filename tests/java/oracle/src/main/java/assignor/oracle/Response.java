package assignor.oracle;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;

/**
 * Bodies of answers: int8 0 and {int32 n, n x {member id string, int32 n, n x {topic string, int32 n, n x int32}}}, or int8
 * 1 and what was thrown as string. A plan is told as it is: also a partition that doesn't exist, or one that is twice in it.
 */
final class Response {
    /** As much of an error as a string can hold, however many bytes its characters take. */
    private static final int MOST_OF_AN_ERROR = 8_000;

    private Response() {
    }

    static byte[] plan(Map<String, List<TopicPartition>> plan) {
        return bytes(out -> {
            out.writeByte(0);
            out.writeInt(plan.size());
            for (Map.Entry<String, List<TopicPartition>> member : plan.entrySet()) {
                string(out, member.getKey());
                Map<String, List<TopicPartition>> topics = member.getValue().stream()
                    .collect(Collectors.groupingBy(TopicPartition::topic, TreeMap::new, Collectors.toList()));
                out.writeInt(topics.size());
                for (Map.Entry<String, List<TopicPartition>> topic : topics.entrySet()) {
                    string(out, topic.getKey());
                    out.writeInt(topic.getValue().size());
                    for (TopicPartition partition : topic.getValue())
                        out.writeInt(partition.partition());
                }
            }
        });
    }

    /** What was thrown, and where. */
    static byte[] error(Throwable e) {
        StackTraceElement[] trace = e.getStackTrace();
        String where = trace.length == 0 ? "" : " at " + trace[0];
        String text = e + where;
        return bytes(out -> {
            out.writeByte(1);
            string(out, text.substring(0, Math.min(text.length(), MOST_OF_AN_ERROR)));
        });
    }

    private interface Body {
        void write(DataOutputStream out) throws IOException;
    }

    private static byte[] bytes(Body body) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try {
            body.write(new DataOutputStream(bytes));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    private static void string(DataOutputStream out, String string) throws IOException {
        byte[] utf8 = string.getBytes(StandardCharsets.UTF_8);
        out.writeShort(utf8.length);
        out.write(utf8);
    }
}

package assignor.kafkatests;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;

/**
 * Reads what the peer answers. The first byte of an answer is 0, or it is 1 and the rest a string that says what is wrong.
 * After the 0 there follows, to a request for
 *
 * <pre>
 * a plan           members   int32 n, n x {id string, runs: int32 n, n x {topic string, int32 n, n x partition int32}}
 *                  path      int8: 0 for none, 1 for that of equal subscriptions, 2 for the general one
 *                  racks     int8: 1 if they were minded
 *                  transfers int32 n, n x {topic string, partition int32, new owner string}
 *                  sticky    int8: 1 if no two members swap partitions of one topic
 * what is owned    owned     int32 n, n x {topic string, partition int32}
 *                  generation int8 0 for none, or int8 1 and int32
 * user data        int32 length and bytes, length -1 for null
 * </pre>
 */
final class Answer {
    private Answer() {
    }

    /** The topics' names, each kept once: a plan of a million partitions names few. */
    private static TopicPartition partition(Map<String, String> topics, String topic, int partition) {
        return new TopicPartition(topics.computeIfAbsent(topic, t -> t), partition);
    }

    static Plan plan(ByteBuffer in) {
        Map<String, String> topics = new HashMap<>();
        Map<String, List<TopicPartition>> members = new HashMap<>();
        for (int count = in.getInt(); count > 0; count--) {
            String id = string(in);
            List<TopicPartition> partitions = new ArrayList<>();
            for (int runs = in.getInt(); runs > 0; runs--) {
                String topic = string(in);
                for (int run = in.getInt(); run > 0; run--)
                    partitions.add(partition(topics, topic, in.getInt()));
            }
            members.put(id, partitions);
        }
        Plan.Path path = Plan.Path.values()[in.get()];
        boolean racks = in.get() == 1;
        Map<TopicPartition, String> transfers = new HashMap<>();
        for (int count = in.getInt(); count > 0; count--) {
            TopicPartition partition = partition(topics, string(in), in.getInt());
            transfers.put(partition, string(in));
        }
        return new Plan(members, path, racks, transfers, in.get() == 1);
    }

    static List<TopicPartition> partitions(ByteBuffer in) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int count = in.getInt(); count > 0; count--)
            partitions.add(new TopicPartition(string(in), in.getInt()));
        return partitions;
    }

    static ByteBuffer bytes(ByteBuffer in) {
        int length = in.getInt();
        return length < 0 ? null : in.slice(in.position(), length);
    }

    static String string(ByteBuffer in) {
        byte[] utf8 = new byte[in.getShort()];
        in.get(utf8);
        return new String(utf8, StandardCharsets.UTF_8);
    }
}

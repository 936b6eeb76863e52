package assignor.kafkatests;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Writes what the peer is asked. A string is an int16 length and UTF-8, -1 for null; a subscription is an int32 length and
 * Kafka's own bytes of it. The first byte says what is asked:
 *
 * <pre>
 * 0, a plan        strategy  string
 *                  racks     int32 n, n x string
 *                  topics    int32 n, n x {name string, partitions int32,
 *                            if any has racks, else 0: int32 n, n x {partition: int32 n, n x index of a replica's rack int32}}
 *                  members   int32 n, n x {id string, instance id nullable string, subscription}
 *                  prefer    int8: 1 to go by racks even where every partition has a replica in each
 * 1, what a member owns by its subscription
 *                  strategy  string
 *                  subscription
 * 2, user data     strategy  string
 *                  owned     int32 n, n x {topic string, partition int32}
 *                  generation int32
 * </pre>
 */
final class Request {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(bytes);

    private Request(int what, String strategy) throws IOException {
        out.writeByte(what);
        string(strategy);
    }

    static byte[] plan(String strategy, Map<String, List<PartitionInfo>> topics, Map<String, Subscription> members,
                       boolean preferRacks) {
        try {
            Request request = new Request(0, strategy);
            request.topics(topics);
            request.members(members);
            request.out.writeByte(preferRacks ? 1 : 0);
            return request.bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static byte[] owned(String strategy, Subscription subscription) {
        try {
            Request request = new Request(1, strategy);
            request.subscription(subscription);
            return request.bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static byte[] userData(String strategy, List<TopicPartition> owned, int generation) {
        try {
            Request request = new Request(2, strategy);
            request.out.writeInt(owned.size());
            for (TopicPartition partition : owned) {
                request.string(partition.topic());
                request.out.writeInt(partition.partition());
            }
            request.out.writeInt(generation);
            return request.bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void topics(Map<String, List<PartitionInfo>> topics) throws IOException {
        Map<String, Integer> racks = new LinkedHashMap<>();
        for (List<PartitionInfo> partitions : topics.values())
            for (PartitionInfo partition : partitions)
                for (Node replica : partition.replicas())
                    if (replica.rack() != null)
                        racks.putIfAbsent(replica.rack(), racks.size());
        out.writeInt(racks.size());
        for (String rack : racks.keySet())
            string(rack);

        out.writeInt(topics.size());
        for (Map.Entry<String, List<PartitionInfo>> topic : topics.entrySet()) {
            string(topic.getKey());
            List<PartitionInfo> partitions = topic.getValue();
            out.writeInt(partitions.size());
            for (int i = 0; i < partitions.size(); i++)
                // Brokers tell all partitions of a topic; a group of this project's knows how many they are, no more.
                if (partitions.get(i).partition() != i)
                    throw new IllegalArgumentException("not all partitions, in order: " + partitions);
            out.writeInt(racks.isEmpty() ? 0 : partitions.size());
            if (!racks.isEmpty())
                for (PartitionInfo partition : partitions)
                    racks(partition, racks);
        }
    }

    private void racks(PartitionInfo partition, Map<String, Integer> indexes) throws IOException {
        int known = 0;
        for (Node replica : partition.replicas())
            if (replica.rack() != null)
                known++;
        out.writeInt(known);
        for (Node replica : partition.replicas())
            if (replica.rack() != null)
                out.writeInt(indexes.get(replica.rack()));
    }

    private void members(Map<String, Subscription> members) throws IOException {
        out.writeInt(members.size());
        for (Map.Entry<String, Subscription> member : members.entrySet()) {
            string(member.getKey());
            string(member.getValue().groupInstanceId().orElse(null));
            subscription(member.getValue());
        }
    }

    private void subscription(Subscription subscription) throws IOException {
        ByteBuffer blob = ConsumerProtocol.serializeSubscription(subscription);
        byte[] copy = new byte[blob.remaining()];
        blob.get(copy);
        out.writeInt(copy.length);
        out.write(copy);
    }

    private void string(String string) throws IOException {
        if (string == null) {
            out.writeShort(-1);
            return;
        }
        byte[] utf8 = string.getBytes(StandardCharsets.UTF_8);
        out.writeShort(utf8.length);
        out.write(utf8);
    }
}

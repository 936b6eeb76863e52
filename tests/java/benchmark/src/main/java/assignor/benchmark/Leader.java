package assignor.benchmark;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** A group of a file, whose format tests/benches/peers/input.rs tells, and what its leader does with it. */
final class Leader {
    private final ConsumerPartitionAssignor assignor;
    private final Cluster cluster;
    private final Map<String, ByteBuffer> members = new LinkedHashMap<>();

    private Leader(ConsumerPartitionAssignor assignor, Cluster cluster) {
        this.assignor = assignor;
        this.cluster = cluster;
    }

    static Leader read(Path file) throws IOException {
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file)))) {
            ConsumerPartitionAssignor assignor = assignor(string(in));
            Map<Integer, Node> brokers = new LinkedHashMap<>();
            for (int left = in.readInt(); left > 0; left--) {
                int id = in.readInt();
                brokers.put(id, new Node(id, "", id, string(in)));
            }
            Leader leader = new Leader(assignor, cluster(in, brokers));
            for (int left = in.readInt(); left > 0; left--) {
                String id = string(in);
                byte[] blob = new byte[in.readInt()];
                in.readFully(blob);
                leader.members.put(id, ByteBuffer.wrap(blob));
            }
            return leader;
        }
    }

    /** From decoded subscriptions to a plan. */
    GroupAssignment plan(Map<String, Subscription> subscriptions) {
        return assignor.assign(cluster, new GroupSubscription(subscriptions));
    }

    /** From the bytes of JoinGroup to the bytes of SyncGroup. */
    Map<String, ByteBuffer> wire() {
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach((id, blob) ->
            subscriptions.put(id, ConsumerProtocol.deserializeSubscription(blob.duplicate())));
        Map<String, ByteBuffer> blobs = new HashMap<>();
        plan(subscriptions).groupAssignment().forEach((id, assignment) ->
            blobs.put(id, ConsumerProtocol.serializeAssignment(assignment)));
        return blobs;
    }

    /**
     * Decoded subscriptions, as Kafka's own benchmark has them: members that ask for the same topics share one list. That is faster
     * than what a consumer decodes, where each member has strings of its own.
     */
    Map<String, Subscription> decoded() {
        Map<List<String>, List<String>> lists = new HashMap<>();
        Map<String, String> names = new HashMap<>();
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.forEach((id, blob) -> {
            Subscription own = ConsumerProtocol.deserializeSubscription(blob.duplicate());
            List<String> topics = lists.computeIfAbsent(own.topics(), list -> {
                List<String> shared = new ArrayList<>(list.size());
                list.forEach(topic -> shared.add(names.computeIfAbsent(topic, name -> name)));
                return shared;
            });
            List<TopicPartition> owned = new ArrayList<>(own.ownedPartitions().size());
            own.ownedPartitions().forEach(partition -> owned.add(new TopicPartition(
                names.computeIfAbsent(partition.topic(), name -> name), partition.partition())));
            subscriptions.put(id, new Subscription(topics, own.userData(), owned,
                own.generationId().orElse(-1), own.rackId()));
        });
        return subscriptions;
    }

    /** Forgets the members' bytes. */
    void forget() {
        members.clear();
    }

    static long assigned(GroupAssignment plan) {
        return plan.groupAssignment().values().stream().map(Assignment::partitions).mapToLong(List::size).sum();
    }

    private static ConsumerPartitionAssignor assignor(String strategy) {
        return switch (strategy) {
            case "range" -> new RangeAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(strategy);
        };
    }

    private static Cluster cluster(DataInputStream in, Map<Integer, Node> brokers) throws IOException {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            String topic = string(in);
            int count = in.readInt();
            int replicas = in.readInt();
            for (int partition = 0; partition < count; partition++) {
                Node[] nodes = new Node[replicas];
                for (int replica = 0; replica < replicas; replica++) {
                    nodes[replica] = brokers.get(in.readInt());
                }
                partitions.add(new PartitionInfo(topic, partition, nodes[0], nodes, nodes));
            }
        }
        return new Cluster("benchmark", brokers.values(), partitions, Set.of(), Set.of());
    }

    private static String string(DataInputStream in) throws IOException {
        byte[] text = new byte[in.readShort()];
        in.readFully(text);
        return new String(text, StandardCharsets.UTF_8);
    }
}

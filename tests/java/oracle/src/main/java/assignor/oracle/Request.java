package assignor.oracle;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * A group and the strategy to split it by.
 *
 * <pre>
 * strategy  string: range, roundrobin, sticky, cooperative-sticky; cooperative-sticky-target for the plan before partitions
 *           that change their owner are taken out
 * topics    int32 n, n x {name string, int32 n, n x {partition: int32 n, n x {rack of a replica: nullable string}}}
 * members   int32 n, n x {id string, instance id nullable string, subscription: int32 length, bytes of Kafka's protocol}
 * </pre>
 *
 * @param strategy what splits the group
 * @param cluster the topics as a client's metadata holds them
 * @param members the subscriptions by member id, in the map that a leader puts them into, in the order in which they came
 */
record Request(Strategy strategy, Cluster cluster, Map<String, Subscription> members) {

    /** Reads the body of a frame; throws some RuntimeException where it is none. */
    static Request read(byte[] body) {
        ByteBuffer in = ByteBuffer.wrap(body);
        Strategy strategy = Strategy.named(string(in));
        Cluster cluster = cluster(in);
        Map<String, Subscription> members = members(in);
        if (in.hasRemaining())
            throw new IllegalArgumentException(in.remaining() + " bytes after the request");
        return new Request(strategy, cluster, members);
    }

    private static Cluster cluster(ByteBuffer in) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int topics = in.getInt(); topics > 0; topics--) {
            String topic = string(in);
            int count = in.getInt();
            for (int partition = 0; partition < count; partition++) {
                Node[] replicas = new Node[in.getInt()];
                for (int i = 0; i < replicas.length; i++)
                    replicas[i] = nodes.computeIfAbsent(string(in), rack -> new Node(nodes.size(), "", 0, rack));
                Node leader = replicas.length == 0 ? Node.noNode() : replicas[0];
                partitions.add(new PartitionInfo(topic, partition, leader, replicas, replicas));
            }
        }
        return new Cluster("oracle", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** As `ConsumerCoordinator.onLeaderElected` does it. */
    private static Map<String, Subscription> members(ByteBuffer in) {
        Map<String, Subscription> members = new HashMap<>();
        for (int count = in.getInt(); count > 0; count--) {
            String id = string(in);
            String instanceId = string(in);
            byte[] blob = new byte[in.getInt()];
            in.get(blob);
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(blob));
            subscription.setGroupInstanceId(Optional.ofNullable(instanceId));
            members.put(id, subscription);
        }
        return members;
    }

    private static String string(ByteBuffer in) {
        short length = in.getShort();
        if (length < 0)
            return null;
        byte[] utf8 = new byte[length];
        in.get(utf8);
        return new String(utf8, StandardCharsets.UTF_8);
    }
}

package assignor.kafkatests;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** This project's assignors, by name. */
public final class Assignors {
    private Assignors() {
    }

    /** The plan of a group. */
    public static Plan plan(String strategy, Map<String, List<PartitionInfo>> topics, Map<String, Subscription> members,
                            boolean preferRacks) {
        return Answer.plan(Peer.ask(Request.plan(strategy, topics, members, preferRacks)));
    }

    /** What a strategy takes a member to own, whatever is subscribed to or exists. */
    public static Owned owned(String strategy, Subscription subscription) {
        ByteBuffer answer = Peer.ask(Request.owned(strategy, subscription));
        List<TopicPartition> partitions = Answer.partitions(answer);
        return new Owned(partitions, answer.get() == 0 ? Optional.empty() : Optional.of(answer.getInt()));
    }

    /** What a member that owns these partitions since that generation tells in its user data; null for nothing. */
    public static ByteBuffer userData(String strategy, List<TopicPartition> owned, int generation) {
        return Answer.bytes(Peer.ask(Request.userData(strategy, owned, generation)));
    }

    /** What a member owns, and since which generation. */
    public record Owned(List<TopicPartition> partitions, Optional<Integer> generation) {
    }
}

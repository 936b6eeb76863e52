package assignor.member;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;

/** A strategy of Kafka's, by which its member learns what the client doesn't tell: who leads, and by which strategy. */
abstract class Watched implements ConsumerPartitionAssignor, Configurable {
    /** The property by which the member reaches its strategies. */
    static final String MEMBER = "assignor.member";

    /** The strategies by the names of their protocols, as other clients know them. */
    static final Map<String, Class<? extends Watched>> STRATEGIES = Map.of(
        "range", Range.class,
        "roundrobin", RoundRobin.class,
        "sticky", Sticky.class,
        "cooperative-sticky", CooperativeSticky.class);

    private final ConsumerPartitionAssignor strategy;
    private Member member;

    private Watched(ConsumerPartitionAssignor strategy) {
        this.strategy = strategy;
    }

    @Override
    public void configure(Map<String, ?> configs) {
        member = (Member) configs.get(MEMBER);
    }

    @Override
    public String name() {
        return strategy.name();
    }

    @Override
    public short version() {
        return strategy.version();
    }

    @Override
    public List<RebalanceProtocol> supportedProtocols() {
        return strategy.supportedProtocols();
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return strategy.subscriptionUserData(topics);
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
        member.leads();
        return strategy.assign(metadata, groupSubscription);
    }

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
        member.runs(name());
        strategy.onAssignment(assignment, metadata);
    }

    /** {@code range}. */
    public static final class Range extends Watched {
        public Range() {
            super(new RangeAssignor());
        }
    }

    /** {@code roundrobin}. */
    public static final class RoundRobin extends Watched {
        public RoundRobin() {
            super(new RoundRobinAssignor());
        }
    }

    /** {@code sticky}. */
    public static final class Sticky extends Watched {
        public Sticky() {
            super(new StickyAssignor());
        }
    }

    /** {@code cooperative-sticky}. */
    public static final class CooperativeSticky extends Watched {
        public CooperativeSticky() {
            super(new CooperativeStickyAssignor());
        }
    }
}

package assignor.oracle;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.TopicPartition;

/** Kafka's assignors by the names of their protocols. A fresh one for each group: the sticky ones remember generations. */
enum Strategy {
    RANGE("range", RangeAssignor::new),
    ROUNDROBIN("roundrobin", RoundRobinAssignor::new),
    STICKY("sticky", StickyAssignor::new),
    COOPERATIVE_STICKY("cooperative-sticky", CooperativeStickyAssignor::new),
    COOPERATIVE_STICKY_TARGET("cooperative-sticky-target", Target::new);

    private final String protocol;
    private final Supplier<ConsumerPartitionAssignor> fresh;

    Strategy(String protocol, Supplier<ConsumerPartitionAssignor> fresh) {
        this.protocol = protocol;
        this.fresh = fresh;
    }

    static Strategy named(String protocol) {
        for (Strategy strategy : values())
            if (strategy.protocol.equals(protocol))
                return strategy;
        throw new IllegalArgumentException("no strategy " + protocol);
    }

    Map<String, List<TopicPartition>> assign(Request request) {
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        fresh.get().assign(request.cluster(), new GroupSubscription(request.members())).groupAssignment()
            .forEach((member, assignment) -> plan.put(member, assignment.partitions()));
        return plan;
    }

    /** Gives access to how cooperative-sticky reads what members own. */
    private static final class Reader extends CooperativeStickyAssignor {
        MemberData read(Subscription subscription) {
            return memberData(subscription);
        }
    }

    /** Cooperative-sticky without its adjustment: the plan that the rebalances lead to. */
    private static final class Target extends AbstractStickyAssignor {
        private final Reader reader = new Reader();

        @Override
        public String name() {
            return reader.name();
        }

        @Override
        protected MemberData memberData(Subscription subscription) {
            return reader.read(subscription);
        }
    }
}

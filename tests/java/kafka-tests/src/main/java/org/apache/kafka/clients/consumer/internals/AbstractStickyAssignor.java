package org.apache.kafka.clients.consumer.internals;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import assignor.kafkatests.Assignors;
import assignor.kafkatests.Plan;

import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Stands in for Kafka's class of this name. */
public abstract class AbstractStickyAssignor extends AbstractPartitionAssignor {
    /** A generation that is not known. */
    public static final int DEFAULT_GENERATION = -1;

    /** The last plan's; null after one of unequal subscriptions, where Kafka's class leaves it to its subclass. */
    protected Map<TopicPartition, String> partitionsTransferringOwnership = new HashMap<>();

    private boolean sticky;

    @Override
    public Map<String, List<TopicPartition>> assignPartitions(Map<String, List<PartitionInfo>> partitionsPerTopic,
                                                              Map<String, Subscription> subscriptions) {
        Plan plan = plan(partitionsPerTopic, subscriptions);
        partitionsTransferringOwnership = plan.path() == Plan.Path.GENERAL ? null : plan.transfers();
        sticky = plan.sticky();
        return plan.members();
    }

    public Map<TopicPartition, String> partitionsTransferringOwnership() {
        return partitionsTransferringOwnership;
    }

    /** Whether no two members swapped partitions of one topic in the last plan. */
    public boolean isSticky() {
        return sticky;
    }

    protected MemberData memberData(Subscription subscription) {
        Assignors.Owned owned = Assignors.owned(name(), subscription);
        return new MemberData(owned.partitions(), owned.generation(), subscription.rackId());
    }

    /** What a member owns, since when, and where it is. */
    public static final class MemberData {
        public final List<TopicPartition> partitions;
        public final Optional<Integer> generation;
        public final Optional<String> rackId;

        public MemberData(List<TopicPartition> partitions, Optional<Integer> generation, Optional<String> rackId) {
            this.partitions = partitions;
            this.generation = generation;
            this.rackId = rackId;
        }

        public MemberData(List<TopicPartition> partitions, Optional<Integer> generation) {
            this(partitions, generation, Optional.empty());
        }
    }
}

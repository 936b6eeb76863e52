package org.apache.kafka.clients.consumer.internals;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import assignor.kafkatests.Assignors;
import assignor.kafkatests.Plan;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Stands in for Kafka's class of this name: all that it is asked, this project's assignors answer. */
public abstract class AbstractPartitionAssignor implements ConsumerPartitionAssignor {
    /** Tests set it: go by racks even where every partition has a replica in each. */
    boolean preferRackAwareLogic;

    /** The whole answer of the assignor of this one's name. */
    final Plan plan(Map<String, List<PartitionInfo>> topics, Map<String, Subscription> members) {
        return Assignors.plan(name(), topics, members, preferRackAwareLogic);
    }

    public Map<String, List<TopicPartition>> assignPartitions(Map<String, List<PartitionInfo>> partitionsPerTopic,
                                                              Map<String, Subscription> subscriptions) {
        return plan(partitionsPerTopic, subscriptions).members();
    }

    public Map<String, List<TopicPartition>> assign(Map<String, Integer> partitionsPerTopic,
                                                    Map<String, Subscription> subscriptions) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        partitionsPerTopic.forEach((topic, count) -> {
            List<PartitionInfo> partitions = new ArrayList<>();
            for (int partition = 0; partition < count; partition++)
                partitions.add(new PartitionInfo(topic, partition, null, new Node[0], new Node[0]));
            topics.put(topic, partitions);
        });
        return assignPartitions(topics, subscriptions);
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription groupSubscription) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        for (String topic : metadata.topics()) {
            List<PartitionInfo> partitions = new ArrayList<>(metadata.partitionsForTopic(topic));
            partitions.sort(Comparator.comparingInt(PartitionInfo::partition));
            topics.put(topic, partitions);
        }
        Map<String, Assignment> assignments = new HashMap<>();
        assignPartitions(topics, groupSubscription.groupSubscription())
            .forEach((member, partitions) -> assignments.put(member, new Assignment(partitions)));
        return new GroupAssignment(assignments);
    }

    /** Whether the assignor minds racks in a group of one member in each consumer rack and of these partitions. */
    protected boolean useRackAwareAssignment(Set<String> consumerRacks, Set<String> partitionRacks,
                                             Map<TopicPartition, Set<String>> racksPerPartition) {
        Map<String, List<PartitionInfo>> topics = new HashMap<>();
        racksPerPartition.forEach((partition, racks) -> {
            Node[] replicas = racks.stream().map(rack -> new Node(0, "", 0, rack)).toArray(Node[]::new);
            topics.computeIfAbsent(partition.topic(), topic -> new ArrayList<>())
                .add(new PartitionInfo(partition.topic(), partition.partition(), null, replicas, replicas));
        });
        topics.values().forEach(partitions -> partitions.sort(Comparator.comparingInt(PartitionInfo::partition)));
        Map<String, Subscription> members = new HashMap<>();
        for (String rack : consumerRacks)
            members.put(rack, new Subscription(List.copyOf(topics.keySet()), null, List.of(), -1, Optional.of(rack)));
        return plan(topics, members).racks();
    }

    /** A member by what range and roundrobin order members by. */
    public static class MemberInfo implements Comparable<MemberInfo> {
        public final String memberId;
        public final Optional<String> groupInstanceId;
        public final Optional<String> rackId;

        public MemberInfo(String memberId, Optional<String> groupInstanceId, Optional<String> rackId) {
            this.memberId = memberId;
            this.groupInstanceId = groupInstanceId;
            this.rackId = rackId;
        }

        public MemberInfo(String memberId, Optional<String> groupInstanceId) {
            this(memberId, groupInstanceId, Optional.empty());
        }

        /** Of two members and one partition, the first in order gets the partition. */
        @Override
        public int compareTo(MemberInfo other) {
            if (equals(other))
                return 0;
            List<PartitionInfo> one = List.of(new PartitionInfo("t", 0, null, new Node[0], new Node[0]));
            Map<String, Subscription> both = Map.of(memberId, subscription(), other.memberId, other.subscription());
            Plan plan = Assignors.plan("roundrobin", Map.of("t", one), both, false);
            return plan.members().get(memberId).isEmpty() ? 1 : -1;
        }

        private Subscription subscription() {
            Subscription subscription = new Subscription(List.of("t"));
            subscription.setGroupInstanceId(groupInstanceId);
            return subscription;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof MemberInfo && memberId.equals(((MemberInfo) other).memberId);
        }

        @Override
        public int hashCode() {
            return memberId.hashCode();
        }

        @Override
        public String toString() {
            return memberId + groupInstanceId.map(id -> " (" + id + ")").orElse("");
        }
    }
}

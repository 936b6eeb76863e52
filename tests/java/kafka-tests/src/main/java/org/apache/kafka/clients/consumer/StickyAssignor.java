package org.apache.kafka.clients.consumer;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;

import assignor.kafkatests.Assignors;

import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Type;

/** Stands in for Kafka's class of this name. */
public class StickyAssignor extends AbstractStickyAssignor {
    /* The oldest user data, which a test writes by itself. Its fields are named as in that test, which has the names compiled in. */
    static final String TOPIC_KEY_NAME = "topic";
    static final String PARTITIONS_KEY_NAME = "partitions";
    static final String TOPIC_PARTITIONS_KEY_NAME = "previous_assignment";
    static final Schema TOPIC_ASSIGNMENT = new Schema(
        new Field(TOPIC_KEY_NAME, Type.STRING), new Field(PARTITIONS_KEY_NAME, new ArrayOf(Type.INT32)));
    static final Schema STICKY_ASSIGNOR_USER_DATA_V0 = new Schema(
        new Field(TOPIC_PARTITIONS_KEY_NAME, new ArrayOf(TOPIC_ASSIGNMENT)));

    private List<TopicPartition> owned;
    private int generation = DEFAULT_GENERATION;

    @Override
    public String name() {
        return "sticky";
    }

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
        owned = assignment.partitions();
        generation = metadata.generationId();
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return owned == null ? null : Assignors.userData("sticky", owned, generation);
    }

    static ByteBuffer serializeTopicPartitionAssignment(MemberData data) {
        return Assignors.userData("sticky", data.partitions, data.generation.orElse(DEFAULT_GENERATION));
    }

    /** Here, too, so that tests in this package may call it. */
    @Override
    protected MemberData memberData(Subscription subscription) {
        return super.memberData(subscription);
    }
}

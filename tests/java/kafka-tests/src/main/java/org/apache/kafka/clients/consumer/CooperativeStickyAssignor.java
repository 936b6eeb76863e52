package org.apache.kafka.clients.consumer;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;

import assignor.kafkatests.Assignors;

import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;

/** Stands in for Kafka's class of this name. */
public class CooperativeStickyAssignor extends AbstractStickyAssignor {
    private int generation = DEFAULT_GENERATION;

    @Override
    public String name() {
        return "cooperative-sticky";
    }

    @Override
    public List<RebalanceProtocol> supportedProtocols() {
        return List.of(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER);
    }

    @Override
    public void onAssignment(Assignment assignment, ConsumerGroupMetadata metadata) {
        generation = metadata.generationId();
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return Assignors.userData("cooperative-sticky", List.of(), generation);
    }

    /** Here, too, so that tests in this package may call it. */
    @Override
    protected MemberData memberData(Subscription subscription) {
        return super.memberData(subscription);
    }
}

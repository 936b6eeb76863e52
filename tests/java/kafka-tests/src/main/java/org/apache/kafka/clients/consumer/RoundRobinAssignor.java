package org.apache.kafka.clients.consumer;

import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;

/** Stands in for Kafka's class of this name. */
public class RoundRobinAssignor extends AbstractPartitionAssignor {
    @Override
    public String name() {
        return "roundrobin";
    }
}

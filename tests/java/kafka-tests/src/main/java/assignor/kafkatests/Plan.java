package assignor.kafkatests;

import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;

/**
 * A plan as this project's assignors make it.
 *
 * @param members the partitions of each member; under cooperative-sticky without those in transfer
 * @param path which path a sticky assignor took
 * @param racks whether racks were minded
 * @param transfers the partitions that another member must give up first, and who gets them then
 * @param sticky whether no two members swap partitions of one topic
 */
public record Plan(Map<String, List<TopicPartition>> members, Path path, boolean racks,
                   Map<TopicPartition, String> transfers, boolean sticky) {
    /** The paths of the sticky assignors. */
    public enum Path {
        /** Of assignors that have one only. */
        NONE,
        /** For members that all ask for the same topics. */
        UNIFORM,
        /** For all others. */
        GENERAL
    }
}

package assignor.member;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/** What a member says. Lines are written whole, and at once. */
final class Output {
    /** What the boot-time clock, which all members tell the time by, is ahead of this machine's. */
    private static final long CLOCK_OFFSET_US = Long.parseLong(System.getenv().getOrDefault("CLOCK_OFFSET_US", "0"));

    private final String prefix;

    /** Each line begins with this. */
    Output(String prefix) {
        this.prefix = prefix;
    }

    static long now() {
        return System.nanoTime() / 1_000 + CLOCK_OFFSET_US;
    }

    void say(String kind, String rest) {
        String line = prefix + kind + ' ' + now() + (rest.isEmpty() ? "" : ' ' + rest.replace('\n', ' '));
        write(line + '\n');
    }

    void records(ConsumerRecords<byte[], String> records, long time) {
        StringBuilder lines = new StringBuilder();
        for (ConsumerRecord<byte[], String> record : records)
            lines.append(prefix).append("record ").append(time).append(' ').append(record.topic()).append(' ')
                .append(record.partition()).append(' ').append(record.offset()).append(' ').append(record.value())
                .append('\n');
        write(lines);
    }

    /** Partitions as a word. */
    static String partitions(Collection<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> topics = new TreeMap<>();
        for (TopicPartition partition : partitions)
            topics.computeIfAbsent(partition.topic(), topic -> new TreeSet<>()).add(partition.partition());
        StringJoiner words = new StringJoiner(";").setEmptyValue("-");
        topics.forEach((topic, numbers) -> {
            StringJoiner list = new StringJoiner(",");
            numbers.forEach(number -> list.add(number.toString()));
            words.add(topic + ":" + list);
        });
        return words.toString();
    }

    private static void write(CharSequence lines) {
        PrintStream out = System.out;
        byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(bytes, 0, bytes.length);
            out.flush();
        }
    }
}

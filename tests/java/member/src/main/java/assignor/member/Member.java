package assignor.member;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer, what it is told and what it says. */
final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);

    private final List<String> topics;
    private final Map<String, String> properties;
    private final Output output;
    private final BlockingQueue<String> commands = new LinkedBlockingQueue<>();
    private final boolean commits;
    private KafkaConsumer<byte[], String> consumer;
    private boolean started;
    private boolean led;
    private String strategy = "-";
    /** Milliseconds. */
    private long pace;

    Member(List<String> topics, Map<String, String> properties, Output output) {
        this.topics = topics;
        this.properties = new HashMap<>(properties);
        this.output = output;
        boolean never = "never".equals(this.properties.remove("member.commit"));
        this.commits = !never && "false".equals(properties.get(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG));
    }

    /** To be obeyed, after what was said before. */
    void tell(String command) {
        commands.add(command);
    }

    /** Lives until it is told to stop, which is well, or can't go on. */
    boolean run() {
        try {
            Properties config = new Properties();
            config.putAll(properties);
            config.put(Watched.MEMBER, this);
            config.computeIfPresent(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG, (k, list) -> classes((String) list));
            consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new StringDeserializer());
            output.say("ready", "");
            return poll();
        } catch (InterruptedException | RuntimeException e) {
            output.say("error", "fatal: " + e);
            return false;
        }
    }

    private boolean poll() throws InterruptedException {
        while (true) {
            for (String command = command(); command != null; command = command()) {
                if (command.equals("stop")) {
                    consumer.close();
                    output.say("closed", "");
                    return true;
                }
                obey(command.split(" "));
            }
            ConsumerRecords<byte[], String> records;
            try {
                records = consumer.poll(POLL);
            } catch (RetriableException e) {
                output.say("error", e.toString());
                Thread.sleep(POLL.toMillis());
                continue;
            }
            if (records.isEmpty())
                continue;
            output.records(records, Output.now());
            if (commits)
                commit();
            Thread.sleep(pace);
        }
    }

    /** The next command, if there is one; before `start`, it is waited for. */
    private String command() throws InterruptedException {
        return started ? commands.poll() : commands.take();
    }

    private void obey(String[] command) throws InterruptedException {
        switch (command[0]) {
            case "start" -> {
                consumer.subscribe(topics, this);
                started = true;
            }
            case "busy" -> {
                output.say("event", "busy");
                Thread.sleep(Long.parseLong(command[1]));
            }
            case "pace" -> pace = Long.parseLong(command[1]);
            case "subscribe" -> consumer.subscribe(List.of(command[1].split(",")), this);
            case "rebalance" -> consumer.enforceRebalance("it was asked for");
            default -> output.say("error", "can't " + String.join(" ", command));
        }
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (KafkaException e) {
            output.say("error", e.toString());
        }
    }

    /** In the rebalance that is going on, this member leads. */
    void leads() {
        led = true;
    }

    /** The group runs this strategy. */
    void runs(String strategy) {
        this.strategy = strategy;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> added) {
        int generation = consumer.groupMetadata().generationId();
        String leader = led ? "1" : "0";
        led = false;
        String owned = Output.partitions(consumer.assignment());
        output.say("assigned", String.join(" ", Integer.toString(generation), leader, strategy, owned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        output.say("revoked", Output.partitions(partitions));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        output.say("lost", Output.partitions(partitions));
    }

    private static String classes(String list) {
        StringJoiner classes = new StringJoiner(",");
        for (String name : list.split(",")) {
            Class<?> strategy = Watched.STRATEGIES.get(name);
            if (strategy == null)
                throw new IllegalArgumentException("the Java client has no strategy " + name);
            classes.add(strategy.getName());
        }
        return classes.toString();
    }
}

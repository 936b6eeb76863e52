package assignor.kafka;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;

/**
 * One node of a Kafka cluster: {@code java -jar kafka.jar server.properties [SCRAM credential]...}
 *
 * <p>It formats its folder if that is new (with the credentials, as {@code kafka-storage.sh format --add-scram} takes them), starts,
 * writes {@code started}, and ends in good order when it reads {@code stop}. When its standard input ends without that word,
 * whoever started it is gone, and it ends at once.
 */
public final class Node {
    /** All nodes are of one cluster, the only one they know of. */
    private static final String CLUSTER = "YXNzaWdub3ItdGVzdHMtMA";

    private Node() {}

    public static void main(String[] args) {
        CountDownLatch stop = new CountDownLatch(1);
        Thread watch = new Thread(() -> watch(stop), "standard-input");
        watch.setDaemon(true);
        watch.start();
        try {
            run(Path.of(args[0]), Arrays.asList(args).subList(1, args.length), stop);
        } catch (Throwable e) {
            e.printStackTrace();
            // Kafka's threads would keep the process.
            Runtime.getRuntime().halt(1);
        }
        System.exit(0);
    }

    private static void run(Path file, List<String> credentials, CountDownLatch stop) throws Exception {
        Properties properties = new Properties();
        try (BufferedReader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        format(properties, credentials);
        KafkaRaftServer server = new KafkaRaftServer(new KafkaConfig(properties), Time.SYSTEM);
        server.startup();
        System.out.println("started");
        stop.await();
        server.shutdown();
        server.awaitShutdown();
    }

    private static void watch(CountDownLatch stop) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            if ("stop".equals(lines.readLine())) {
                stop.countDown();
                return;
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
        Runtime.getRuntime().halt(1);
    }

    private static void format(Properties properties, List<String> credentials) throws Exception {
        String folder = properties.getProperty("log.dirs");
        if (Files.exists(Path.of(folder, "meta.properties"))) {
            return;
        }
        new Formatter()
                .setPrintStream(System.err)
                .setClusterId(CLUSTER)
                .setNodeId(Integer.parseInt(properties.getProperty("node.id")))
                .setControllerListenerName(properties.getProperty("controller.listener.names"))
                .addDirectory(folder)
                .setMetadataLogDirectory(folder)
                .setScramArguments(credentials)
                .run();
    }
}

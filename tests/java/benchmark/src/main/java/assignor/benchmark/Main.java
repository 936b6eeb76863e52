package assignor.benchmark;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

import com.sun.management.ThreadMXBean;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.Options;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/** {@code once FILE} or {@code time FILE plan|wire WARM-UPS MEASURED MILLISECONDS}: prints what it measured as JSON. */
final class Main {
    private Main() {
    }

    public static void main(String[] args) throws IOException, RunnerException {
        switch (args[0]) {
            case "once" -> once(Path.of(args[1]));
            case "time" -> time(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]),
                Long.parseLong(args[5]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** One plan in this fresh process. */
    private static void once(Path file) throws IOException {
        Leader leader = Leader.read(file);
        Map<String, Subscription> subscriptions = leader.decoded();
        leader.forget();
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long resident = status("VmRSS");
        System.out.println("ready");
        long allocated = threads.getCurrentThreadAllocatedBytes();
        long begun = System.nanoTime();
        GroupAssignment plan = leader.plan(subscriptions);
        long took = System.nanoTime() - begun;
        allocated = threads.getCurrentThreadAllocatedBytes() - allocated;
        System.out.printf(Locale.ROOT, "{\"nanoseconds\":%d,\"assigned\":%d,\"resident_before\":%d,"
            + "\"peak_resident\":%d,\"allocated\":%d}%n", took, Leader.assigned(plan), resident, status("VmHWM"), allocated);
    }

    /** Plans after warm-up, in a process that JMH forks. */
    private static void time(String file, String span, int warmUps, int measured, long milliseconds)
            throws RunnerException {
        TimeValue interval = TimeValue.milliseconds(milliseconds);
        Options options = new OptionsBuilder()
            .include(PlanBenchmark.class.getName() + "\\." + span + "$")
            .param("file", file)
            .forks(1)
            .threads(1)
            .warmupIterations(warmUps)
            .warmupTime(interval)
            .measurementIterations(measured)
            .measurementTime(interval)
            .addProfiler(GCProfiler.class)
            .shouldFailOnError(true)
            .verbosity(VerboseMode.SILENT)
            .build();
        RunResult result = new Runner(options).runSingle();
        Iterable<IterationResult> iterations = result.getBenchmarkResults().iterator().next().getIterationResults();
        String means = StreamSupport.stream(iterations.spliterator(), false)
            .map(iteration -> String.format(Locale.ROOT, "%.1f", iteration.getPrimaryResult().getScore()))
            .collect(Collectors.joining(","));
        double allocated = result.getSecondaryResults().get("gc.alloc.rate.norm").getScore();
        System.out.printf(Locale.ROOT, "{\"nanoseconds\":[%s],\"allocated\":%.1f}%n", means, allocated);
    }

    /** A size from this process' status, in bytes. */
    private static long status(String field) throws IOException {
        try (var lines = Files.lines(Path.of("/proc/self/status"))) {
            String line = lines.filter(l -> l.startsWith(field + ":")).findFirst().orElseThrow();
            return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
        }
    }
}

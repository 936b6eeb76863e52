package assignor.kafkatests;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestExecutionResult.Status;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs Kafka's own unit tests of its assignors, out of its test jar, against this project's assignors: classes of the same
 * names, first on the class path, hand every group to them.
 *
 * <p>Its argument is the list of the tests that are to fail ({@link Listed}). It succeeds if exactly those do.
 */
public final class KafkaTests {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final List<String> TESTS = List.of(
        "internals.AbstractPartitionAssignorTest", "RangeAssignorTest", "RoundRobinAssignorTest", "StickyAssignorTest",
        "CooperativeStickyAssignorTest");

    /** What those test: must be the stand-ins, or the run would prove Kafka's own. */
    private static final List<Class<?>> TESTED = List.of(
        AbstractPartitionAssignor.class, AbstractStickyAssignor.class, RangeAssignor.class, RoundRobinAssignor.class,
        StickyAssignor.class, CooperativeStickyAssignor.class);

    private KafkaTests() {
    }

    public static void main(String[] args) throws IOException {
        for (Class<?> tested : TESTED)
            if (!place(tested).equals(place(KafkaTests.class)))
                throw new IllegalStateException(tested.getName() + " is not the stand-in, but of " + place(tested));
        Listed listed = Listed.read(Path.of(args[0]));
        Results results = new Results();
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(TESTS.stream().map(test -> selectClass(PACKAGE + test)).toList())
            .build();
        LauncherFactory.create().execute(request, results);

        List<String> faults = listed.faults(results.failures);
        for (String test : TESTS) {
            String ofClass = test.substring(test.lastIndexOf('.') + 1) + ".";
            if (results.failures.keySet().stream().noneMatch(name -> name.startsWith(ofClass)))
                faults.add("NO TEST was run of " + test);
        }
        faults.forEach(System.out::println);
        long passed = results.failures.values().stream().filter(String::isEmpty).count();
        System.out.println("Kafka's tests: " + (results.failures.size() - listed.size()) + " run, " + passed
            + " passed, " + listed.size() + " listed");
        System.exit(faults.isEmpty() ? 0 : 1);
    }

    private static String place(Class<?> of) {
        return of.getProtectionDomain().getCodeSource().getLocation().toString();
    }

    /** Collects how each test ended; those with parameters count once for each of them. */
    private static final class Results implements TestExecutionListener {
        /** Why each test failed, by its name; empty for one that passed. */
        private final Map<String, String> failures = new TreeMap<>();
        private TestPlan plan;

        @Override
        public void testPlanExecutionStarted(TestPlan started) {
            plan = started;
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            failures.put(name(test), "skipped: " + reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            String why = result.getStatus() == Status.SUCCESSFUL ? "" : result.getThrowable().map(KafkaTests::told).orElse("aborted");
            // What holds tests counts only where it fails by itself, as it does if there are none in it.
            if (test.isTest() || !why.isEmpty())
                failures.put(name(test), why);
        }

        /** Of the class that is run, which may have the test from another: StickyAssignorTest.testMemberData(). */
        private String name(TestIdentifier test) {
            TestIdentifier of = test;
            while (of.getSource().filter(MethodSource.class::isInstance).isPresent())
                of = plan.getParent(of).orElseThrow();
            return of == test ? of.getDisplayName() : of.getDisplayName() + "." + test.getDisplayName();
        }
    }

    /** What is wrong, and in which line of the test. */
    private static String told(Throwable thrown) {
        for (StackTraceElement at : thrown.getStackTrace())
            if (at.getClassName().endsWith("AssignorTest"))
                return thrown + "\n        at " + at;
        return thrown.toString();
    }
}

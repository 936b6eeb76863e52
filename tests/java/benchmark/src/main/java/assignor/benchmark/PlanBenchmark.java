package assignor.benchmark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** The mean time of a plan for the group of a file. */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class PlanBenchmark {

    /** A leader with decoded subscriptions. */
    @State(Scope.Benchmark)
    public static class Decoded {
        @Param("")
        public String file;

        private Leader leader;
        private Map<String, Subscription> subscriptions;

        @Setup
        public void read() throws IOException {
            leader = Leader.read(Path.of(file));
            subscriptions = leader.decoded();
            leader.forget();
        }
    }

    /** A leader with the members' bytes. */
    @State(Scope.Benchmark)
    public static class Bytes {
        @Param("")
        public String file;

        private Leader leader;

        @Setup
        public void read() throws IOException {
            leader = Leader.read(Path.of(file));
        }
    }

    @Benchmark
    public GroupAssignment plan(Decoded decoded) {
        return decoded.leader.plan(decoded.subscriptions);
    }

    @Benchmark
    public Map<String, ByteBuffer> wire(Bytes bytes) {
        return bytes.leader.wire();
    }
}

package assignor.kafkatests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The tests that this project's assignors are not meant to pass, and why.
 *
 * <p>In the file a line holds a test's name, {@code  | } and the reason; empty lines and those from # on are passed over.
 */
final class Listed {
    private final Map<String, String> reasons = new TreeMap<>();

    static Listed read(Path file) throws IOException {
        Listed listed = new Listed();
        for (String line : Files.readAllLines(file)) {
            if (line.isBlank() || line.startsWith("#"))
                continue;
            String[] parts = line.split(" \\| ", 2);
            if (parts.length < 2 || listed.reasons.put(parts[0].strip(), parts[1].strip()) != null)
                throw new IOException(file + ": no reason, or a second one: " + line);
        }
        return listed;
    }

    int size() {
        return reasons.size();
    }

    /** What differs from the list in a run, given why each test failed. */
    List<String> faults(Map<String, String> failures) {
        List<String> faults = new ArrayList<>();
        failures.forEach((test, why) -> {
            if (!why.isEmpty() && !reasons.containsKey(test))
                faults.add("FAILED: " + test + "\n    " + why);
            if (why.isEmpty() && reasons.containsKey(test))
                faults.add("PASSED though it is listed: " + test);
        });
        for (String test : reasons.keySet())
            if (!failures.containsKey(test))
                faults.add("LISTED but there is no such test: " + test);
        return faults;
    }
}

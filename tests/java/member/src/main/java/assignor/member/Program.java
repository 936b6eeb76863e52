package assignor.member;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Members of groups, in the lines that all member programs speak: see tests/tests/kafka/lines.rs.
 *
 * <p>With arguments, {@code NAME TOPICS KEY=VALUE...}, it is one member, and ends when that does. Without, it is the host of
 * many: {@code new NAME TOPICS KEY=VALUE...} makes one, {@code NAME COMMAND} tells it something, and each line of its begins
 * with its name. Either ends at once when its input does.
 */
public final class Program {
    private Program() {
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        if (args.length > 0)
            one(Arrays.asList(args), in);
        else
            many(in);
        // Whoever wanted the members is gone.
        Runtime.getRuntime().halt(1);
    }

    private static void one(List<String> arguments, BufferedReader in) throws IOException {
        Member member = member(arguments, new Output(""));
        Thread thread = new Thread(() -> {
            boolean well = member.run();
            Runtime.getRuntime().halt(well ? 0 : 2);
        });
        thread.start();
        for (String line = in.readLine(); line != null; line = in.readLine())
            member.tell(line);
    }

    private static void many(BufferedReader in) throws IOException {
        Map<String, Member> members = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            if (words[0].equals("new")) {
                List<String> arguments = List.of(words[1].split(" "));
                String name = arguments.get(0);
                // Made on a thread of its own: a hundred are to be made at once.
                Member member = member(arguments, new Output(name + " "));
                members.put(name, member);
                new Thread(member::run, name).start();
            } else {
                members.get(words[0]).tell(words[1]);
            }
        }
    }

    private static Member member(List<String> arguments, Output output) {
        List<String> topics = List.of(arguments.get(1).split(","));
        Map<String, String> properties = new HashMap<>();
        for (String argument : arguments.subList(2, arguments.size())) {
            String[] property = argument.split("=", 2);
            properties.put(property[0], property[1]);
        }
        return new Member(topics, properties, output);
    }
}

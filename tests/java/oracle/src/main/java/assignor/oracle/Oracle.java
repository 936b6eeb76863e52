package assignor.oracle;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;

/**
 * Reads groups from its input and answers each with the plan that Kafka's assignor makes of it, until the input closes.
 *
 * <p>A frame is an int32 length and that many bytes of body; all integers are big-endian, a string is an int16 length and
 * UTF-8, -1 for null. For the body of a request see {@link Request}, for that of a response {@link Response}. Requests may
 * be sent ahead: answers come in their order.
 */
public final class Oracle {
    private Oracle() {
    }

    public static void main(String[] args) throws IOException {
        // What might be printed must not get between the frames.
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        System.setOut(System.err);
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        while (true) {
            int length;
            try {
                length = in.readInt();
            } catch (EOFException closed) {
                return;
            }
            byte[] body = in.readNBytes(length);
            if (body.length < length)
                return;
            byte[] answer = answer(body);
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    /** The response to a request, also where Kafka's code, or the request, is wrong. */
    private static byte[] answer(byte[] body) {
        try {
            Request request = Request.read(body);
            Map<String, List<TopicPartition>> plan = request.strategy().assign(request);
            return Response.plan(plan);
        } catch (RuntimeException | StackOverflowError e) {
            return Response.error(e);
        }
    }
}

package assignor.kafkatests;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.Timer;
import java.util.TimerTask;

/**
 * The program that has this project's assignors, one for the whole JVM: it answers over its input and output, and ends when
 * they close.
 *
 * <p>A frame is an int32 length and that many bytes of body; all integers are big-endian. What the bodies hold stands at
 * {@link Request} and {@link Answer}.
 */
final class Peer {
    /** The system property that holds the program's path. */
    static final String PROGRAM = "assignor.peer";

    /** How long it may take over a request, in ms: the largest take it some seconds where it is not optimised. */
    private static final long LIMIT = 60_000;

    private static final Timer TIMER = new Timer(true);
    private static Peer running;

    private final Process process;
    private final DataOutputStream out;
    private final DataInputStream in;

    private Peer() throws IOException {
        String program = System.getProperty(PROGRAM);
        if (program == null)
            throw new IllegalStateException("the system property " + PROGRAM + " has to be the path of the peer");
        process = new ProcessBuilder(program).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream(), 1 << 16));
        in = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16));
    }

    /** The answer to a request; an error that the peer tells is thrown. */
    static synchronized ByteBuffer ask(byte[] request) {
        ByteBuffer answer;
        try {
            if (running == null)
                running = new Peer();
            answer = running.answer(request);
        } catch (IOException e) {
            running = null;
            throw new UncheckedIOException("the peer was never there, has ended, or took longer than " + LIMIT + " ms", e);
        }
        if (answer.get() != 0)
            throw new IllegalArgumentException("the peer: " + Answer.string(answer));
        return answer;
    }

    private ByteBuffer answer(byte[] request) throws IOException {
        TimerTask end = new TimerTask() {
            @Override
            public void run() {
                process.destroyForcibly();
            }
        };
        TIMER.schedule(end, LIMIT);
        try {
            out.writeInt(request.length);
            out.write(request);
            out.flush();
            int length = in.readInt();
            byte[] body = in.readNBytes(length);
            if (body.length < length)
                throw new EOFException();
            return ByteBuffer.wrap(body);
        } finally {
            end.cancel();
        }
    }
}

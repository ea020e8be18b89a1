package tarn;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/** The server under test, on a free port with an empty folder; {@link #close} kills it. */
final class Database implements AutoCloseable {
    private static final long START_LIMIT_MS = 30_000;

    final int port;
    private final Process process;

    Database(String... options) throws Exception {
        Path folder = Files.createTempDirectory("tarn-java");
        port = freePort();
        String program = binary();
        List<String> command = new ArrayList<>(List.of(program));
        if (!isRedis()) command.add("serve");
        command.addAll(List.of("--port", "" + port, "--dir", "" + folder, "--save", "", "--loglevel", "warning"));
        command.addAll(List.of(options));
        Path output = folder.resolve("output");
        process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile()).start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
        long started = System.currentTimeMillis();
        while (!answers()) {
            if (!process.isAlive() || System.currentTimeMillis() - started > START_LIMIT_MS) {
                close();
                throw new IOException("the server does not answer:\n" + Files.readString(output));
            }
            Thread.sleep(10);
        }
    }

    String url() {
        return "redis://127.0.0.1:" + port;
    }

    /** True if the program to test is Redis. */
    static boolean isRedis() {
        return Path.of(binary()).getFileName().toString().startsWith("redis");
    }

    /** Waits until a condition holds; fails after ten seconds. */
    static void until(String what, Callable<Boolean> holds) throws Exception {
        long started = System.currentTimeMillis();
        while (!holds.call()) {
            if (System.currentTimeMillis() - started > 10_000) throw new AssertionError("in vain: " + what);
            Thread.sleep(5);
        }
    }

    /** The program to test: TARN_BINARY, or what cargo built. */
    private static String binary() {
        Map<String, String> environment = System.getenv();
        String target = environment.getOrDefault("CARGO_TARGET_DIR", "../../../target");
        return environment.getOrDefault("TARN_BINARY", target + "/debug/tarn");
    }

    static int freePort() throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return listener.getLocalPort();
        }
    }

    private boolean answers() {
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(1000);
            socket.getOutputStream().write("PING\r\n".getBytes());
            return socket.getInputStream().read() == '+';
        } catch (IOException error) {
            return false;
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}

package tarn;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** The certificates of {@code certificates.sh}, which says what they are, in a folder of their own. */
final class Certificates {
    private final Path folder;

    Certificates() throws Exception {
        folder = Files.createTempDirectory("tarn-java-certificates");
        Process made = new ProcessBuilder("sh", "../certificates.sh", "" + folder).redirectErrorStream(true).start();
        String printed = new String(made.getInputStream().readAllBytes());
        if (made.waitFor() != 0) throw new AssertionError(printed);
    }

    File file(String name) {
        return folder.resolve(name).toFile();
    }

    /** Starts a server that shows a certificate, and trusts the authority. */
    Database start(String name, String... more) throws Exception {
        Stream<String> files = Stream.of("--tls-cert-file", "" + file(name + ".pem"), "--tls-key-file",
                "" + file(name + ".key"), "--tls-ca-cert-file", "" + file("authority.pem"));
        return new Database(Stream.concat(files, Stream.of(more)).toArray(String[]::new));
    }
}

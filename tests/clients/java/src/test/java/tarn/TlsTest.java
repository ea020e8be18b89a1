package tarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.AclCategory;
import io.lettuce.core.AclSetuserArgs;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisConnectionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import io.lettuce.core.SslVerifyMode;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Lettuce over TLS, as the user {@code default} and as a user with rules. */
@Timeout(30)
class TlsTest {
    private static final String PASSWORD = "changeit";

    private static Certificates certificates;
    private static Server strict;
    private static RedisClient preparing;
    private static RedisCommands<String, String> admin;

    /** A server with a port for TLS beside the ordinary one. */
    private record Server(Database database, int port) {
        static Server start(String certificate, String authClients) throws Exception {
            int port = Database.freePort();
            String[] more = {"--tls-port", "" + port, "--tls-auth-clients", authClients};
            return new Server(certificates.start(certificate, more), port);
        }
    }

    @BeforeAll
    static void start() throws Exception {
        certificates = new Certificates();
        strict = Server.start("server", "yes");
        preparing = RedisClient.create(strict.database.url());
        admin = preparing.connect().sync();
    }

    @AfterAll
    static void end() {
        preparing.shutdown(0, 5, TimeUnit.SECONDS);
        strict.database.close();
    }

    @BeforeEach
    void prepare() {
        AclSetuserArgs rules = AclSetuserArgs.Builder.reset().on().addPassword("wonderland").keyPattern("app:*");
        rules.channelPattern("news:*").allCommands().removeCategory(AclCategory.DANGEROUS);
        assertEquals("OK", admin.aclSetuser("alice", rules));
        admin.flushall();
        admin.aclLogReset();
    }

    /** The authority that a client trusts, and the certificate that it shows unless its name is empty, as PEM. */
    private static SslOptions.Builder pem(String authority, String shown) {
        SslOptions.Builder options = SslOptions.builder().jdkSslProvider();
        options.trustManager(certificates.file(authority + ".pem"));
        if (shown.isEmpty()) return options;
        return options.keyManager(certificates.file(shown + ".pem"), certificates.file(shown + ".key"), new char[0]);
    }

    private static RedisURI.Builder at(Server server) {
        return RedisURI.builder().withHost("localhost").withPort(server.port).withSsl(true);
    }

    private static RedisURI alice(String password) {
        return at(strict).withAuthentication("alice", password).build();
    }

    private interface Body {
        void run(RedisClient client, StatefulRedisConnection<String, String> connection) throws Exception;
    }

    /** A test with a client over TLS, which does not connect again. */
    private static void with(RedisURI uri, SslOptions.Builder tls, ProtocolVersion protocol, Body body) throws Exception {
        RedisClient client = RedisClient.create(uri);
        ClientOptions.Builder options = ClientOptions.builder().sslOptions(tls.build()).autoReconnect(false);
        client.setOptions(options.protocolVersion(protocol).build());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            body.run(client, connection);
        } finally {
            client.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }

    private static void answers(RedisURI uri, SslOptions.Builder tls) throws Exception {
        with(uri, tls, ProtocolVersion.RESP3, (client, connection) -> assertEquals("PONG", connection.sync().ping()));
    }

    private static void refused(RedisURI uri, SslOptions.Builder tls) {
        assertThrows(RedisConnectionException.class, () -> answers(uri, tls));
    }

    @Test
    void aServerThatCannotBeTrustedIsLeft() throws Exception {
        answers(at(strict).build(), pem("authority", "client"));
        refused(at(strict).build(), pem("foreign", "client"));
        Server elsewhere = Server.start("elsewhere", "no");
        try {
            refused(at(elsewhere).build(), pem("authority", ""));
            answers(at(elsewhere).withVerifyPeer(SslVerifyMode.CA).build(), pem("authority", ""));
        } finally {
            elsewhere.database.close();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"TLSv1.2", "TLSv1.3"})
    void aCertificateIsAskedFor(String version) throws Exception {
        answers(at(strict).build(), pem("authority", "client").protocols(version));
        refused(at(strict).build(), pem("authority", "").protocols(version));
        refused(at(strict).build(), pem("authority", "stranger").protocols(version));
    }

    @Test
    void storesOfJavaServeAsWell() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream authority = new FileInputStream(certificates.file("authority.pem"))) {
            store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(authority));
        }
        File trusted = certificates.file("trusted.p12");
        try (OutputStream out = new FileOutputStream(trusted)) {
            store.store(out, PASSWORD.toCharArray());
        }
        SslOptions.Builder options = SslOptions.builder().jdkSslProvider().keyStoreType("PKCS12");
        options.truststore(trusted, PASSWORD);
        refused(at(strict).build(), options);
        answers(at(strict).build(), options.keystore(certificates.file("client.p12"), PASSWORD.toCharArray()));
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void aUserMayDoWhatRulesSay(ProtocolVersion protocol) throws Exception {
        SslOptions.Builder shown = pem("authority", "client");
        with(alice("wonderland"), shown, protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertEquals("alice", redis.aclWhoami());
            assertEquals("OK", redis.set("app:k", "v"));
            for (Runnable refused : List.<Runnable>of(redis::flushall, () -> redis.get("other:k"),
                    () -> redis.publish("secret", "m"))) {
                String reason = assertThrows(RedisCommandExecutionException.class, refused::run).getMessage();
                assertTrue(reason.startsWith("NOPERM "), reason);
            }
            redis.multi();
            redis.set("app:k", "w");
            redis.get("other:k");
            assertThrows(RedisCommandExecutionException.class, redis::exec);
            assertEquals("v", redis.get("app:k"));
        });
        refused(alice("guess"), shown);
        List<String> seen = new ArrayList<>();
        for (Map<String, Object> entry : admin.aclLog()) {
            seen.add(entry.get("reason") + " " + entry.get("context") + " " + entry.get("object") + " "
                    + entry.get("username"));
        }
        assertEquals(List.of("auth toplevel HELLO alice", "key multi other:k alice", "channel toplevel secret alice",
                "key toplevel other:k alice", "command toplevel flushall alice"), seen);
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void messagesAndLargeValuesComeOver(ProtocolVersion protocol) throws Exception {
        with(alice("wonderland"), pem("authority", "client"), protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            String large = "x".repeat(10 << 20);
            assertEquals("OK", redis.set("app:large", large));
            assertTrue(redis.get("app:large").equals(large));
            RedisFuture<Long> last = null;
            for (int number = 0; number < 5000; number++) last = connection.async().incr("app:n");
            assertEquals(5000, last.get(10, TimeUnit.SECONDS));
            try (StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub()) {
                List<String> heard = Collections.synchronizedList(new ArrayList<>());
                listener.addListener(new RedisPubSubAdapter<>() {
                    @Override
                    public void message(String channel, String message) {
                        heard.add(channel + " " + message);
                    }
                });
                listener.sync().subscribe("news:a");
                assertEquals(1, redis.publish("news:a", "hello"));
                Database.until("the message", () -> heard.equals(List.of("news:a hello")));
            }
        });
    }
}

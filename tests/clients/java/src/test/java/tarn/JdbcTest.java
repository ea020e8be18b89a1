package tarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The JDBC driver of PostgreSQL at the port for SQL, which serves nobody without TLS and a password. */
@Timeout(30)
class JdbcTest {
    private static final String PASSWORD = "correct horse battery staple";
    private static final String TABLE =
            "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT, seats INT) STORED AS HASH LOCATION 'flight:*'";

    private static Certificates certificates;
    private static Database database;
    private static RedisClient preparing;
    private static RedisCommands<String, String> admin;
    private static int port;

    @BeforeAll
    static void start() throws Exception {
        Assumptions.assumeFalse(Database.isRedis(), "Redis knows no SQL");
        certificates = new Certificates();
        port = Database.freePort();
        database = certificates.start("server", "--sql-port", "" + port, "--sql-tls", "required");
        preparing = RedisClient.create(database.url());
        admin = preparing.connect().sync();
        admin.hset("flight:1", Map.of("dest", "LAX", "seats", "180"));
        admin.hset("flight:2", Map.of("dest", "SFO", "seats", "90"));
        ProtocolKeyword sql = () -> "SQL".getBytes();
        admin.dispatch(sql, new StatusOutput<>(StringCodec.UTF8), new CommandArgs<>(StringCodec.UTF8).add(TABLE));
        admin.configSet("requirepass", PASSWORD);
    }

    @AfterAll
    static void end() {
        if (preparing != null) preparing.shutdown(0, 5, TimeUnit.SECONDS);
        if (database != null) database.close();
    }

    /** The strictest properties, some of them changed, as name and value by turns. */
    private static Connection connect(String... changes) throws SQLException {
        Properties properties = new Properties();
        properties.putAll(Map.of("user", "default", "password", PASSWORD, "sslmode", "verify-full",
                "sslrootcert", "" + certificates.file("authority.pem"), "loginTimeout", "20"));
        for (int at = 0; at < changes.length; at += 2) properties.setProperty(changes[at], changes[at + 1]);
        return DriverManager.getConnection("jdbc:postgresql://localhost:" + port + "/tarn", properties);
    }

    private static void serves(String... changes) throws SQLException {
        try (Connection connection = connect(changes);
                ResultSet rows = connection.createStatement().executeQuery("SELECT sum(seats) FROM flight")) {
            assertTrue(rows.next());
            assertEquals(270, rows.getInt(1));
        }
    }

    /** Fails unless there is no connection; returns the SQLSTATE. */
    private static String refused(String... changes) {
        return assertThrows(SQLException.class, () -> connect(changes).close()).getSQLState();
    }

    @Test
    void theServerIsVerifiedInFull() throws Exception {
        serves();
        serves("channelBinding", "require");
        assertEquals("08006", refused("sslrootcert", "" + certificates.file("foreign.pem")));
        admin.configSet(Map.of("tls-cert-file", "" + certificates.file("elsewhere.pem"),
                "tls-key-file", "" + certificates.file("elsewhere.key")));
        try {
            assertEquals("08006", refused());
            serves("sslmode", "verify-ca");
        } finally {
            admin.configSet(Map.of("tls-cert-file", "" + certificates.file("server.pem"),
                    "tls-key-file", "" + certificates.file("server.key")));
        }
        serves();
    }

    @Test
    void whoDoesNotEncryptOrKnowThePasswordIsRefused() throws Exception {
        assertEquals("28000", refused("sslmode", "disable"));
        assertEquals("28P01", refused("password", "guess"));
        serves();
    }

    @Test
    void aCertificateIsAskedFor() throws Exception {
        admin.configSet("sql-tls-auth-clients", "yes");
        try {
            // The file for Java has the key and the certificate.
            serves("sslkey", "" + certificates.file("client.p12"), "sslpassword", "changeit");
            refused();
        } finally {
            admin.configSet("sql-tls-auth-clients", "no");
        }
        serves();
    }

    @Test
    void statementsAreAnsweredOverTls() throws Exception {
        try (Connection connection = connect()) {
            assertTrue(connection.isValid(10));
            try (PreparedStatement asked = connection.prepareStatement("SELECT id, seats FROM flight WHERE dest = ?")) {
                for (String dest : new String[] {"LAX", "SFO", "LAX", "SFO", "LAX", "SFO", "LAX", "SFO"}) {
                    asked.setString(1, dest);
                    try (ResultSet rows = asked.executeQuery()) {
                        assertTrue(rows.next());
                        assertEquals(dest.equals("LAX") ? "1" : "2", rows.getString("id"));
                        assertFalse(rows.next());
                    }
                }
            }
            try (ResultSet rows = connection.createStatement().executeQuery("SELECT repeat('x', 1000000)")) {
                assertTrue(rows.next());
                assertEquals("x".repeat(1_000_000), rows.getString(1));
            }
            connection.setAutoCommit(false);
            assertEquals("42P01", assertThrows(SQLException.class,
                    () -> connection.createStatement().executeQuery("SELECT * FROM nothing")).getSQLState());
            connection.rollback();
        }
    }
}

package tarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.FunctionRestoreMode;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.Range;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Lettuce, in both protocols. */
@Timeout(30)
class LettuceTest {
    private static final String LIBRARY =
            "#!lua name=ours\nredis.register_function('put', function(keys, args) "
                    + "redis.call('SET', keys[1], args[1]) return {1, 'two', args[1]} end)";

    private static Database database;

    @BeforeAll
    static void start() throws Exception {
        database = new Database();
    }

    @AfterAll
    static void end() {
        database.close();
    }

    /** A test with a client and a connection to an empty server. */
    private interface Body {
        void run(RedisClient client, StatefulRedisConnection<String, String> connection) throws Exception;
    }

    private static void with(ProtocolVersion protocol, Body body) throws Exception {
        RedisClient client = RedisClient.create(database.url());
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        try (StatefulRedisConnection<String, String> connection = client.connect()) {
            connection.sync().flushall();
            connection.sync().functionFlush(io.lettuce.core.FlushMode.SYNC);
            body.run(client, connection);
        } finally {
            client.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void valuesComeBackInTheirTypes(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertEquals("OK", redis.set("k", "v", SetArgs.Builder.ex(100).nx()));
            assertNull(redis.set("k", "w", SetArgs.Builder.nx()));
            assertEquals("v", redis.setGet("k", "w"));
            assertEquals(2, redis.hset("h", Map.of("a", "1", "b", "zwei")));
            assertEquals(Map.of("a", "1", "b", "zwei"), redis.hgetall("h"));
            assertEquals(2, redis.zadd("z", 2.5, "b", -7.0, "a"));
            List<ScoredValue<String>> scored = redis.zrangeWithScores("z", 0, -1);
            assertEquals(List.of(ScoredValue.just(-7.0, "a"), ScoredValue.just(2.5, "b")), scored);
            assertEquals(List.of("b"), redis.zrangebyscore("z", Range.create(0, 9)));
            assertEquals(List.of(KeyValue.just("k", "w"), KeyValue.empty("nobody")), redis.mget("k", "nobody"));
            assertEquals(3, redis.sadd("s", "x", "y", "z"));
            assertEquals(Set.of("x", "y", "z"), redis.smembers("s"));
            String wrong = assertThrows(RedisCommandExecutionException.class, () -> redis.lpush("k", "x")).getMessage();
            assertEquals("WRONGTYPE Operation against a key holding the wrong kind of value", wrong);
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void futuresEndInTheirOrder(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            connection.setAutoFlushCommands(false);
            List<RedisFuture<Long>> futures = new ArrayList<>();
            for (int turn = 0; turn < 1000; turn++) futures.add(connection.async().incr("n"));
            connection.flushCommands();
            connection.setAutoFlushCommands(true);
            List<Long> replies = new ArrayList<>();
            for (RedisFuture<Long> future : futures) replies.add(future.get(10, TimeUnit.SECONDS));
            assertEquals(LongStream.rangeClosed(1, 1000).boxed().toList(), replies);
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void aTransactionDoesAllOrNothing(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertEquals("OK", redis.multi());
            assertNull(redis.set("k", "1"));
            assertNull(redis.incr("k"));
            TransactionResult done = redis.exec();
            assertEquals("OK", done.get(0));
            assertEquals(2L, (Long) done.get(1));
            try (StatefulRedisConnection<String, String> other = client.connect()) {
                redis.watch("k");
                other.sync().set("k", "9");
                redis.multi();
                redis.set("k", "0");
                assertTrue(redis.exec().wasDiscarded());
                assertEquals("9", redis.get("k"));
            }
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void scriptsAreFoundByTheirDigest(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            redis.scriptFlush();
            String script = "return {redis.call('INCRBY', KEYS[1], ARGV[1]), ARGV[2], false}";
            String[] keys = {"n"};
            assertThrows(RedisNoScriptException.class,
                    () -> redis.evalsha(redis.digest(script), ScriptOutputType.MULTI, keys, "1", "x"));
            assertEquals(redis.digest(script), redis.scriptLoad(script));
            assertEquals(List.of(true), redis.scriptExists(redis.digest(script)));
            List<Object> reply = redis.evalsha(redis.digest(script), ScriptOutputType.MULTI, keys, "5", "x");
            assertEquals(Arrays.asList(5L, "x", null), reply);
            assertEquals(true, redis.eval("return redis.call('GET', KEYS[1]) == '5'", ScriptOutputType.BOOLEAN, keys));
            assertEquals("PONG", redis.eval("return {ok = 'PONG'}", ScriptOutputType.STATUS));
            assertEquals("5", redis.evalReadOnly("return redis.call('GET', KEYS[1])", ScriptOutputType.VALUE, keys));
            String error = assertThrows(RedisCommandExecutionException.class,
                    () -> redis.eval("return redis.error_reply('MINE is it')", ScriptOutputType.VALUE)).getMessage();
            assertEquals("MINE is it", error);
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void functionsAreLoadedCalledAndRestored(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertEquals("ours", redis.functionLoad(LIBRARY));
            assertThrows(RedisCommandExecutionException.class, () -> redis.functionLoad(LIBRARY));
            assertEquals("ours", redis.functionLoad(LIBRARY, true));
            assertEquals(List.of(1L, "two", "v"), redis.fcall("put", ScriptOutputType.MULTI, new String[] {"k"}, "v"));
            assertEquals("v", redis.get("k"));
            assertEquals(1, redis.functionList("o*").size());
            byte[] dump = redis.functionDump();
            redis.functionFlush(io.lettuce.core.FlushMode.SYNC);
            assertEquals(List.of(), redis.functionList());
            assertEquals("OK", redis.functionRestore(dump, FunctionRestoreMode.APPEND));
            assertEquals(1, redis.functionList().size());
        });
    }

    /** What came to a subscriber, and at where. */
    private static List<String> recorded(StatefulRedisPubSubConnection<String, String> subscriber) {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String text) {
                seen.add(channel + " " + text);
            }

            @Override
            public void message(String pattern, String channel, String text) {
                seen.add(pattern + " " + channel + " " + text);
            }
        });
        return seen;
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void messagesReachChannelsAndPatterns(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
                List<String> seen = recorded(subscriber);
                subscriber.sync().subscribe("news");
                subscriber.sync().psubscribe("n*");
                for (int number = 0; number < 100; number++) {
                    assertEquals(2, connection.sync().publish("news", "" + number));
                }
                Database.until("all came", () -> seen.size() == 200);
                assertEquals(List.of("news 0", "n* news 0", "news 1", "n* news 1"), seen.subList(0, 4));
                // In RESP3 a subscriber may ask anything else.
                if (protocol == ProtocolVersion.RESP3) assertEquals("OK", subscriber.sync().set("k", "v"));
                subscriber.sync().unsubscribe("news");
                subscriber.sync().punsubscribe("n*");
                Database.until("it left", () -> connection.sync().publish("news", "x") == 0);
            }
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void keyspaceNotificationsTellOfWritesAndExpiry(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            redis.configSet("notify-keyspace-events", "KEA");
            try (StatefulRedisPubSubConnection<String, String> subscriber = client.connectPubSub()) {
                List<String> seen = recorded(subscriber);
                subscriber.sync().psubscribe("__keyspace@0__:k", "__keyevent@0__:expired");
                redis.set("k", "v");
                redis.pexpire("k", 1);
                Database.until("it expired", () -> seen.stream().anyMatch(one -> one.endsWith("expired k")));
                String at = "__keyspace@0__:k __keyspace@0__:k ";
                assertTrue(seen.containsAll(List.of(at + "set", at + "expire", at + "expired")), seen.toString());
            } finally {
                redis.configSet("notify-keyspace-events", "");
            }
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void aWaitingPopGetsWhatAnotherPushes(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            try (StatefulRedisConnection<String, String> waiting = client.connect()) {
                RedisFuture<KeyValue<String, String>> popped = waiting.async().blpop(20, "q", "r");
                Database.until("it waits", () -> connection.sync().info("clients").contains("blocked_clients:1"));
                assertFalse(popped.isDone());
                connection.sync().rpush("r", "x");
                assertEquals(KeyValue.just("r", "x"), popped.get(10, TimeUnit.SECONDS));
                assertNull(waiting.sync().blpop(0.05, "nobody"));
            }
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void aScanSeesEveryKey(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            for (int number = 0; number < 300; number++) redis.set("key:" + number, "v");
            Set<String> seen = new HashSet<>();
            KeyScanCursor<String> cursor = redis.scan(ScanArgs.Builder.matches("key:*").limit(20));
            seen.addAll(cursor.getKeys());
            while (!cursor.isFinished()) {
                cursor = redis.scan(ScanCursor.of(cursor.getCursor()), ScanArgs.Builder.matches("key:*").limit(20));
                seen.addAll(cursor.getKeys());
            }
            assertEquals(300, seen.size());
        });
    }
}

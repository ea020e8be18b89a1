package tarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.Limit;
import io.lettuce.core.Range;
import io.lettuce.core.RedisBusyException;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.XAddArgs;
import io.lettuce.core.XAutoClaimArgs;
import io.lettuce.core.XClaimArgs;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.XReadArgs.StreamOffset;
import io.lettuce.core.XTrimArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.models.stream.ClaimedMessages;
import io.lettuce.core.models.stream.PendingMessage;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.redisson.Redisson;
import org.redisson.api.AutoClaimResult;
import org.redisson.api.RReliableTopic;
import org.redisson.api.RStream;
import org.redisson.api.RedissonClient;
import org.redisson.api.StreamMessageId;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Streams of Lettuce, in both protocols, and of Redisson. */
@Timeout(30)
class StreamsTest {
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
            body.run(client, connection);
        } finally {
            client.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }

    private static List<String> ids(List<StreamMessage<String, String>> messages) {
        return messages.stream().map(StreamMessage::getId).toList();
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void entriesKeepTheirOrder(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertNull(redis.xadd("s", XAddArgs.Builder.nomkstream(), Map.of("a", "1")));
            assertEquals("1-1", redis.xadd("s", new XAddArgs().id("1-1"), Map.of("a", "1")));
            assertEquals("1-2", redis.xadd("s", new XAddArgs().id("1-*").maxlen(100).approximateTrimming(), Map.of("b", "")));
            assertEquals("2-0", redis.xadd("s", new XAddArgs().id("2-0"), "c", "3", "d", "4"));
            List<StreamMessage<String, String>> all = redis.xrange("s", Range.unbounded());
            assertEquals(List.of("1-1", "1-2", "2-0"), ids(all));
            assertEquals(Map.of("c", "3", "d", "4"), all.get(2).getBody());
            assertEquals(List.of("1-2"), ids(redis.xrange("s", Range.from(Range.Boundary.excluding("1-1"), Range.Boundary.including("2")), Limit.from(1))));
            assertEquals(List.of("2-0", "1-2"), ids(redis.xrevrange("s", Range.unbounded(), Limit.from(2))));
            assertEquals(List.of("2-0"), ids(redis.xread(StreamOffset.from("s", "1-2"))));
            assertEquals(1, redis.xdel("s", "1-1", "7-7"));
            assertEquals(1, redis.xtrim("s", XTrimArgs.Builder.minId("2")));
            assertEquals(1, redis.xlen("s"));
            List<Object> told = redis.xinfoStream("s");
            assertEquals(1L, told.get(told.indexOf("length") + 1));
            assertEquals(3L, told.get(told.indexOf("entries-added") + 1));
            assertThrows(RedisCommandExecutionException.class, () -> redis.xadd("s", new XAddArgs().id("1-1"), Map.of("a", "1")));
        });
    }

    @ParameterizedTest
    @EnumSource(names = {"RESP2", "RESP3"})
    void aGroupDeliversClaimsAndAcknowledges(ProtocolVersion protocol) throws Exception {
        with(protocol, (client, connection) -> {
            RedisCommands<String, String> redis = connection.sync();
            assertEquals("OK", redis.xgroupCreate(StreamOffset.latest("s"), "g", XGroupCreateArgs.Builder.mkstream()));
            assertThrows(RedisBusyException.class, () -> redis.xgroupCreate(StreamOffset.latest("s"), "g"));
            Consumer<String> one = Consumer.from("g", "one");
            Consumer<String> two = Consumer.from("g", "two");
            try (StatefulRedisConnection<String, String> waiting = client.connect()) {
                XReadArgs patient = XReadArgs.Builder.block(Duration.ofSeconds(20));
                RedisFuture<List<StreamMessage<String, String>>> read = waiting.async().xreadgroup(one, patient, StreamOffset.lastConsumed("s"));
                Database.until("it waits", () -> redis.info("clients").contains("blocked_clients:1"));
                assertFalse(read.isDone());
                redis.xadd("s", new XAddArgs().id("1-1"), Map.of("n", "1"));
                assertEquals(List.of("1-1"), ids(read.get(10, TimeUnit.SECONDS)));
                assertTrue(waiting.sync().xread(XReadArgs.Builder.block(20), StreamOffset.latest("s")).isEmpty());
            }
            for (int number = 2; number <= 6; number++) redis.xadd("s", new XAddArgs().id("1-" + number), Map.of("n", "" + number));
            assertEquals(List.of("1-2", "1-3", "1-4"), ids(redis.xreadgroup(one, XReadArgs.Builder.count(3), StreamOffset.lastConsumed("s"))));
            assertEquals(List.of("1-5", "1-6"), ids(redis.xreadgroup(two, StreamOffset.lastConsumed("s"))));
            assertEquals(2, redis.xack("s", "g", "1-1", "1-5", "7-7"));
            assertEquals(Map.of("one", 3L, "two", 1L), redis.xpending("s", "g").getConsumerMessageCount());
            List<PendingMessage> pending = redis.xpending("s", two, Range.unbounded(), Limit.from(10));
            assertEquals(List.of("1-6"), pending.stream().map(PendingMessage::getId).toList());
            assertEquals(1, pending.get(0).getRedeliveryCount());
            assertEquals(List.of("1-2"), ids(redis.xclaim("s", two, XClaimArgs.Builder.minIdleTime(0), "1-2", "1-5")));
            ClaimedMessages<String, String> claimed = redis.xautoclaim("s", XAutoClaimArgs.Builder.xautoclaim(two, Duration.ZERO, "0").count(2));
            assertEquals("1-4", claimed.getId());
            assertEquals(List.of("1-2", "1-3"), ids(claimed.getMessages()));
            assertEquals(1, redis.xinfoGroups("s").size());
            assertEquals(2, redis.xinfoConsumers("s", "g").size());
            assertEquals(3, redis.xgroupDelconsumer("s", two));
            assertTrue(redis.xgroupDestroy("s", "g"));
        });
    }

    @Test
    void redissonHasStreamsAndTopicsThatKeepTheirMessages() throws Exception {
        Config config = new Config().setThreads(4).setNettyThreads(4).setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress(database.url()).setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        RedissonClient one = Redisson.create(config);
        RedissonClient two = Redisson.create(config);
        try {
            one.getKeys().flushall();
            RStream<String, String> stream = one.getStream("s");
            stream.createGroup(StreamCreateGroupArgs.name("g").makeStream());
            StreamMessageId first = stream.add(StreamAddArgs.entry("a", "1"));
            StreamMessageId second = stream.add(StreamAddArgs.entries(Map.of("b", "2")));
            RStream<String, String> same = two.getStream("s");
            assertEquals(Map.of(first, Map.of("a", "1")), same.readGroup("g", "c", StreamReadGroupArgs.neverDelivered().count(1)));
            assertEquals(List.of(second), List.copyOf(stream.readGroup("g", "d", StreamReadGroupArgs.neverDelivered()).keySet()));
            AutoClaimResult<String, String> claimed = stream.autoClaim("g", "d", 0, TimeUnit.SECONDS, StreamMessageId.MIN, 10);
            assertEquals(2, claimed.getMessages().size());
            assertEquals(2, stream.ack("g", first, second));
            assertEquals(0, stream.getPendingInfo("g").getTotal());
            assertEquals(2, stream.getInfo().getLength());

            List<String> seen = Collections.synchronizedList(new ArrayList<>());
            RReliableTopic topic = one.getReliableTopic("news");
            String listener = topic.addListener(String.class, (channel, text) -> seen.add(text));
            RReliableTopic writer = two.getReliableTopic("news");
            for (int number = 0; number < 50; number++) writer.publish("" + number);
            Database.until("all have come", () -> seen.size() >= 50);
            assertEquals(IntStream.range(0, 50).mapToObj(number -> "" + number).toList(), seen);
            topic.removeListener(listener);
        } finally {
            one.shutdown(0, 5, TimeUnit.SECONDS);
            two.shutdown(0, 5, TimeUnit.SECONDS);
        }
    }
}

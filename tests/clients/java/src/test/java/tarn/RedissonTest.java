package tarn;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RScoredSortedSet;
import org.redisson.api.RScript;
import org.redisson.api.RSemaphore;
import org.redisson.api.RTopic;
import org.redisson.api.RTransaction;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.TransactionOptions;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson: locks, limiters and collections, which are scripts and messages. Two clients are two processes. */
@Timeout(30)
class RedissonTest {
    private static Database database;
    private static RedissonClient one;
    private static RedissonClient two;

    @BeforeAll
    static void start() throws Exception {
        database = new Database();
        one = client();
        two = client();
    }

    private static RedissonClient client() {
        Config config = new Config().setThreads(4).setNettyThreads(4);
        config.useSingleServer().setAddress(database.url()).setConnectionMinimumIdleSize(2).setConnectionPoolSize(16);
        return Redisson.create(config);
    }

    @AfterAll
    static void end() {
        one.shutdown(0, 5, TimeUnit.SECONDS);
        two.shutdown(0, 5, TimeUnit.SECONDS);
        database.close();
    }

    @BeforeEach
    void empty() {
        one.getKeys().flushall();
    }

    @Test
    void aLockIsHeldByOneThreadAndEnteredAgain() throws Exception {
        RLock lock = one.getLock("guard");
        lock.lock();
        assertTrue(lock.tryLock());
        assertEquals(2, lock.getHoldCount());
        assertFalse(two.getLock("guard").tryLock(10, TimeUnit.MILLISECONDS));
        CompletableFuture<Boolean> next = CompletableFuture.supplyAsync(() -> {
            RLock other = two.getLock("guard");
            other.lock();
            other.unlock();
            return true;
        });
        lock.unlock();
        lock.unlock();
        assertTrue(next.get(10, TimeUnit.SECONDS), "the other was told by a message");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void manyCountBehindALockAndLoseNothing() throws Exception {
        int[] counted = {0};
        List<CompletableFuture<Void>> workers = new CopyOnWriteArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            RedissonClient client = worker % 2 == 0 ? one : two;
            workers.add(CompletableFuture.runAsync(() -> {
                for (int turn = 0; turn < 25; turn++) {
                    RLock lock = client.getFairLock("fair");
                    lock.lock(20, TimeUnit.SECONDS);
                    counted[0]++;
                    lock.unlock();
                }
            }, task -> new Thread(task).start()));
        }
        for (CompletableFuture<Void> worker : workers) worker.get(20, TimeUnit.SECONDS);
        assertEquals(100, counted[0]);
    }

    @Test
    void readersShareALockThatWritersDoNot() {
        assertTrue(one.getReadWriteLock("book").readLock().tryLock());
        assertFalse(two.getReadWriteLock("book").writeLock().tryLock());
        assertTrue(two.getReadWriteLock("book").readLock().tryLock());
        two.getReadWriteLock("book").readLock().unlock();
        one.getReadWriteLock("book").readLock().unlock();
        assertTrue(two.getReadWriteLock("book").writeLock().tryLock());
    }

    @Test
    void aLimiterGivesItsPermits() {
        RRateLimiter limiter = one.getRateLimiter("limit");
        assertTrue(limiter.trySetRate(RateType.OVERALL, 3, Duration.ofMinutes(1)));
        assertTrue(limiter.tryAcquire(2));
        assertTrue(two.getRateLimiter("limit").tryAcquire());
        assertFalse(limiter.tryAcquire());
        assertEquals(0, limiter.availablePermits());
    }

    @Test
    void aSemaphoreAndALatchWakeThoseWhoWait() throws Exception {
        RSemaphore semaphore = one.getSemaphore("seats");
        assertTrue(semaphore.trySetPermits(1));
        semaphore.acquire();
        CompletableFuture<Boolean> seated = CompletableFuture.supplyAsync(() -> {
            try {
                return two.getSemaphore("seats").tryAcquire(1, Duration.ofSeconds(20));
            } catch (InterruptedException error) {
                return false;
            }
        });
        semaphore.release();
        assertTrue(seated.get(10, TimeUnit.SECONDS));
        RCountDownLatch latch = one.getCountDownLatch("latch");
        assertTrue(latch.trySetCount(2));
        CompletableFuture<Void> opened = CompletableFuture.runAsync(() -> {
            two.getCountDownLatch("latch").countDown();
            two.getCountDownLatch("latch").countDown();
        });
        assertTrue(latch.await(10, TimeUnit.SECONDS));
        opened.get(10, TimeUnit.SECONDS);
    }

    @Test
    void topicsReachBothClients() throws Exception {
        CountDownLatch came = new CountDownLatch(4);
        RTopic topic = one.getTopic("news");
        topic.addListener(String.class, (channel, text) -> came.countDown());
        two.getPatternTopic("n*").addListener(String.class, (pattern, channel, text) -> came.countDown());
        assertEquals(2, topic.publish("x"));
        assertEquals(2, two.getTopic("news").publish("y"));
        assertTrue(came.await(10, TimeUnit.SECONDS));
        topic.removeAllListeners();
        two.getPatternTopic("n*").removeAllListeners();
    }

    @Test
    void collectionsAreKeptInTheServer() throws Exception {
        RMapCache<String, Integer> cache = one.getMapCache("cache");
        assertTrue(cache.fastPut("a", 1, 100, TimeUnit.SECONDS));
        cache.put("b", 2, 1, TimeUnit.MILLISECONDS);
        assertEquals(1, two.<String, Integer>getMapCache("cache").putIfAbsent("a", 7));
        Database.until("its time is over", () -> !two.getMapCache("cache").containsKey("b"));
        assertEquals(Set.of("a"), cache.readAllKeySet());
        RScoredSortedSet<String> scores = one.getScoredSortedSet("scores");
        scores.add(2, "y");
        scores.add(1, "x");
        assertEquals(List.of("x", "y"), List.copyOf(scores.readAll()));
        RBlockingQueue<String> queue = one.getBlockingQueue("queue");
        RDelayedQueue<String> delayed = one.getDelayedQueue(queue);
        delayed.offer("later", 100, TimeUnit.MILLISECONDS);
        assertTrue(queue.isEmpty());
        assertEquals("later", queue.poll(10, TimeUnit.SECONDS));
        delayed.destroy();
        long sum = one.getScript(StringCodec.INSTANCE).eval(RScript.Mode.READ_ONLY, "return 40 + ARGV[1]", RScript.ReturnType.INTEGER, List.of(), 2);
        assertEquals(42, sum);
        assertTrue(one.getBloomFilter("bloom").tryInit(1000, 0.01));
        assertTrue(one.getBloomFilter("bloom").add("x"));
        assertTrue(two.getBloomFilter("bloom").contains("x"));
    }

    @Test
    void aTransactionIsCommittedOrRolledBack() {
        RTransaction transaction = one.createTransaction(TransactionOptions.defaults());
        transaction.getMap("map").put("a", "1");
        assertFalse(two.getMap("map").containsKey("a"));
        transaction.commit();
        assertEquals("1", two.getMap("map").get("a"));
        RTransaction undone = one.createTransaction(TransactionOptions.defaults());
        undone.getMap("map").put("a", "2");
        undone.rollback();
        assertEquals("1", two.getMap("map").get("a"));
    }
}

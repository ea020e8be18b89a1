package tarn;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisException;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * YCSB over the protocol of Redis: a record is a hash, and all keys are in a sorted set, as in YCSB's own
 * binding, which is not on Maven Central. Each thread of YCSB has one connection.
 */
public final class RedisBinding extends DB {
  private static final String INDEX = "_indices";
  private Jedis jedis;

  @Override
  public void init() {
    String port = getProperties().getProperty("redis.port");
    jedis = new Jedis("127.0.0.1", Integer.parseInt(port), 60_000);
  }

  @Override
  public void cleanup() {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    if (fields == null) {
      StringByteIterator.putAllAsByteIterators(result, jedis.hgetAll(key));
    } else {
      String[] names = fields.toArray(new String[0]);
      var values = jedis.hmget(key, names).iterator();
      for (String name : names) {
        result.put(name, new StringByteIterator(values.next()));
      }
    }
    return result.isEmpty() ? Status.ERROR : Status.OK;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    try {
      return "OK".equals(jedis.hmset(key, StringByteIterator.getStringMap(values))) ? Status.OK : Status.ERROR;
    } catch (JedisException error) {
      return Status.ERROR;
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    Status written = update(table, key, values);
    if (written.isOk()) {
      jedis.zadd(INDEX, key.hashCode(), key);
    }
    return written;
  }

  @Override
  public Status delete(String table, String key) {
    boolean was = jedis.del(key) > 0;
    return jedis.zrem(INDEX, key) > 0 && was ? Status.OK : Status.ERROR;
  }

  @Override
  public Status scan(
      String table, String from, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    for (String key : jedis.zrangeByScore(INDEX, from.hashCode(), Double.POSITIVE_INFINITY, 0, count)) {
      HashMap<String, ByteIterator> record = new HashMap<>();
      read(table, key, fields, record);
      result.add(record);
    }
    return Status.OK;
  }
}

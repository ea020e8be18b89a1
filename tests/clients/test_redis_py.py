"""redis-py does with Tarn what it does with Redis: every data type, pipelines, iterators, waiting commands, both protocols."""

import threading
import time

import pytest
import redis


def test_strings_come_back_as_texts_numbers_and_nothing(client):
    assert client.set("name", "Tarn") is True
    assert client.get("name") == "Tarn"
    assert client.get("nobody") is None
    assert client.incr("count") == 1
    assert client.incrby("count", 41) == 42
    assert client.incrbyfloat("part", 0.5) == 0.5
    assert client.mset({"a": "1", "b": "2"}) is True
    assert client.mget("a", "b", "c") == ["1", "2", None]
    assert client.set("name", "other", nx=True) is None
    assert client.set("name", "new", get=True) == "Tarn"
    assert client.getdel("name") == "new"
    assert client.append("text", "ab") == 2
    assert client.setbit("bits", 7, 1) == 0
    assert client.bitcount("bits") == 1


def test_any_bytes_are_keys_and_values(raw):
    every_byte = bytes(range(256))
    assert raw.set(every_byte, every_byte[::-1])
    assert raw.get(every_byte) == every_byte[::-1]
    assert raw.hset(b"\x00h", b"\x00\r\n", b"\xff") == 1
    assert raw.hgetall(b"\x00h") == {b"\x00\r\n": b"\xff"}
    megabyte = b"\x00\r\n*$" * 200_000
    assert raw.set("large", megabyte)
    assert raw.get("large") == megabyte


def test_hashes_are_dicts(client):
    assert client.hset("h", mapping={"a": 1, "b": "zwei"}) == 2
    assert client.hgetall("h") == {"a": "1", "b": "zwei"}
    assert client.hgetall("nobody") == {}
    assert client.hmget("h", "a", "nobody") == ["1", None]
    assert client.hincrby("h", "a", 2) == 3
    assert client.hexists("h", "b") is True
    assert client.hdel("h", "a", "b") == 2
    assert client.exists("h") == 0


def test_lists(client):
    assert client.rpush("l", "a", "b", "c") == 3
    assert client.lrange("l", 0, -1) == ["a", "b", "c"]
    assert client.lpop("l") == "a"
    assert client.lpop("l", 5) == ["b", "c"]
    assert client.lpop("l") is None
    client.rpush("l", "x", "y")
    assert client.lmove("l", "m", "LEFT", "RIGHT") == "x"
    assert client.lpos("l", "y") == 0
    assert client.lmpop(2, "nobody", "l", direction="LEFT") == ["l", ["y"]]


def test_sets_are_sets(client):
    assert client.sadd("s", "a", "b") == 2
    assert set(client.smembers("s")) == {"a", "b"}
    assert bool(client.sismember("s", "a")) is True
    client.sadd("t", "b", "c")
    assert set(client.sinter("s", "t")) == {"b"}
    assert set(client.sunion("s", "t")) == {"a", "b", "c"}
    assert client.sintercard(2, ["s", "t"]) == 1
    assert client.spop("s") in {"a", "b"}


def test_sorted_sets_have_float_scores(client, protocol):
    assert client.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
    pair = tuple if protocol == 2 else list
    assert client.zrange("z", 0, -1, withscores=True) == [pair(["a", 1.0]), pair(["b", 2.5]), pair(["c", float("inf")])]
    assert client.zscore("z", "b") == 2.5
    assert client.zscore("z", "nobody") is None
    assert client.zincrby("z", 1.5, "a") == 2.5
    assert client.zrank("z", "c") == 2
    assert client.zrangebyscore("z", "(1", 3) == ["a", "b"]
    assert client.zcount("z", "-inf", "+inf") == 3
    assert client.zmscore("z", ["a", "nobody"]) == [2.5, None]
    assert client.zadd("z", {"a": 1}, incr=True) == 3.5
    assert client.zremrangebyrank("z", 0, 0) == 1


def test_expiry(client):
    client.set("k", "v", ex=100)
    assert 90 < client.ttl("k") <= 100
    assert client.persist("k") is True
    assert client.ttl("k") == -1
    assert client.pexpire("k", 20) is True
    time.sleep(0.04)
    assert client.get("k") is None
    assert client.ttl("k") == -2


def test_a_pipeline_answers_in_order_with_errors_in_their_places(client):
    pipeline = client.pipeline(transaction=False)
    for number in range(1000):
        pipeline.set(f"k{number}", number)
    pipeline.lpush("k1", "no list")
    pipeline.get("k999")
    replies = pipeline.execute(raise_on_error=False)
    assert replies[:1000] == [True] * 1000
    assert isinstance(replies[1000], redis.ResponseError)
    assert str(replies[1000]).startswith("WRONGTYPE")
    assert replies[1001] == "999"


def test_iterators_see_every_element_while_others_come_and_go(client):
    stable = {f"stable{number}" for number in range(2000)}
    client.mset({key: "v" for key in stable})
    seen = set()
    for count, key in enumerate(client.scan_iter(count=50)):
        seen.add(key)
        client.set(f"new{count}", "v")
        client.delete(f"new{count - 1}")
        if count > 50_000:
            pytest.fail("the iteration does not end")
    assert stable <= seen
    assert set(client.scan_iter(match="stable1*", count=100)) == {key for key in stable if key.startswith("stable1")}
    client.rpush("a-list", 1)
    assert list(client.scan_iter(_type="list")) == ["a-list"]


def test_iterators_of_collections(client):
    client.hset("h", mapping={f"f{number}": number for number in range(1500)})
    assert dict(client.hscan_iter("h", count=50)) == {f"f{number}": str(number) for number in range(1500)}
    client.sadd("s", *range(1500))
    assert set(client.sscan_iter("s", count=50)) == {str(number) for number in range(1500)}
    client.zadd("z", {f"m{number}": number for number in range(1500)})
    assert dict(client.zscan_iter("z", count=50)) == {f"m{number}": float(number) for number in range(1500)}


def test_a_waiting_pop_gets_what_another_pushes(client, server, protocol):
    got = []

    def wait():
        with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as other:
            got.append(other.blpop(["first", "second"], timeout=10))

    waiter = threading.Thread(target=wait)
    waiter.start()
    while client.info("clients")["blocked_clients"] < 1:
        time.sleep(0.005)
    client.rpush("second", "x")
    waiter.join()
    assert [list(reply) for reply in got] == [["second", "x"]]
    assert client.blpop("nobody", timeout=0.05) is None
    client.zadd("z", {"a": 1})
    assert list(client.bzpopmin("z", timeout=1)) == ["z", "a", 1.0]


def test_errors_are_exceptions_of_their_kind(client):
    client.set("k", "text")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.lpush("k", 1)
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("k")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCH", "x")
    assert client.ping() is True


def test_the_server_describes_itself(client, protocol):
    assert client.info("server")["redis_version"].startswith("7.0")
    assert client.dbsize() == 0
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert client.config_set("timeout", 0)
    assert client.client_setname("tester") is True
    assert client.client_getname() == "tester"
    assert client.client_id() > 0
    assert any(entry["name"] == "tester" for entry in client.client_list())
    assert client.command_count() > 100
    assert "get" in client.command()
    assert client.time()[0] > 1_600_000_000
    assert client.object("encoding", "nobody") is None
    assert client.slowlog_get() is not None


def test_databases_are_apart(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol, db=0, decode_responses=True) as zero, \
            redis.Redis(port=server.port, protocol=protocol, db=9, decode_responses=True) as nine:
        zero.flushall()
        zero.set("k", "zero")
        nine.set("k", "nine")
        assert (zero.get("k"), nine.get("k")) == ("zero", "nine")
        assert nine.move("k", 0) is False
        nine.flushdb()
        assert (zero.dbsize(), nine.dbsize()) == (1, 0)


def test_many_threads_lose_no_increment(client, server):
    def work():
        with redis.Redis(port=server.port) as own:
            for _ in range(250):
                own.incr("total")

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("total") == "4000"

"""redis-py's cache on the client's side: hits come without a request, and what others change is forgotten."""

import importlib.util
import threading
import time

import pytest
import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

PATIENCE_SECONDS = 20
# Another package may have brought hiredis, whose parser hands no invalidations to the cache of this redis-py.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hiredis") is not None, reason="redis-py 5 caches with its own parser alone"
)


@pytest.fixture
def caching(server, monkeypatch):
    # redis-py caches with servers that say they are 7.4 or later, to be on the safe side.
    monkeypatch.setattr(CacheProxyConnection, "MIN_ALLOWED_VERSION", "7.0.0")
    client = redis.Redis(port=server.port, protocol=3, decode_responses=True, cache_config=CacheConfig(max_size=1000))
    yield client
    client.close()


def reads(client):
    """How many GETs the server has run, but for this client's own question."""
    return client.info("commandstats").get("cmdstat_get", {}).get("calls", 0)


def eventually(is_so):
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < PATIENCE_SECONDS, "it does not come true"
        time.sleep(0.01)


def test_a_cached_value_needs_no_request_until_it_changes(client, caching):
    client.set("k", "one")
    assert caching.get("k") == "one"
    before = reads(client)
    for _ in range(100):
        assert caching.get("k") == "one"
    assert reads(client) == before
    client.set("k", "two")
    eventually(lambda: caching.get("k") == "two")
    assert reads(client) == before + 1
    client.delete("k")
    eventually(lambda: caching.get("k") is None)


def test_hashes_expiry_and_flushes_are_forgotten(client, caching):
    client.hset("h", mapping={"f": "1"})
    client.set("e", "soon gone", px=200)
    assert caching.hgetall("h") == {"f": "1"}
    assert caching.get("e") == "soon gone"
    client.hset("h", "g", "2")
    eventually(lambda: caching.hgetall("h") == {"f": "1", "g": "2"})
    eventually(lambda: caching.get("e") is None)
    client.flushall()
    eventually(lambda: caching.hgetall("h") == {})


def test_a_cache_under_many_writers_is_right_in_the_end(server, client, caching):
    keys = [f"key:{number}" for number in range(20)]

    def write(seed):
        with redis.Redis(port=server.port) as writer:
            for number in range(500):
                writer.set(keys[(number * seed) % len(keys)], f"{seed}:{number}")

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 3, 7)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for key in keys:
            caching.get(key)
    for writer in writers:
        writer.join()
    eventually(lambda: [caching.get(key) for key in keys] == client.mget(keys))

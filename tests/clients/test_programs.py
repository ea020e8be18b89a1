"""Programs above redis-py: locks (pottery), limiters of rates (limits), caches (cachelib, Django), task queues (huey, dramatiq, RQ)."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest
import redis

LIMIT_SECONDS = 30


pytestmark = pytest.mark.filterwarnings("ignore::pottery.exceptions.InefficientAccessWarning")


@pytest.fixture
def url(server):
    with redis.Redis(port=server.port) as client:
        client.flushall()
    return f"redis://127.0.0.1:{server.port}/0"


def run(folder, name, source, *arguments, url):
    """Starts a Python program that imports the module `name` of this source."""
    pathlib.Path(folder, f"{name}.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(folder), "TARN_URL": url}
    with open(pathlib.Path(folder, "worker.log"), "w") as log:
        return subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def end(child):
    child.terminate()
    try:
        child.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def module(folder, name, monkeypatch, url):
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("TARN_URL", url)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)


def test_pottery_locks_one_at_a_time_and_extends(url):
    import pottery

    master = redis.Redis.from_url(url)
    counted = []

    def count():
        for _ in range(5):
            with pottery.Redlock(key="guard", masters={master}, auto_release_time=30):
                before = len(counted)
                master.ping()
                counted.append(1)
                assert len(counted) == before + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join(LIMIT_SECONDS) for thread in threads]
    assert len(counted) == 20
    lock = pottery.Redlock(key="guard", masters={master}, auto_release_time=30, num_extensions=1)
    assert lock.acquire() and 0 < lock.locked() <= 30
    other = pottery.Redlock(key="guard", masters={master}, auto_release_time=30)
    assert not other.acquire(blocking=False)
    lock.extend()
    with pytest.raises(pottery.TooManyExtensions):
        lock.extend()
    lock.release()
    with pytest.raises(pottery.ReleaseUnlockedLock):
        lock.release()
    assert other.acquire(blocking=False)
    other.release()


def test_pottery_keeps_collections_in_the_server(url):
    import pottery

    client = redis.Redis.from_url(url)
    words = pottery.RedisDict({"a": 1, "b": [2, None]}, redis=client, key="dict")
    assert words == {"a": 1, "b": [2, None]} and words.pop("a") == 1 and "a" not in words
    numbers = pottery.RedisList([1, 2, 3, 4, 5], redis=client, key="list")
    del numbers[1:3]
    numbers.insert(1, "x")
    assert list(numbers) == [1, "x", 4, 5] and numbers[-1] == 5
    members = pottery.RedisSet({1, 2, 3}, redis=client, key="set")
    members.discard(3)
    assert members == {1, 2} and 2 in members and 3 not in members
    turns = pottery.RedisCounter("abracadabra", redis=client, key="counter")
    assert turns.most_common(1) == [("a", 5)]
    waiting = pottery.RedisDeque([1, 2, 3], redis=client, key="deque", maxlen=3)
    waiting.append(4)
    assert list(waiting) == [2, 3, 4]
    identifiers = pottery.NextID(key="next", masters={client})
    assert [next(identifiers) for _ in range(3)] == [1, 2, 3]
    bloom = pottery.BloomFilter(num_elements=100, false_positives=0.001, redis=client, key="bloom")
    bloom.update({"x", "y"})
    assert "x" in bloom and "z" not in bloom


@pytest.mark.parametrize("strategy", ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"])
def test_limits_counts_calls_in_each_of_its_windows(url, strategy):
    import limits
    import limits.storage
    import limits.strategies

    storage = limits.storage.storage_from_string(url)
    assert storage.check()
    limiter = getattr(limits.strategies, strategy)(storage)
    five = limits.parse("5/hour")
    assert [limiter.hit(five, "user") for _ in range(7)] == [True] * 5 + [False] * 2
    assert not limiter.test(five, "user") and limiter.test(five, "other")
    left = limiter.get_window_stats(five, "user")
    assert left.remaining == 0 and time.time() - 1 < left.reset_time <= time.time() + 3601
    limiter.clear(five, "user")
    assert limiter.hit(five, "user", cost=4) and not limiter.hit(five, "user", cost=2)
    storage.reset()
    assert limiter.get_window_stats(five, "user").remaining == 5


def test_cachelib_keeps_values_for_a_time(server, url):
    import cachelib

    cache = cachelib.RedisCache(host="127.0.0.1", port=server.port, key_prefix="cache:", default_timeout=100)
    assert cache.set("a", {"x": [1, 2]}) and cache.get("a") == {"x": [1, 2]}
    assert cache.add("a", 1) is False and cache.add("b", 1) is True
    assert cache.set_many({"c": 1, "d": None}) and cache.get_dict("a", "c", "nobody") == {"a": {"x": [1, 2]}, "c": 1, "nobody": None}
    assert cache.inc("n", 5) == 5 and cache.dec("n", 2) == 3
    assert 90 < redis.Redis.from_url(url).ttl("cache:a") <= 100
    assert cache.delete("a") and not cache.has("a")
    assert cache.clear() and cache.get("c") is None


@pytest.mark.parametrize("backend", ["django_redis.cache.RedisCache", "django.core.cache.backends.redis.RedisCache"])
def test_django_caches_in_the_server(tmp_path, url, backend):
    source = f"""
import os, threading
from django.conf import settings
settings.configure(CACHES={{"default": {{"BACKEND": "{backend}", "LOCATION": os.environ["TARN_URL"], "KEY_PREFIX": "site"}}}})
import django
django.setup()
from django.core.cache import cache
cache.set("a", {{"x": [1]}}, 100)
assert cache.get("a") == {{"x": [1]}} and cache.get("nobody", 7) == 7
assert cache.add("a", 1) is False and cache.add("b", 1) is True
cache.set_many({{"c": 1, "d": 2}})
assert cache.get_many(["a", "c", "nobody"]) == {{"a": {{"x": [1]}}, "c": 1}}
assert cache.incr("c", 4) == 5 and cache.decr("c") == 4
try:
    cache.incr("nobody")
    raise SystemExit("incremented what is not there")
except ValueError:
    pass
assert cache.touch("a", 1000) and cache.get_or_set("e", lambda: 9) == 9
cache.incr_version("a")
assert cache.get("a") is None and cache.get("a", version=2) == {{"x": [1]}}
if "django_redis" in "{backend}":
    assert 900 < cache.ttl("a", version=2) <= 1000
    assert sorted(cache.keys("*")) == ["b", "c", "d", "e"] and sorted(cache.iter_keys("[bc]")) == ["b", "c"]
    assert cache.delete_pattern("[bc]") == 2 and cache.get("b") is None
    assert cache.persist("d") and cache.ttl("d") is None and cache.expire("d", 5)
    with cache.lock("guard", timeout=10):
        assert not cache.lock("guard").acquire(blocking=False)
    assert cache.lock("guard", timeout=10).acquire(blocking=False)
cache.delete_many(["d", "e"])
assert cache.get("d") is None
cache.clear()
assert cache.get("a", version=2) is None
print("well")
"""
    child = run(tmp_path, "site_of_one_page", source, "-m", "site_of_one_page", url=url)
    assert child.wait(LIMIT_SECONDS) == 0, pathlib.Path(tmp_path, "worker.log").read_text()
    assert pathlib.Path(tmp_path, "worker.log").read_text().endswith("well\n")


HUEY = """
import os
from huey import PriorityRedisExpireHuey, RedisExpireHuey
huey = {kind}("tasks", url=os.environ["TARN_URL"])
tries = []

@huey.task()
def add(one, two):
    return one + two

@huey.task(retries=2)
def fail_twice():
    tries.append(1)
    if len(tries) < 3:
        raise ValueError(len(tries))
    return len(tries)

@huey.task()
@huey.lock_task("alone")
def alone():
    return "alone"
"""


@pytest.mark.parametrize("kind", ["RedisExpireHuey", "PriorityRedisExpireHuey"])
def test_huey_runs_tasks_now_later_again_and_after_each_other(tmp_path, url, kind, monkeypatch):
    consumer = run(tmp_path, "huey_tasks", HUEY.replace("{kind}", kind), "-m", "huey.bin.huey_consumer", "huey_tasks.huey", "-w", "2", url=url)
    try:
        tasks = module(tmp_path, "huey_tasks", monkeypatch, url)
        results = [tasks.add(number, 1) for number in range(50)]
        wait = {"blocking": True, "timeout": LIMIT_SECONDS}
        assert [result.get(**wait) for result in results] == list(range(1, 51))
        assert tasks.add.schedule((1, 2), delay=1).get(**wait) == 3
        assert tasks.fail_twice().get(**wait) == 3
        assert tasks.alone().get(**wait) == "alone"
        chain = tasks.add.s(1, 2).then(tasks.add, 10)
        assert tasks.huey.enqueue(chain).get(**wait) == [3, 13]
        revoked = tasks.add.schedule((1, 2), delay=60)
        revoked.revoke()
        assert revoked.is_revoked()
    finally:
        end(consumer)


DRAMATIQ = """
import os
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
broker = RedisBroker(url=os.environ["TARN_URL"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["TARN_URL"])))
dramatiq.set_broker(broker)
mutex = ConcurrentRateLimiter(Limits(url=os.environ["TARN_URL"]), "mutex", limit=1)
tries = []

@dramatiq.actor(store_results=True)
def add(one, two):
    return one + two

@dramatiq.actor(store_results=True, max_retries=3, min_backoff=10, max_backoff=20)
def fail_twice():
    tries.append(1)
    if len(tries) < 3:
        raise ValueError(len(tries))
    return len(tries)

@dramatiq.actor(store_results=True)
def alone():
    with mutex.acquire():
        return "alone"
"""


def test_dramatiq_runs_actors_retries_them_and_returns_results(tmp_path, url, monkeypatch):
    worker = run(tmp_path, "dramatiq_tasks", DRAMATIQ, "-m", "dramatiq", "dramatiq_tasks", "--processes", "1", "--threads", "2", url=url)
    try:
        tasks = module(tmp_path, "dramatiq_tasks", monkeypatch, url)
        wait = {"block": True, "timeout": LIMIT_SECONDS * 1000}
        sent = [tasks.add.send(number, 1) for number in range(50)]
        assert [message.get_result(**wait) for message in sent] == list(range(1, 51))
        assert tasks.add.send_with_options(args=(1, 2), delay=300).get_result(**wait) == 3
        assert tasks.fail_twice.send().get_result(**wait) == 3
        assert tasks.alone.send().get_result(**wait) == "alone"
        import dramatiq

        assert dramatiq.pipeline([tasks.add.message(1, 2), tasks.add.message(10)]).run().get_result(**wait) == 13
        tasks.broker.join("default", timeout=LIMIT_SECONDS * 1000)
    finally:
        end(worker)


def test_rq_without_streams_runs_jobs_keeps_failures_and_repeats_them(tmp_path, url, monkeypatch):
    source = "def add(one, two):\n    return one + two\n\n\ndef fail():\n    raise ValueError('on purpose')\n"
    worker = run(tmp_path, "rq_tasks", source, "-m", "rq.cli", "worker", "--url", url, "--with-scheduler", "high", "low", url=url)
    try:
        import datetime

        import rq
        from rq.job import JobStatus

        tasks = module(tmp_path, "rq_tasks", monkeypatch, url)
        client = redis.Redis.from_url(url)
        high, low = rq.Queue("high", connection=client), rq.Queue("low", connection=client)

        def finished(job):
            started = time.monotonic()
            # RQ stores the result of a job after its state.
            while job.get_status() != JobStatus.FAILED and job.result is None:
                assert time.monotonic() - started < LIMIT_SECONDS, f"{job.get_status()}: {(tmp_path / 'worker.log').read_text()}"
                threading.Event().wait(0.01)
            return job

        jobs = [low.enqueue(tasks.add, number, 1) for number in range(5)]
        assert [finished(job).result for job in jobs] == [1, 2, 3, 4, 5]
        after = high.enqueue(tasks.add, 1, 1, depends_on=[low.enqueue(tasks.add, 1, 2)])
        assert finished(after).result == 2
        failed = finished(high.enqueue(tasks.fail))
        while failed.exc_info is None:
            failed.refresh()
        assert failed.get_status() == JobStatus.FAILED and "on purpose" in failed.exc_info
        assert failed.id in high.failed_job_registry
        later = low.enqueue_in(datetime.timedelta(seconds=1), tasks.add, 20, 1)
        assert later.id in low.scheduled_job_registry
        assert finished(later).result == 21
        assert len(rq.Worker.all(connection=client)) == 1
    finally:
        end(worker)

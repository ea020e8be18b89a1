"""Programs above redis-py: locks (pottery), limiters of rates (limits), caches (cachelib, Django), task queues (huey, dramatiq, RQ, SAQ)."""

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


RQ = """
import os
import redis
import rq

def add(one, two):
    return one + two

def fail():
    raise ValueError("on purpose")

def count(name):
    return redis.Redis.from_url(os.environ["TARN_URL"]).incr(name)

def fail_twice():
    if count("tries") < 3:
        return rq.Retry(max=3)
    return "third"
"""


def test_rq_runs_jobs_keeps_their_results_in_streams_and_repeats_them(tmp_path, url, monkeypatch):
    worker = run(tmp_path, "rq_tasks", RQ, "-m", "rq.cli", "worker", "--url", url, "--with-scheduler", "high", "low", url=url)
    try:
        import datetime

        import rq
        from rq.results import Result

        tasks = module(tmp_path, "rq_tasks", monkeypatch, url)
        client = redis.Redis.from_url(url)
        high, low = rq.Queue("high", connection=client), rq.Queue("low", connection=client)

        def result(job):
            latest = job.latest_result(timeout=LIMIT_SECONDS)
            assert latest, f"{job.get_status()}: {(tmp_path / 'worker.log').read_text()}"
            return latest

        jobs = [low.enqueue(tasks.add, number, 1) for number in range(5)]
        assert [result(job).return_value for job in jobs] == [1, 2, 3, 4, 5]
        assert client.type(Result.get_key(jobs[0].id)) == b"stream" and 400 < client.ttl(Result.get_key(jobs[0].id)) <= 500
        after = high.enqueue(tasks.add, 1, 1, depends_on=[low.enqueue(tasks.add, 1, 2)])
        assert result(after).return_value == 2
        failed = high.enqueue(tasks.fail)
        assert result(failed).type == Result.Type.FAILED and "on purpose" in result(failed).exc_string
        assert failed.id in high.failed_job_registry
        retried = low.enqueue(tasks.fail_twice)
        repeated = low.enqueue(tasks.count, "turns", repeat=rq.Repeat(times=12))
        last = low.enqueue_in(datetime.timedelta(seconds=1), tasks.add, 20, 1)
        assert last.id in low.scheduled_job_registry
        assert result(last).return_value == 21
        started = time.monotonic()
        while (retried.return_value(refresh=True), repeated.return_value(refresh=True)) != ("third", 13):
            assert time.monotonic() - started < LIMIT_SECONDS, (tmp_path / "worker.log").read_text()
            threading.Event().wait(0.01)
        assert [one.type for one in retried.results()] == [Result.Type.SUCCESSFUL, Result.Type.RETRIED, Result.Type.RETRIED]
        # RQ keeps about ten results of a job, which are all 13 here, the last first.
        assert [one.return_value for one in repeated.results()] == list(range(13, 0, -1))
        assert len(rq.Worker.all(connection=client)) == 1
        failed.delete()
        assert not client.exists(Result.get_key(failed.id))
    finally:
        end(worker)


def test_saq_runs_jobs_together_later_again_and_ends_them(url):
    import asyncio

    import saq

    tries = []

    async def add(_, *, one, two):
        return one + two

    async def fail_twice(_):
        tries.append(1)
        if len(tries) < 3:
            raise ValueError(len(tries))
        return len(tries)

    async def fail(_):
        raise ValueError("on purpose")

    async def sleep(_):
        await asyncio.sleep(LIMIT_SECONDS * 10)

    ticked = asyncio.Event()

    async def tick(_):
        ticked.set()

    async def use(queue):
        # Workers begin with a sweep, which ends jobs that have just been taken and are not yet marked as active.
        while not await queue.redis.exists("saq:default:sweep"):
            await asyncio.sleep(0.01)
        assert await queue.map("add", [{"one": number, "two": 1} for number in range(100)], poll_interval=0.01) == list(range(1, 101))
        assert await queue.apply("fail_twice", retries=3, poll_interval=0.01) == 3
        with pytest.raises(saq.queue.JobError, match="on purpose"):
            await queue.apply("fail", poll_interval=0.01)
        due = int(time.time()) + 1
        later = await queue.enqueue("add", one=20, two=1, scheduled=due, key="later")
        assert await queue.enqueue("add", one=1, two=1, key="later") is None, "a key is there once"
        assert await queue.count("incomplete") >= 1
        # It listens to what becomes of the job.
        await later.refresh(LIMIT_SECONDS)
        assert later.result == 21 and later.started >= due * 1000
        long = await queue.enqueue("sleep", timeout=0)
        while long.status != saq.Status.ACTIVE:
            await long.refresh()
        await long.abort("enough")
        while long.status != saq.Status.ABORTED:
            await long.refresh()
        assert long.error == "enough"
        await ticked.wait()
        told = await queue.info(jobs=True)
        assert (told["queued"], told["active"], len(told["workers"])) == (0, 0, 2)

    async def both():
        queues = [saq.Queue.from_url(url) for _ in range(3)]
        for queue in queues:
            await queue.connect()
        crons = [saq.CronJob(tick, cron="* * * * * */1")]
        timers = {"schedule": 1, "abort": 0.05, "worker_info": 1}
        functions = [(one.__name__, one) for one in (add, fail_twice, fail, sleep)]
        workers = [saq.Worker(queue, functions=functions, cron_jobs=crons, timers=timers, concurrency=4) for queue in queues[:2]]
        running = [asyncio.create_task(worker.start()) for worker in workers]
        try:
            await asyncio.wait_for(use(queues[2]), LIMIT_SECONDS)
        finally:
            for worker in workers:
                await worker.stop()
            await asyncio.gather(*running, return_exceptions=True)
            for queue in queues:
                await queue.disconnect()

    asyncio.run(both())

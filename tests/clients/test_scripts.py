"""Programs that run scripts on the server: redis-py's locks and registered scripts, a rate limiter, and Celery."""

import os
import subprocess
import sys
import threading
import time

import pytest
import redis

# As in many programs: a window of calls per key.
RATE_LIMITER = """
local calls = redis.call('INCR', KEYS[1])
if calls == 1 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if calls > tonumber(ARGV[1]) then
    return {0, redis.call('PTTL', KEYS[1])}
end
return {1, tonumber(ARGV[1]) - calls}
"""


def test_a_lock_is_held_by_one_at_a_time(client):
    counted = []

    def count(number):
        for _ in range(20):
            with client.lock("guard", timeout=30, blocking_timeout=30):
                before = len(counted)
                time.sleep(0)
                counted.append(number)
                assert len(counted) == before + 1

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(counted) == 80
    lock = client.lock("guard", timeout=30)
    assert lock.acquire() and lock.locked() and lock.owned()
    assert not client.lock("guard").acquire(blocking=False)
    assert lock.extend(30) and lock.reacquire()
    client.delete("guard")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()


def test_a_registered_script_limits_calls_alone_and_in_pipelines(client):
    limiter = client.register_script(RATE_LIMITER)
    assert [limiter(keys=["calls"], args=[3, 60_000])[0] for _ in range(5)] == [1, 1, 1, 0, 0]
    client.script_flush()
    with client.pipeline() as pipeline:
        for _ in range(4):
            limiter(keys=["other"], args=[3, 60_000], client=pipeline)
        assert [allowed for allowed, _ in pipeline.execute()] == [1, 1, 1, 0]
    assert client.script_exists(limiter.sha) == [True]
    with pytest.raises(redis.exceptions.ResponseError, match="not an integer"):
        client.set("calls", "text")
        limiter(keys=["calls"], args=[3, 60_000])


CELERY = """
import os, celery
url = 'redis://127.0.0.1:' + os.environ['SERVER_PORT']
app = celery.Celery('tasks', broker=url + '/1', backend=url + '/2')
app.conf.broker_connection_retry_on_startup = True

@app.task(name='double')
def double(number):
    return number * 2
"""


def test_celery_runs_tasks(client, tmp_path):
    (tmp_path / "tasks.py").write_text(CELERY)
    environment = dict(os.environ, SERVER_PORT=str(client.connection_pool.connection_kwargs["port"]), PYTHONPATH=str(tmp_path))
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "solo", "--loglevel", "warning"]
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        script = "import tasks\nfrom celery import group\n" \
            "print(group(tasks.double.s(number) for number in range(20))().get(timeout=60))"
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.stdout.strip() == str([number * 2 for number in range(20)]), done.stderr
    finally:
        worker.terminate()
        worker.wait(timeout=60)

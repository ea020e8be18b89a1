"""redis-cli and redis-benchmark, as they come with Redis, run against Tarn."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

LIMIT_SECONDS = 120


def tool(name):
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: it comes with the Debian package redis-tools")
    return found


def cli(server, *words, text=None):
    command = [tool("redis-cli"), "-p", str(server.port), *words]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_redis_cli_runs_a_command(server):
    cli(server, "FLUSHALL")
    assert cli(server, "SET", "greeting", "hello") == "OK\n"
    assert cli(server, "GET", "greeting") == "hello\n"
    assert cli(server, "--no-raw", "GET", "nobody") == "(nil)\n"
    assert cli(server, "--no-raw", "INCR", "greeting").startswith("(error) ERR value is not an integer")


def test_redis_cli_runs_commands_from_a_pipe(server):
    assert cli(server, text="RPUSH pipe:l a b\nLRANGE pipe:l 0 -1\nDEL pipe:l\n") == "2\na\nb\n1\n"


def test_redis_cli_speaks_resp3(server):
    cli(server, "HSET", "h", "f", "v")
    assert cli(server, "-3", "--no-raw", "HGETALL", "h") == '1# "f" => "v"\n'


def test_redis_cli_loads_in_bulk(server):
    cli(server, "FLUSHALL")
    words = [["SET", f"bulk{number}", str(number)] for number in range(5000)]
    lines = ["".join([f"*{len(one)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in one)]) for one in words]
    assert "errors: 0, replies: 5000" in cli(server, "--pipe", text="".join(lines))
    assert cli(server, "DBSIZE") == "5000\n"


def test_redis_cli_scans_and_samples(server):
    cli(server, "FLUSHALL")
    cli(server, text="".join(f"SET scan{number} v\n" for number in range(300)))
    assert sorted(cli(server, "--scan", "--pattern", "scan*").split()) == sorted(f"scan{number}" for number in range(300))
    assert "Sampled 300 keys" in cli(server, "--bigkeys")


def test_redis_cli_finds_big_keys(server):
    cli(server, "FLUSHALL")
    cli(server, "SET", "text", "x" * 1000)
    cli(server, "RPUSH", "list", *(str(number) for number in range(50)))
    big = cli(server, "--bigkeys")
    assert "Biggest string found '\"text\"' has 1000 bytes" in big, big
    assert "Biggest   list found '\"list\"' has 50 items" in big, big
    by_memory = cli(server, "--memkeys")
    assert "Sampled 2 keys" in by_memory and "Biggest string found '\"text\"'" in by_memory, by_memory


def test_redis_cli_asks_for_hot_keys_and_is_told_of_the_policy(server):
    cli(server, "FLUSHALL")
    cli(server, "SET", "text", "x")
    done = subprocess.run([tool("redis-cli"), "-p", str(server.port), "--hotkeys"], capture_output=True, text=True,
                          timeout=LIMIT_SECONDS)
    assert "LFU maxmemory policy is not selected" in done.stdout + done.stderr, done


def watched(server, *words):
    """What redis-cli prints in a second and a half at a terminal."""
    ours, terminal = pty.openpty()
    with subprocess.Popen([tool("redis-cli"), "-p", str(server.port), *words], stdin=subprocess.DEVNULL,
                          stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        printed, end = b"", time.monotonic() + 1.5
        while (left := end - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                try:
                    printed += os.read(ours, 65536)
                except OSError:
                    break
        process.kill()
    os.close(ours)
    return printed.decode()


def test_redis_cli_shows_figures_and_latency(server):
    figures = watched(server, "--stat", "-i", "0.2")
    assert "keys" in figures and "requests" in figures and "clients" in figures, figures
    assert len(figures.splitlines()) >= 4, figures
    # It measures for a second, and prints one line: the least, the most, the mean, the number.
    numbers = cli(server, "--latency", "--raw", "-i", "1").split()
    assert len(numbers) == 4 and float(numbers[0]) <= float(numbers[1]), numbers


def test_redis_cli_monitors(server):
    process = subprocess.Popen([tool("redis-cli"), "-p", str(server.port), "MONITOR"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "OK\n"
        cli(server, "SET", "watched", "a b")
        line = next(line for line in process.stdout if "watched" in line)
        assert line.endswith('"SET" "watched" "a b"\n') and "[0 127.0.0.1:" in line, line
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_benchmark_runs_without_an_error(server, pipeline):
    tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset"
    command = [tool("redis-benchmark"), "-p", str(server.port), "-t", tests, "-n", "2000", "-c", "20", "-r", "1000",
               "-P", str(pipeline), "--csv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "error" not in printed.lower(), printed
    rows = [line for line in done.stdout.splitlines() if line.startswith('"')]
    assert len(rows) >= 18, printed

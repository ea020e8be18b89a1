"""What operators ask for: MONITOR, MODULE LIST, MEMORY, HOTKEYS."""

import socket
import threading
import time

import redis


def test_monitor_shows_what_others_ask_for(server, client):
    other = redis.Redis(port=server.port, decode_responses=True)
    with client.monitor() as monitor:
        other.set("watched", "a b")
        other.eval("return redis.call('get', KEYS[1])", 1, "watched")
        seen = []
        while len(seen) < 3:
            line = monitor.next_command()
            if "watched" in line["command"]:
                seen.append((line["db"], line["client_type"], line["command"]))
    assert seen[0] == (0, "tcp", "SET watched a b")
    assert seen[1][2].startswith("EVAL ")
    assert seen[2] == (0, "lua", "get watched")


def test_who_monitors_and_does_not_read_is_closed_and_delays_nobody(server, raw):
    sleeper = socket.create_connection(("127.0.0.1", server.port))
    sleeper.sendall(b"MONITOR\r\n")
    assert sleeper.recv(5) == b"+OK\r\n"
    value = b"x" * (1 << 20)
    before = raw.info("memory")["used_memory"]
    for number in range(100):
        raw.set("filler", value)
        if number % 10 == 0:
            assert raw.info("memory")["used_memory"] - before < 200 << 20
    end = time.monotonic() + 20
    while any("O" in one["flags"] for one in raw.client_list()):
        assert time.monotonic() < end
        time.sleep(0.05)
    sleeper.close()


def test_monitor_of_pipelines_keeps_all_lines(server, raw):
    reader = socket.create_connection(("127.0.0.1", server.port))
    reader.sendall(b"MONITOR\r\n")
    assert reader.recv(5) == b"+OK\r\n"
    reader.settimeout(20)
    counted = []

    def read():
        lines, rest = 0, b""
        while lines < 20_000:
            whole, _, rest = (rest + reader.recv(1 << 20)).rpartition(b"\n")
            lines += whole.count(b'"piped')
        counted.append(lines)

    def write(start):
        with redis.Redis(port=server.port) as own:
            pipeline = own.pipeline(transaction=False)
            for number in range(start, start + 10_000):
                pipeline.set(f"piped{number}", number)
            pipeline.execute()

    threads = [threading.Thread(target=read), *(threading.Thread(target=write, args=(at,)) for at in (0, 10_000))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert counted == [20_000]
    reader.close()


def test_clients_find_the_commands_of_modules(client):
    modules = {module["name"]: module["ver"] for module in client.module_list()}
    assert modules["ReJSON"] >= 20_000 and modules["search"] >= 20_400


def test_memory_is_told_of(client):
    client.set("k", "v")
    stats = client.memory_stats()
    assert stats["keys.count"] == 1 and stats["total.allocated"] > 0
    assert client.memory_purge()
    assert "allocator" in client.execute_command("MEMORY MALLOC-STATS") or \
        "jemalloc" in client.execute_command("MEMORY MALLOC-STATS")

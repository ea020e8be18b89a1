"""Consumer groups by redis-py: in both protocols, with hiredis and without, and while the server is killed again and again."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import conftest
import pytest
import redis
from redis.utils import HIREDIS_AVAILABLE

LIMIT_SECONDS = 30
# More of them: README.md.
ENTRIES = int(os.environ.get("TARN_STREAM_ENTRIES", "100000"))
BATCH = 100
KILLS = 5
PATIENCE_SECONDS = 60 + ENTRIES / 500

assert HIREDIS_AVAILABLE == ("TARN_HIREDIS" in os.environ)


def entries_of(reply):
    """The entries of one stream in a reply of XREAD: redis-py has a dictionary of lists of lists of them in RESP3."""
    if not reply:
        return []
    return reply["s"][0] if isinstance(reply, dict) else reply[0][1]


def test_entries_are_read_in_both_directions_trimmed_and_described(client):
    assert client.xadd("s", {"a": "1"}, nomkstream=True) is None
    assert client.xadd("s", {"a": "1", "b": ""}, id="1-1") == "1-1"
    for number in range(2, 1001):
        assert client.xadd("s", {"n": number}, id=f"{number}-0", maxlen=500, approximate=number % 2 == 0) == f"{number}-0"
    with pytest.raises(redis.ResponseError, match="ID specified in XADD is equal or smaller"):
        client.xadd("s", {"a": 1}, id="1000-0")
    assert client.xlen("s") in range(500, 601)
    client.xtrim("s", maxlen=500, approximate=False)
    assert client.xlen("s") == 500
    assert client.xrange("s", "999", "+") == [("999-0", {"n": "999"}), ("1000-0", {"n": "1000"})]
    assert [one for one, _ in client.xrevrange("s", "(1000-0", "-", count=2)] == ["999-0", "998-0"]
    assert client.xtrim("s", minid="901", approximate=False) == 400
    assert client.xdel("s", "950", "950-0", "7") == 1
    told = client.xinfo_stream("s")
    assert (told["length"], told["last-generated-id"], told["max-deleted-entry-id"]) == (99, "1000-0", "950-0")
    assert told["entries-added"] == 1000 and told["first-entry"][0] == "901-0"
    assert entries_of(client.xread({"s": "998-0", "t": "0"}, count=1)) == [("999-0", {"n": "999"})]
    assert client.copy("s", "copy") and client.xrange("copy") == client.xrange("s")


def test_a_group_delivers_claims_and_acknowledges(client):
    client.xgroup_create("s", "g", mkstream=True)
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        client.xgroup_create("s", "g")
    ids = [client.xadd("s", {"n": number}, id=f"1-{number + 1}") for number in range(10)]
    assert [one for one, _ in entries_of(client.xreadgroup("g", "a", {"s": ">"}, count=6))] == ids[:6]
    assert [one for one, _ in entries_of(client.xreadgroup("g", "b", {"s": ">"}))] == ids[6:]
    assert not client.xreadgroup("g", "b", {"s": ">"})
    assert client.xack("s", "g", *ids[:2], "9-9") == 2
    assert [one for one, _ in entries_of(client.xreadgroup("g", "a", {"s": "0"}))] == ids[2:6]
    told = client.xpending("s", "g")
    assert (told["pending"], told["min"], told["max"]) == (8, ids[2], ids[9])
    assert told["consumers"] == [{"name": "a", "pending": 4}, {"name": "b", "pending": 4}]
    ranged = client.xpending_range("s", "g", "-", "+", 3, consumername="a", idle=0)
    assert [(one["message_id"], one["consumer"], one["times_delivered"]) for one in ranged] == [(one, "a", 2) for one in ids[2:5]]
    assert client.xpending_range("s", "g", "-", "+", 10, idle=60_000) == []
    client.xdel("s", ids[3])
    assert client.xclaim("s", "g", "b", 0, [ids[2], ids[3]]) == [(ids[2], {"n": "2"})]
    assert client.xautoclaim("s", "g", "c", 0, count=2) == [ids[5], [(ids[2], {"n": "2"}), (ids[4], {"n": "4"})], []]
    client.xdel("s", ids[5])
    last_four = [(ids[at], {"n": str(at)}) for at in range(6, 10)]
    assert client.xautoclaim("s", "g", "c", 0, start_id=ids[5]) == ["0-0", last_four, [ids[5]]]
    assert client.xautoclaim("s", "g", "c", 60_000, justid=True) == []
    told = client.xinfo_groups("s")[0]
    assert (told["name"], told["consumers"], told["pending"], told["last-delivered-id"]) == ("g", 3, 6, ids[9])
    assert {one["name"]: one["pending"] for one in client.xinfo_consumers("s", "g")} == {"a": 0, "b": 0, "c": 6}
    full = client.xinfo_stream("s", full=True)
    assert full["length"] == 8 and full["groups"][0]["pel-count"] == 6
    assert client.xgroup_delconsumer("s", "g", "c") == 6 and client.xpending("s", "g")["pending"] == 0
    assert client.xgroup_setid("s", "g", "1-8") and len(entries_of(client.xreadgroup("g", "a", {"s": ">"}, noack=True))) == 2
    assert client.xgroup_destroy("s", "g") == 1
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        client.xreadgroup("g", "a", {"s": ">"})


def test_entries_are_removed_with_regard_to_groups_and_messages_are_added_once(client):
    ask = client.execute_command
    client.xgroup_create("s", "g", mkstream=True)
    ids = [client.xadd("s", {"n": number}, id=f"1-{number + 1}") for number in range(6)]
    client.xreadgroup("g", "a", {"s": ">"}, count=4)
    assert ask("XDELEX", "s", "ACKED", "IDS", 2, ids[0], ids[5]) == [2, 2]
    assert ask("XACKDEL", "s", "g", "ACKED", "IDS", 3, ids[0], ids[0], ids[5]) == [1, -1, -1]
    assert ask("XTRIM", "s", "ACKED", "MAXLEN", 0) == 0
    assert ask("XTRIM", "s", "DELREF", "MINID", ids[2]) == 1
    assert client.xpending("s", "g")["pending"] == 2
    first = ask("XADD", "s", "IDMP", "p", "m", "*", "n", 7)
    assert ask("XADD", "s", "IDMP", "p", "m", "*", "n", 7) == first and client.xlen("s") == 5
    assert ask("XCFGSET", "s", "IDMP-MAXSIZE", 5)
    told = client.xinfo_stream("s")
    assert [told[name] for name in ("idmp-maxsize", "iids-added", "iids-duplicates", "iids-tracked")] == [5, 1, 1, 0]


def test_a_reader_that_waits_gets_what_comes(client, server, protocol):
    client.xgroup_create("s", "g", mkstream=True)
    got = []

    def wait():
        with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as other:
            got.append(entries_of(other.xreadgroup("g", "a", {"s": ">"}, block=LIMIT_SECONDS * 1000)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while client.info("clients")["blocked_clients"] == 0:
        threading.Event().wait(0.005)
    client.xadd("s", {"a": "1"}, id="1-1")
    waiting.join(LIMIT_SECONDS)
    assert got == [[("1-1", {"a": "1"})]]
    assert not client.xread({"s": "$"}, block=20)


def test_hiredis_reads_the_same():
    """All of the above once more: hiredis is there for a whole process, or not at all."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "not killed and not hiredis", __file__]
    environment = {**os.environ, "TARN_HIREDIS": "1"}
    ran = subprocess.run(command, cwd=pathlib.Path(__file__).parent, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode == 0 and "8 passed" in ran.stdout, ran.stdout + ran.stderr


class Consumer(threading.Thread):
    """Reads what is its own since before its connection was lost, then what is new, and acknowledges."""

    def __init__(self, name, port, protocol, produced, quits=None):
        super().__init__(daemon=True)
        self.name, self.port, self.protocol = name, port, protocol
        # Set when no more entries come; set when this consumer leaves in the middle of its work.
        self.produced, self.quits = produced, quits
        self.fresh, self.again, self.acknowledged, self.left, self.losses = [], [], set(), [], 0
        self.failure = None

    def run(self):
        try:
            while True:
                try:
                    with redis.Redis(port=self.port, protocol=self.protocol, decode_responses=True) as client:
                        return self.consume(client)
                except redis.exceptions.ConnectionError:
                    self.losses += 1
                    threading.Event().wait(0.01)
        except BaseException as failure:
            self.failure = failure

    def consume(self, client):
        after = "0"
        while entries := entries_of(client.xreadgroup("g", self.name, {"s": after}, count=BATCH)):
            after = entries[-1][0]
            self.again += [number(entry) for entry in entries]
            self.acknowledge(client, entries)
        while True:
            over = self.produced.is_set()
            entries = entries_of(client.xreadgroup("g", self.name, {"s": ">"}, count=BATCH, block=100))
            self.fresh += [number(entry) for entry in entries]
            if entries and self.quits and self.quits.is_set():
                self.left = [number(entry) for entry in entries]
                return
            if entries:
                self.acknowledge(client, entries)
            elif over:
                return

    def acknowledge(self, client, entries):
        numbers = {number(entry) for entry in entries}
        assert not numbers & self.acknowledged, "delivered again after its acknowledgement"
        # What the work does happens with the acknowledgement, or not at all.
        acknowledged, _ = client.pipeline().xack("s", "g", *[one for one, _ in entries]).incrby("done", len(entries)).execute()
        assert acknowledged == len(entries)
        self.acknowledged |= numbers


def number(entry):
    name, fields = entry
    assert fields == {"n": name.removesuffix("-0")}
    return int(fields["n"])


class Producer(threading.Thread):
    """Adds the entries 1 to ENTRIES, not far before their readers; after a loss it goes on behind the last one that is there."""

    def __init__(self, port, produced, processed):
        super().__init__(daemon=True)
        self.port, self.produced, self.processed = port, produced, processed
        self.acknowledged, self.losses, self.failure = 0, 0, None

    def run(self):
        try:
            while self.acknowledged < ENTRIES and not self.produced.is_set():
                try:
                    with redis.Redis(port=self.port, protocol=2, decode_responses=True) as client:
                        self.produce(client)
                except redis.exceptions.ConnectionError:
                    self.losses += 1
                    threading.Event().wait(0.01)
        except BaseException as failure:
            self.failure = failure
        self.produced.set()

    def produce(self, client):
        last = client.xrevrange("s", count=1)
        there = number(last[0]) if last else 0
        assert there >= self.acknowledged, f"lost: {there} is the last, {self.acknowledged} was acknowledged"
        while there < ENTRIES and not self.produced.is_set():
            # Some acknowledgements are lost with their connections: readers have done more than they know.
            if there - self.processed() > max(ENTRIES // 10, 10 * KILLS * BATCH):
                threading.Event().wait(0.001)
                continue
            numbers = range(there + 1, min(there + BATCH, ENTRIES) + 1)
            batch = client.pipeline(transaction=False)
            for one in numbers:
                batch.xadd("s", {"n": one}, id=f"{one}-0")
            assert batch.execute() == [f"{one}-0" for one in numbers]
            there = self.acknowledged = numbers[-1]


def test_nothing_is_lost_or_delivered_anew_when_the_server_is_killed(tmp_path):
    server = conftest.Server(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    try:
        watched(server)
    finally:
        server.stop()


def watched(server):
    client = redis.Redis(port=server.port, protocol=2, decode_responses=True)
    client.xgroup_create("s", "g", id="0", mkstream=True)
    produced, quits = threading.Event(), threading.Event()
    consumers = [Consumer(f"c{at}", server.port, 2 + at % 2, produced) for at in range(3)]
    consumers.append(Consumer("quitter", server.port, 2, produced, quits))
    producer = Producer(server.port, produced, lambda: sum(len(one.acknowledged) for one in consumers))
    threads = [producer, *consumers]
    [thread.start() for thread in threads]
    started = time.monotonic()
    try:
        for kill in range(1, KILLS + 1):
            while producer.processed() < ENTRIES * kill // (KILLS + 1):
                for thread in threads:
                    if thread.failure:
                        raise thread.failure
                assert time.monotonic() - started < PATIENCE_SECONDS
                threading.Event().wait(0.002)
            if kill == 3:
                quits.set()
            server.kill_and_start()
    except BaseException:
        produced.set()
        raise
    [thread.join(PATIENCE_SECONDS) for thread in threads]
    for thread in threads:
        assert not thread.is_alive()
        if thread.failure:
            raise thread.failure
        assert thread.losses > 0

    # All entries are there, in their order.
    after, seen = "-", 0
    while entries := client.xrange("s", after, count=10_000):
        assert [number(entry) for entry in entries] == list(range(seen + 1, seen + len(entries) + 1))
        seen, after = seen + len(entries), f"({entries[-1][0]}"
    assert seen == client.xlen("s") == ENTRIES

    # Each was new to one consumer only, and came again to none but that consumer, with its last batch.
    fresh = [one for consumer in consumers for one in consumer.fresh]
    again = [one for consumer in consumers for one in consumer.again]
    assert len(set(fresh)) == len(fresh)
    assert len(again) <= KILLS * len(consumers) * BATCH
    assert set(fresh) | set(again) == set(range(1, ENTRIES + 1))

    # Nothing is pending but what was left behind, and its heir gets that.
    left = consumers[-1].left
    assert 0 < len(left) <= BATCH
    assert client.get("done") == str(ENTRIES - len(left))
    pending = client.xpending_range("s", "g", "-", "+", ENTRIES)
    assert [one["message_id"] for one in pending] == [f"{one}-0" for one in left]
    assert {(one["consumer"], one["times_delivered"]) for one in pending} == {("quitter", 1)}
    _, claimed, deleted = client.xautoclaim("s", "g", "heir", 0, count=BATCH)
    assert [number(entry) for entry in claimed] == left and deleted == []
    server.kill_and_start()
    pending = client.xpending_range("s", "g", "-", "+", ENTRIES)
    assert {(one["consumer"], one["times_delivered"]) for one in pending} == {("heir", 2)}
    assert client.xack("s", "g", *[f"{one}-0" for one in left]) == len(left)
    server.kill_and_start()
    assert client.xpending("s", "g")["pending"] == 0
    assert not client.xreadgroup("g", "heir", {"s": ">"})
    group = client.xinfo_groups("s")[0]
    # The log of redis-server does not keep how many entries a group has read.
    assert group["entries-read"] in (ENTRIES, None) and (group["lag"], group["pending"]) == (0, 0)
    client.close()

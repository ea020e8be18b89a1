"""Programs that publish and subscribe: redis-py's PubSub with and without threads and asyncio, and a cache that expired events clear."""

import asyncio
import threading

import pytest
import redis
import redis.asyncio

PATIENCE_SECONDS = 20


def message_of(subscription):
    """The next message that is no confirmation."""
    while True:
        message = subscription.get_message(timeout=PATIENCE_SECONDS)
        assert message is not None, "no message came in time"
        if message["type"] not in ("subscribe", "psubscribe", "unsubscribe", "punsubscribe"):
            return message


@pytest.fixture
def subscription(client):
    with client.pubsub() as opened:
        yield opened


def test_messages_come_in_their_order_to_channels_and_patterns(client, subscription):
    subscription.subscribe("news")
    subscription.psubscribe("n*")
    assert subscription.get_message(timeout=PATIENCE_SECONDS)["type"] == "subscribe"
    assert subscription.get_message(timeout=PATIENCE_SECONDS)["type"] == "psubscribe"
    for number in range(1000):
        assert client.publish("news", number) == 2
    for number in range(1000):
        direct, matched = message_of(subscription), message_of(subscription)
        assert (direct["type"], direct["channel"], direct["data"]) == ("message", "news", str(number))
        assert (matched["type"], matched["pattern"], matched["data"]) == ("pmessage", "n*", str(number))
    assert client.pubsub_channels() == ["news"]
    assert client.pubsub_numsub("news", "nobody") == [("news", 1), ("nobody", 0)]
    assert client.pubsub_numpat() == 1
    subscription.unsubscribe()
    subscription.punsubscribe()
    while subscription.subscribed:
        subscription.get_message(timeout=PATIENCE_SECONDS)
    assert client.publish("news", "nobody reads it") == 0


def test_a_thread_runs_handlers_and_a_transaction_publishes_when_it_happens(client, subscription):
    seen, three = [], threading.Event()

    def handle(message):
        seen.append(message["data"])
        if len(seen) == 3:
            three.set()

    subscription.subscribe(jobs=handle)
    thread = subscription.run_in_thread(sleep_time=0.01)
    try:
        with client.pipeline(transaction=True) as transaction:
            transaction.set("job:1", "done").publish("jobs", "1").publish("jobs", "2")
            assert transaction.execute() == [True, 1, 1]
        client.publish("jobs", "3")
        assert three.wait(PATIENCE_SECONDS)
        assert seen == ["1", "2", "3"]
    finally:
        thread.stop()
        thread.join()


def test_asyncio_reads_what_many_publish(server, protocol):
    async def talk():
        reader = redis.asyncio.Redis(port=server.port, protocol=protocol, decode_responses=True)
        async with reader.pubsub() as subscription:
            await subscription.subscribe("room")
            publishers = [redis.asyncio.Redis(port=server.port, protocol=protocol) for _ in range(5)]
            await asyncio.gather(*(publisher.publish("room", n) for n, publisher in enumerate(publishers)))
            read = []
            async with asyncio.timeout(PATIENCE_SECONDS):
                async for message in subscription.listen():
                    if message["type"] == "message":
                        read.append(message["data"])
                    if len(read) == 5:
                        break
            assert sorted(read) == ["0", "1", "2", "3", "4"]
            for publisher in publishers:
                await publisher.aclose()
        await reader.aclose()

    asyncio.run(talk())


def test_expired_events_tell_a_cache_what_is_gone(client, subscription):
    client.config_set("notify-keyspace-events", "Ex")
    try:
        subscription.psubscribe("__keyevent@0__:expired")
        assert subscription.get_message(timeout=PATIENCE_SECONDS)["type"] == "psubscribe"
        client.set("session:1", "x", px=1)
        assert message_of(subscription)["data"] == "session:1"
    finally:
        client.config_set("notify-keyspace-events", "")

// ioredis: pipelines, transactions, scripts by defineCommand, publish and subscribe, and commands that wait.
"use strict";

const assert = require("node:assert/strict");
const { after, before, beforeEach, test } = require("node:test");
const { Redis } = require("ioredis");
const { start, until } = require("./server");

const LIMIT = { timeout: 10_000 };

let server, client;
before(async () => {
  server = await start();
  client = new Redis(server.port);
});
beforeEach(() => client.flushall());
after(async () => {
  await client?.quit();
  await server?.stop();
  // A connection that a failed test left open would keep this process alive.
  setTimeout(() => process.exit(1), 5000).unref();
});

test("values come back as they went", LIMIT, async () => {
  const bytes = Buffer.from([0, 255, 13, 10, 128]);
  assert.equal(await client.set("k", bytes, "EX", 100), "OK");
  assert.deepEqual(await client.getBuffer("k"), bytes);
  assert.equal(await client.hset("h", { a: 1, b: "zwei" }), 2);
  assert.deepEqual(await client.hgetall("h"), { a: "1", b: "zwei" });
  assert.equal(await client.zadd("z", 1.5, "x", "+inf", "y"), 2);
  assert.deepEqual(await client.zrange("z", 0, -1, "WITHSCORES"), ["x", "1.5", "y", "inf"]);
  await assert.rejects(client.lpush("k", "x"), /^ReplyError: WRONGTYPE Operation against a key/);
});

test("a pipeline answers in its order, errors in their places", LIMIT, async () => {
  const pipeline = client.pipeline();
  for (let number = 1; number <= 1000; number++) pipeline.incr("n");
  const replies = await pipeline.lpush("n", "x").get("n").exec();
  assert.deepEqual(replies.slice(0, 1000).map(([, value]) => value), Array.from({ length: 1000 }, (_, at) => at + 1));
  assert.match(replies[1000][0].message, /^WRONGTYPE/);
  assert.deepEqual(replies[1001], [null, "1000"]);
});

test("a transaction is undone by a write to what it watches", LIMIT, async () => {
  const other = client.duplicate();
  await client.watch("balance");
  await other.set("balance", "7");
  assert.equal(await client.multi().set("balance", "1").exec(), null);
  assert.deepEqual(await client.multi().incr("balance").get("balance").exec(), [[null, 8], [null, "8"]]);
  await other.quit();
});

test("defined commands are scripts that are sent once", LIMIT, async () => {
  client.defineCommand("transfer", {
    numberOfKeys: 2,
    lua: `
      local left = tonumber(redis.call('GET', KEYS[1]) or '0')
      if left < tonumber(ARGV[1]) then return redis.error_reply('POOR not enough') end
      return {redis.call('DECRBY', KEYS[1], ARGV[1]), redis.call('INCRBY', KEYS[2], ARGV[1])}`,
  });
  await client.set("a", 10);
  assert.deepEqual(await client.transfer("a", "b", 4), [6, 4]);
  await assert.rejects(client.transfer("a", "b", 7), /^ReplyError: POOR not enough/);
  // ioredis sends EVALSHA first, and EVAL when the server has forgotten the script.
  await client.script("FLUSH");
  assert.deepEqual(await client.transfer("a", "b", 1), [5, 5]);
  const replies = await client.pipeline().transfer("a", "b", 1).transfer("a", "b", 1).exec();
  assert.deepEqual(replies, [[null, [4, 6]], [null, [3, 7]]]);
});

test("messages reach channels and patterns, and nobody after they are left", LIMIT, async () => {
  const subscriber = client.duplicate();
  const seen = [];
  subscriber.on("message", (channel, text) => seen.push([channel, text]));
  subscriber.on("pmessage", (pattern, channel, text) => seen.push([pattern, channel, text]));
  assert.equal(await subscriber.subscribe("news", "other"), 2);
  assert.equal(await subscriber.psubscribe("n?ws"), 3);
  assert.equal(await client.publish("news", "x"), 2);
  await until("both came", () => seen.length === 2);
  assert.deepEqual(seen, [["news", "x"], ["n?ws", "news", "x"]]);
  assert.equal(await subscriber.unsubscribe("news", "other"), 1);
  assert.equal(await subscriber.punsubscribe("n?ws"), 0);
  assert.equal(await client.publish("news", "y"), 0);
  assert.equal(await subscriber.ping(), "PONG");
  await subscriber.quit();
});

test("shard channels are channels of their own", LIMIT, async () => {
  const subscriber = client.duplicate();
  const seen = [];
  subscriber.on("smessage", (channel, text) => seen.push([channel, text]));
  assert.equal(await subscriber.ssubscribe("shard"), 1);
  assert.equal(await client.publish("shard", "no"), 0);
  assert.equal(await client.spublish("shard", "yes"), 1);
  await until("it came", () => seen.length === 1);
  assert.deepEqual(seen, [["shard", "yes"]]);
  assert.equal(await subscriber.sunsubscribe("shard"), 0);
  await subscriber.quit();
});

test("those who wait are served in their order", LIMIT, async () => {
  const waiting = [client.duplicate(), client.duplicate()];
  const replies = [];
  for (const [number, one] of waiting.entries()) {
    replies.push(one.blpop("q", "r", 20));
    await until("it waits", async () => (await blocked()) === number + 1);
  }
  await client.rpush("r", "first");
  await client.rpush("q", "second");
  assert.deepEqual(await Promise.all(replies), [["r", "first"], ["q", "second"]]);
  assert.equal(await client.blmove("nobody", "q", "LEFT", "RIGHT", 0.05), null);
  const popped = waiting[0].bzpopmin("z", 20);
  await until("it waits", async () => (await blocked()) === 1);
  await client.zadd("z", 2, "b", 1, "a");
  assert.deepEqual(await popped, ["z", "a", "1"]);
  await Promise.all(waiting.map((one) => one.quit()));
});

async function blocked() {
  return Number(/blocked_clients:(\d+)/.exec(await client.info("clients"))[1]);
}

test("a scan sees every key", LIMIT, async () => {
  const pipeline = client.pipeline();
  for (let number = 0; number < 500; number++) pipeline.set(`key:${number}`, number);
  await pipeline.exec();
  const seen = new Set();
  for await (const keys of client.scanStream({ match: "key:*", count: 20 })) keys.forEach((key) => seen.add(key));
  assert.equal(seen.size, 500);
});

test("MONITOR shows what others do", LIMIT, async () => {
  const monitor = await client.monitor();
  const seen = [];
  monitor.on("monitor", (time, command) => seen.push(command));
  await client.set("watched", "x y");
  await until("it is shown", () => seen.some((command) => command[1] === "watched"));
  assert.deepEqual(seen.find((command) => command[1] === "watched"), ["set", "watched", "x y"]);
  monitor.disconnect();
});

test("many commands of many connections are pipelined by themselves", LIMIT, async () => {
  const clients = Array.from({ length: 8 }, () => new Redis(server.port, { enableAutoPipelining: true }));
  await Promise.all(clients.flatMap((one) => Array.from({ length: 200 }, () => one.incr("n"))));
  assert.equal(await client.get("n"), "1600");
  await Promise.all(clients.map((one) => one.quit()));
});

test("a client comes back after the server closed its connection", LIMIT, async () => {
  const other = client.duplicate();
  const id = await other.client("ID");
  other.on("error", () => {});
  assert.equal(await client.client("KILL", "ID", id), 1);
  await until("it came back", async () => (await other.client("ID")) !== id);
  assert.equal(await other.set("k", "v"), "OK");
  await other.quit();
});

test("a stream: entries, ranges and what it tells of itself", LIMIT, async () => {
  assert.equal(await client.xadd("s", "NOMKSTREAM", "*", "a", "1"), null);
  assert.equal(await client.xadd("s", "1-1", "a", "1", "b", ""), "1-1");
  assert.equal(await client.xadd("s", "1-*", Buffer.from([0, 255]), "2"), "1-2");
  await assert.rejects(client.xadd("s", "1-2", "a", "1"), /^ReplyError: ERR The ID specified in XADD is equal or smaller/);
  assert.match(await client.xadd("s", "MAXLEN", "~", 1000, "*", "c", "3"), /^\d{13}-0$/);
  assert.deepEqual((await client.xrange("s", "-", "+", "COUNT", 1)), [["1-1", ["a", "1", "b", ""]]]);
  assert.deepEqual((await client.xrangeBuffer("s", "(1-1", "1"))[0][1], [Buffer.from([0, 255]), Buffer.from("2")]);
  assert.deepEqual((await client.xrevrange("s", "1", "-")).map(([id]) => id), ["1-2", "1-1"]);
  assert.equal(await client.xdel("s", "1-1", "7-7"), 1);
  const told = await client.xinfo("STREAM", "s");
  const field = (name) => told[told.indexOf(name) + 1];
  assert.deepEqual([field("length"), field("max-deleted-entry-id"), field("entries-added")], [2, "1-1", 3]);
  assert.equal(field("first-entry")[0], "1-2");
  assert.equal(await client.xtrim("s", "MINID", "2"), 1);
  assert.deepEqual(await client.pipeline().xlen("s").type("s").xlen("nobody").exec(), [[null, 1], [null, "stream"], [null, 0]]);
  assert.equal(await client.xsetid("s", `${Date.now() + 1000}-7`), "OK");
  await client.set("k", "v");
  await assert.rejects(client.xadd("k", "*", "a", "1"), /^ReplyError: WRONGTYPE/);
});

test("those who read a stream and wait all get what comes", LIMIT, async () => {
  const waiting = [client.duplicate(), client.duplicate()];
  const replies = waiting.map((one) => one.xread("BLOCK", 20_000, "STREAMS", "s", "t", "$", "$"));
  await until("they wait", async () => (await blocked()) === 2);
  await client.multi().xadd("t", "1-1", "a", "1").xadd("t", "1-2", "a", "2").exec();
  const wanted = [["t", [["1-1", ["a", "1"]], ["1-2", ["a", "2"]]]]];
  assert.deepEqual(await Promise.all(replies), [wanted, wanted]);
  assert.equal(await waiting[0].xread("BLOCK", 20, "STREAMS", "s", "$"), null);
  await Promise.all(waiting.map((one) => one.quit()));
});

test("a group gives each entry to one of its consumers, until somebody claims it", LIMIT, async () => {
  assert.equal(await client.xgroup("CREATE", "s", "g", "$", "MKSTREAM"), "OK");
  await assert.rejects(client.xgroup("CREATE", "s", "g", "$"), /^ReplyError: BUSYGROUP/);
  await assert.rejects(client.xreadgroup("GROUP", "no", "a", "STREAMS", "s", ">"), /^ReplyError: NOGROUP/);
  const waiting = [client.duplicate(), client.duplicate()];
  const replies = [];
  for (const [at, one] of waiting.entries()) {
    replies.push(one.xreadgroup("GROUP", "g", `c${at}`, "COUNT", 1, "BLOCK", 20_000, "STREAMS", "s", ">"));
    await until("it waits", async () => (await blocked()) === at + 1);
  }
  for (const id of ["1-1", "1-2", "1-3"]) await client.xadd("s", id, "a", "1");
  const got = (await Promise.all(replies)).map(([[, [[id]]]]) => id);
  assert.deepEqual(got, ["1-1", "1-2"]);
  assert.deepEqual(await client.xpending("s", "g"), [2, "1-1", "1-2", [["c0", "1"], ["c1", "1"]]]);
  const [[id, consumer, idle, times]] = await client.xpending("s", "g", "-", "+", 10, "c1");
  assert.deepEqual([id, consumer, idle >= 0, times], ["1-2", "c1", true, 1]);
  assert.deepEqual(await client.xclaim("s", "g", "c0", 0, "1-2", "JUSTID"), ["1-2"]);
  assert.deepEqual(await client.xautoclaim("s", "g", "c1", 0, "0", "COUNT", 1), ["1-2", [["1-1", ["a", "1"]]], []]);
  assert.equal(await client.xack("s", "g", "1-1", "1-2", "1-3"), 2);
  const groups = await client.xinfo("GROUPS", "s");
  assert.deepEqual(groups[0], ["name", "g", "consumers", 2, "pending", 0, "last-delivered-id", "1-2", "entries-read", 2, "lag", 1]);
  assert.equal(await client.xgroup("DELCONSUMER", "s", "g", "c0"), 0);
  const lost = waiting[0].xreadgroup("GROUP", "g", "c1", "BLOCK", 20_000, "STREAMS", "s", "t", ">", ">");
  await assert.rejects(lost, /^ReplyError: NOGROUP/);
  assert.equal(await client.xgroup("SETID", "s", "g", "$"), "OK");
  const waits = waiting[0].xreadgroup("GROUP", "g", "c1", "BLOCK", 20_000, "STREAMS", "s", ">");
  // Awaited below: its error may come before the reply of DEL, and must have a handler then.
  const ended = assert.rejects(waits, /^ReplyError: UNBLOCKED the stream key no longer exists|^ReplyError: NOGROUP/);
  await until("it waits", async () => (await blocked()) === 1);
  await client.del("s");
  await ended;
  await Promise.all(waiting.map((one) => one.quit()));
});

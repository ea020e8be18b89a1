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

// Programs above ioredis and node-redis: locks, limiters of rates, sessions.
"use strict";

const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { after, before, beforeEach, test } = require("node:test");
const { RedisStore: SessionStore } = require("connect-redis");
const express = require("express");
const { rateLimit } = require("express-rate-limit");
const session = require("express-session");
const { Redis } = require("ioredis");
const { RedisStore: LimitStore } = require("rate-limit-redis");
const { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } = require("rate-limiter-flexible");
const { createClient } = require("redis");
const { default: Redlock } = require("redlock");
const { start, until } = require("./server");

const LIMIT = { timeout: 20_000 };

let server, client, nodeRedis;
before(async () => {
  server = await start();
  client = new Redis(server.port);
  nodeRedis = await createClient({ url: `redis://127.0.0.1:${server.port}` }).connect();
});
beforeEach(() => client.flushall());
after(async () => {
  await client?.quit();
  await nodeRedis?.close();
  await server?.stop();
});

test("redlock: a lock is held by one, extended, released and taken by the next", LIMIT, async () => {
  const redlock = new Redlock([client], { retryCount: 0 });
  const patient = new Redlock([client], { retryCount: 1000, retryDelay: 5, retryJitter: 5 });
  let lock = await redlock.acquire(["a", "b"], 30_000);
  await assert.rejects(redlock.acquire(["b"], 1000), { name: "ExecutionError" });
  lock = await lock.extend(60_000);
  assert.ok((await client.pttl("a")) > 40_000);
  const next = patient.acquire(["b"], 1000);
  await lock.release();
  await (await next).release();
  assert.equal(await client.exists("a", "b"), 0);
  // What is no longer ours can be neither released nor extended.
  const lost = await redlock.acquire(["a"], 30_000);
  await client.set("a", "another's");
  await assert.rejects(lost.release(), { name: "ExecutionError" });
  await assert.rejects(lost.extend(1000), { name: "ExecutionError" });
});

test("redlock: many count behind one lock on three servers and lose nothing, though one is gone", LIMIT, async () => {
  const others = [await start(), await start()];
  const clients = [client, ...others.map(({ port }) => new Redis(port, { retryStrategy: null, maxRetriesPerRequest: 0 }))];
  clients.forEach((one) => one.on("error", () => {}));
  const redlock = new Redlock(clients, { retryCount: -1, retryDelay: 10, retryJitter: 10 });
  let counted = 0;
  const count = () =>
    redlock.using(["counter"], 20_000, async () => {
      const before = counted;
      await client.ping();
      counted = before + 1;
    });
  await Promise.all(Array.from({ length: 10 }, count));
  await others[0].stop();
  await Promise.all(Array.from({ length: 10 }, count));
  assert.equal(counted, 20);
  clients.slice(1).forEach((one) => one.disconnect());
  await others[1].stop();
});

for (const useRedisPackage of [false, true]) {
  test(`rate-limiter-flexible over ${useRedisPackage ? "node-redis" : "ioredis"}: points, blocks, rewards`, LIMIT, async () => {
    const storeClient = useRedisPackage ? nodeRedis : client;
    const limiter = new RateLimiterRedis({ storeClient, useRedisPackage, keyPrefix: "limit", points: 5, duration: 60 });
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => limiter.consume("user")));
    assert.equal(results.filter((one) => one.status === "fulfilled").length, 5);
    const refused = results.find((one) => one.status === "rejected").reason;
    assert.equal(refused.remainingPoints, 0);
    assert.ok(refused.msBeforeNext > 50_000 && refused.msBeforeNext <= 60_000, `${refused.msBeforeNext}`);
    assert.equal((await limiter.get("user")).consumedPoints, 8);
    assert.equal((await limiter.reward("user", 4)).consumedPoints, 4);
    assert.equal((await limiter.consume("user")).remainingPoints, 0);
    await limiter.block("other", 30);
    await assert.rejects(limiter.consume("other"));
    assert.equal(await limiter.delete("other"), true);
    assert.equal(await limiter.get("other"), null);
  });
}

test("rate-limiter-flexible: bursts, and a queue that waits for points", LIMIT, async () => {
  const slow = new RateLimiterRedis({ storeClient: client, keyPrefix: "slow", points: 1, duration: 60 });
  const burst = new RateLimiterRedis({ storeClient: client, keyPrefix: "burst", points: 2, duration: 60 });
  const bursty = new BurstyRateLimiter(slow, burst);
  const results = await Promise.allSettled([1, 2, 3, 4].map(() => bursty.consume("user")));
  assert.equal(results.filter((one) => one.status === "fulfilled").length, 3);
  const queue = new RateLimiterQueue(new RateLimiterRedis({ storeClient: client, keyPrefix: "queue", points: 2, duration: 1 }));
  const began = Date.now();
  await Promise.all([1, 2, 3].map(() => queue.removeTokens(1)));
  assert.ok(Date.now() - began > 300, `the third came after ${Date.now() - began} ms`);
});

/** Serves an application of express; `ask` gets a page with a cookie, and answers status, text and cookie. */
async function serve(application) {
  const http = createServer(application);
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const ask = async (path, cookie) => {
    const answer = await fetch(`http://127.0.0.1:${http.address().port}${path}`, { headers: cookie ? { cookie } : {} });
    const set = answer.headers.get("set-cookie")?.split(";")[0];
    return { status: answer.status, text: await answer.text(), cookie: set ?? cookie };
  };
  return { ask, close: () => new Promise((resolve) => http.close(resolve).closeAllConnections()) };
}

test("connect-redis: sessions live in the server and end by their time", LIMIT, async () => {
  const store = () => new SessionStore({ client: nodeRedis, prefix: "sess:", ttl: 100 });
  const application = () => {
    const built = express();
    built.use(session({ store: store(), secret: "s", resave: false, saveUninitialized: false }));
    built.get("/count", (request, response) => {
      request.session.seen = (request.session.seen ?? 0) + 1;
      response.send(`${request.session.seen}`);
    });
    built.get("/leave", (request, response) => request.session.destroy(() => response.send("left")));
    return built;
  };
  const [one, two] = [await serve(application()), await serve(application())];
  const first = await one.ask("/count");
  assert.equal(first.text, "1");
  assert.equal((await one.ask("/count", first.cookie)).text, "2");
  assert.equal((await two.ask("/count", first.cookie)).text, "3", "another process has the session too");
  assert.equal((await one.ask("/count")).text, "1", "a stranger begins anew");
  assert.equal(await promised(store(), "length"), 2);
  const [key] = await client.keys("sess:*");
  assert.ok((await client.ttl(key)) > 90);
  assert.equal((await one.ask("/leave", first.cookie)).text, "left");
  assert.equal(await promised(store(), "length"), 1);
  await promised(store(), "clear");
  assert.equal(await client.dbsize(), 0);
  await one.close();
  await two.close();
});

/** A call of a session store, whether it promises or calls back. */
function promised(store, method) {
  return new Promise((resolve, reject) => {
    Promise.resolve(store[method]((error, value) => (error ? reject(error) : resolve(value)))).catch(reject);
  });
}

test("rate-limit-redis: a window of requests per address, over both libraries", LIMIT, async () => {
  const senders = { ioredis: (...words) => client.call(...words), "node-redis": (...words) => nodeRedis.sendCommand(words) };
  for (const [name, sendCommand] of Object.entries(senders)) {
    const application = express();
    const store = new LimitStore({ sendCommand, prefix: `${name}:` });
    application.use(rateLimit({ windowMs: 60_000, limit: 3, store, standardHeaders: true, legacyHeaders: false }));
    application.get("/", (request, response) => response.send("welcome"));
    const served = await serve(application);
    const statuses = [];
    for (let turn = 0; turn < 5; turn++) statuses.push((await served.ask("/")).status);
    assert.deepEqual(statuses, [200, 200, 200, 429, 429], name);
    const [key] = await client.keys(`${name}:*`);
    assert.equal((await store.get(key.slice(name.length + 1))).totalHits, 5);
    await store.resetKey(key.slice(name.length + 1));
    assert.equal((await served.ask("/")).status, 200);
    await served.close();
  }
});

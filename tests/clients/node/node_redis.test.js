// node-redis in both protocols: values, transactions, scripts, functions, publish and subscribe.
"use strict";

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, test } = require("node:test");
const { createClient, createClientPool, defineScript, WatchError } = require("redis");
const { start, until } = require("./server");

const scripts = {
  addTo: defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1]) * 2",
    parseCommand(parser, key, amount) {
      parser.pushKey(key);
      parser.push(`${amount}`);
    },
    transformReply: (reply) => reply,
  }),
};

const LIBRARY = `#!lua name=ours
redis.register_function('put', function(keys, args) redis.call('SET', keys[1], args[1]) return args[1] .. '!' end)
redis.register_function{
  function_name = 'look',
  callback = function(keys) return redis.call('GET', keys[1]) end,
  flags = {'no-writes'},
}`;

for (const RESP of [2, 3]) {
  describe(`node-redis in RESP${RESP}`, { timeout: 20_000 }, () => {
    let server, client, url;
    before(async () => {
      server = await start();
      url = `redis://127.0.0.1:${server.port}`;
      client = await createClient({ url, RESP, scripts }).connect();
    });
    beforeEach(() => client.flushAll());
    after(async () => {
      await client?.close();
      await server?.stop();
    });

    test("values come back in their types", async () => {
      assert.equal(await client.set("k", "v", { expiration: { type: "EX", value: 100 }, condition: "NX" }), "OK");
      assert.equal(await client.set("k", "w", { condition: "NX" }), null);
      assert.ok((await client.ttl("k")) > 90);
      assert.equal(await client.hSet("h", { a: "1", b: "zwei" }), 2);
      assert.deepEqual({ ...(await client.hGetAll("h")) }, { a: "1", b: "zwei" });
      assert.equal(await client.sAdd("s", ["x", "y"]), 2);
      assert.deepEqual([...(await client.sMembers("s"))].sort(), ["x", "y"]);
      await client.zAdd("z", [{ score: 2.5, value: "b" }, { score: -7, value: "a" }]);
      assert.deepEqual(await client.zRangeWithScores("z", 0, -1), [{ value: "a", score: -7 }, { value: "b", score: 2.5 }]);
      assert.equal(await client.zScore("z", "nobody"), null);
      await assert.rejects(client.lPush("k", "x"), /^SimpleError: WRONGTYPE|WRONGTYPE Operation against/);
    });

    test("a transaction does all or, when what it watches changed, nothing", async () => {
      assert.deepEqual(await client.multi().set("k", "1").incr("k").get("k").exec(), ["OK", 2, "2"]);
      const other = await client.duplicate().connect();
      await other.watch("k");
      await client.set("k", "9");
      await assert.rejects(other.multi().set("k", "0").exec(), WatchError);
      assert.equal(await client.get("k"), "9");
      await assert.rejects(client.multi().set("k", "x").incr("k").exec(), /1 commands failed/);
      await other.close();
    });

    test("a script is loaded once and found again", async () => {
      assert.equal(await client.addTo("n", 5), 10);
      assert.equal(await client.addTo("n", 1), 12);
      await client.scriptFlush();
      assert.equal(await client.addTo("n", 1), 14);
      assert.deepEqual(await client.scriptExists([scripts.addTo.SHA1, "f".repeat(40)]), [1, 0]);
      assert.deepEqual(await client.multi().addTo("n", 1).get("n").exec(), [16, "8"]);
    });

    test("functions are loaded, called, listed and carried elsewhere", async () => {
      assert.equal(await client.functionLoad(LIBRARY), "ours");
      await assert.rejects(client.functionLoad(LIBRARY), /Library 'ours' already exists/);
      assert.equal(await client.functionLoad(LIBRARY, { REPLACE: true }), "ours");
      assert.equal(await client.fCall("put", { keys: ["k"], arguments: ["v"] }), "v!");
      assert.equal(await client.fCallRo("look", { keys: ["k"] }), "v");
      await assert.rejects(client.fCallRo("put", { keys: ["k"], arguments: ["v"] }), /Can not execute a script with write flag/);
      const [library] = await client.functionList();
      assert.equal(library.library_name, "ours");
      assert.deepEqual(library.functions.map((one) => one.name).sort(), ["look", "put"]);
      const dump = await client.withTypeMapping({ 36: Buffer }).functionDump();
      await client.functionFlush();
      await assert.rejects(client.fCall("put", { keys: ["k"], arguments: ["v"] }), /Function not found/);
      assert.equal(await client.functionRestore(dump), "OK");
      assert.equal(await client.fCallRo("look", { keys: ["k"] }), "v");
      assert.equal(await client.functionDelete("ours"), "OK");
    });

    test("messages reach channels, patterns and shard channels", async () => {
      const subscriber = await client.duplicate().connect();
      const seen = [];
      const note = (text, channel) => seen.push([channel, text]);
      await subscriber.subscribe("news", note);
      await subscriber.pSubscribe("n*", note);
      await subscriber.sSubscribe("shard", note);
      assert.equal(await client.publish("news", "x"), 2);
      assert.equal(await client.sPublish("shard", "y"), 1);
      await until("all came", () => seen.length === 3);
      assert.deepEqual(seen, [["news", "x"], ["news", "x"], ["shard", "y"]]);
      // In RESP3 a subscriber may ask anything else.
      if (RESP === 3) assert.equal(await subscriber.set("k", "v"), "OK");
      await subscriber.unsubscribe("news");
      await subscriber.pUnsubscribe("n*");
      await subscriber.sUnsubscribe("shard");
      assert.equal(await client.publish("news", "z"), 0);
      await subscriber.close();
    });

    test("a pool's connections wait beside each other", async () => {
      const pool = await createClientPool({ url, RESP }, { minimum: 1, maximum: 8 }).connect();
      const replies = Promise.all(Array.from({ length: 4 }, () => pool.blPop("q", 20)));
      await until("all wait", async () => /blocked_clients:4/.test(await client.info("clients")));
      await client.rPush("q", ["1", "2", "3", "4"]);
      assert.deepEqual((await replies).map((one) => one.element).sort(), ["1", "2", "3", "4"]);
      pool.destroy();
    });

    test("a stream keeps its entries in their order", async () => {
      assert.equal(await client.xAdd("s", "1-1", { a: "1", b: "" }), "1-1");
      assert.equal(await client.xAdd("s", "1-*", { c: "2" }, { TRIM: { strategy: "MAXLEN", strategyModifier: "=", threshold: 10 } }), "1-2");
      const entries = await client.xRange("s", "-", "+");
      assert.deepEqual(entries.map(({ id, message }) => [id, { ...message }]), [["1-1", { a: "1", b: "" }], ["1-2", { c: "2" }]]);
      assert.deepEqual((await client.xRevRange("s", "+", "-", { COUNT: 1 })).map(({ id }) => id), ["1-2"]);
      assert.equal(await client.xDel("s", "1-1"), 1);
      const told = await client.xInfoStream("s");
      assert.deepEqual([told.length, told["last-generated-id"], told["first-entry"].id], [1, "1-2", "1-2"]);
      assert.equal(told["recorded-first-entry-id"], "1-2");
      assert.equal(await client.xTrim("s", "MAXLEN", 0), 1);
      assert.equal(await client.xLen("s"), 0);
      assert.equal((await client.xInfoStream("s"))["first-entry"], null);
      await assert.rejects(client.xInfoStream("nobody"), /ERR no such key/);
    });

    test("a pool's connections read a group beside each other and acknowledge", async () => {
      assert.equal(await client.xGroupCreate("s", "g", "0", { MKSTREAM: true }), "OK");
      const pool = await createClientPool({ url, RESP }, { minimum: 1, maximum: 8 }).connect();
      const seen = [];
      const consume = async (name) => {
        for (;;) {
          const reply = await pool.xReadGroup("g", name, { key: "s", id: ">" }, { COUNT: 7, BLOCK: 10_000 });
          // node-redis has its own form in RESP2 alone.
          const messages = RESP === 2 ? reply[0].messages.map(({ id, message }) => [id, message.n]) : reply.s.map(([id, [, n]]) => [id, n]);
          if (messages.some(([, n]) => n === "end")) return;
          seen.push(...messages.map(([, n]) => Number(n)));
          await pool.xAck("s", "g", messages.map(([id]) => id));
        }
      };
      const consumers = [0, 1, 2, 3].map((at) => consume(`c${at}`));
      await until("all wait", async () => /blocked_clients:4/.test(await client.info("clients")));
      for (let n = 0; n < 500; n++) await client.xAdd("s", "*", { n: `${n}` });
      await until("all have come", () => seen.length >= 500);
      await until("all wait", async () => /blocked_clients:4/.test(await client.info("clients")));
      assert.deepEqual(seen.sort((one, two) => one - two), Array.from({ length: 500 }, (_, n) => n));
      assert.equal((await client.xPending("s", "g")).pending, 0);
      for (const left of [4, 3, 2, 1]) {
        await until("so many wait", async () => new RegExp(`blocked_clients:${left}`).test(await client.info("clients")));
        await client.xAdd("s", "*", { n: "end" });
      }
      await Promise.all(consumers);
      const pending = await client.xPendingRange("s", "g", "-", "+", 10);
      assert.deepEqual(pending.map(({ consumer, deliveriesCounter }) => [consumer, deliveriesCounter]).sort(), [0, 1, 2, 3].map((at) => [`c${at}`, 1]));
      const claimed = await client.xAutoClaim("s", "g", "heir", 0, "0-0");
      assert.deepEqual([claimed.nextId, claimed.messages.map(({ message }) => message.n)], ["0-0", ["end", "end", "end", "end"]]);
      const consumersTold = await client.xInfoConsumers("s", "g");
      assert.deepEqual(consumersTold.map(({ name, pending: of }) => [name, of]), [["c0", 0], ["c1", 0], ["c2", 0], ["c3", 0], ["heir", 4]]);
      const [group] = await client.xInfoGroups("s");
      assert.deepEqual([group.name, group.pending, group["entries-read"], group.lag], ["g", 4, 504, 0]);
      assert.equal(await client.xGroupDelConsumer("s", "g", "heir"), 4);
      assert.equal(await client.xGroupDestroy("s", "g"), 1);
      pool.destroy();
    });
  });
}

// BullMQ, whose scripts write events to streams, over ioredis and over node-redis.
"use strict";

const assert = require("node:assert/strict");
const { after, afterEach, before, beforeEach, describe, test } = require("node:test");
const { FlowProducer, Queue, QueueEvents, RateLimitError, UnrecoverableError, Worker } = require("bullmq");
const { Redis } = require("ioredis");
const { createClient } = require("redis");
const { start, until } = require("./server");

/** A connection as BullMQ takes it, and its end. */
const LIBRARIES = {
  ioredis: async (port) => {
    const connection = new Redis(port, { maxRetriesPerRequest: null });
    return { connection, close: () => connection.disconnect() };
  },
  "node-redis": async (port) => {
    const connection = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
    return { connection, close: () => connection.destroy() };
  },
};

const numbers = (length, from = 0) => Array.from({ length }, (_, at) => at + from);
const ascending = (one, two) => one - two;

for (const [library, connect] of Object.entries(LIBRARIES)) {
  describe(`BullMQ over ${library}`, { timeout: 60_000 }, () => {
    let server, plain, shared, opened;
    before(async () => {
      server = await start();
      plain = new Redis(server.port);
    });
    beforeEach(async () => {
      await plain.flushall();
      shared = await connect(server.port);
      opened = [];
    });
    // The youngest first: workers end before their queues.
    afterEach(async () => {
      for (const one of opened.reverse()) await one.close(one instanceof Worker);
      shared.close();
    });
    after(async () => {
      await plain?.quit();
      await server?.stop();
    });

    const open = (Kind, ...rest) => {
      const options = typeof rest.at(-1) === "object" ? rest.pop() : {};
      const one = new Kind(...rest, { connection: shared.connection, ...options });
      one.on("error", () => {});
      opened.push(one);
      return one;
    };
    const queue = (options) => open(Queue, "work", options ?? {});
    const worker = (process, options) => open(Worker, "work", process, options ?? {});
    // A listener without a place to begin at misses what comes before its first XREAD.
    const listener = async (name = "work") => {
      const events = open(QueueEvents, name, { lastEventId: "0-0" });
      await events.waitUntilReady();
      return events;
    };

    test("jobs give their results, and their events come in their order", async () => {
      const [jobs, events] = [queue(), await listener()];
      const seen = [];
      for (const name of ["added", "waiting", "active", "progress", "completed", "drained"]) {
        events.on(name, ({ jobId, prev, data, returnvalue }) => seen.push([name, jobId, prev ?? data ?? returnvalue]));
      }
      const job = await jobs.add("double", { number: 21 }, { jobId: "one" });
      worker(async (one) => {
        await one.updateProgress(50);
        await one.updateProgress({ done: true });
        await one.log("half");
        return one.data.number * 2;
      });
      assert.equal(await job.waitUntilFinished(events), 42);
      const of = (wanted) => seen.filter(([name]) => (name === "drained") === wanted);
      await until("all has come", () => of(true).length > 0 && of(false).length === 6);
      assert.deepEqual(of(false), [
        ["added", "one", undefined],
        ["waiting", "one", undefined],
        ["active", "one", "waiting"],
        ["progress", "one", 50],
        ["progress", "one", { done: true }],
        ["completed", "one", "active"],
      ]);
      const stored = await jobs.getJob("one");
      assert.deepEqual([stored.returnvalue, stored.progress, await stored.getState()], [42, { done: true }, "completed"]);
      assert.deepEqual(await jobs.getJobLogs("one"), { logs: ["half"], count: 1 });
      assert.equal(await plain.type("bull:work:events"), "stream");
      const length = await plain.xlen("bull:work:events");
      assert.ok(length >= 6, `${length} events`);
      await jobs.trimEvents(0);
      assert.equal(await plain.xlen("bull:work:events"), 0);
    });

    test("a listener that comes later reads what it has missed", async () => {
      const [jobs, seen] = [queue(), []];
      await jobs.addBulk(numbers(250).map((number) => ({ name: "n", data: {}, opts: { jobId: `job-${number}` } })));
      const events = await listener();
      events.on("waiting", ({ jobId }) => seen.push(jobId));
      await until("all have come", () => seen.length === 250);
      assert.deepEqual(seen, numbers(250).map((number) => `job-${number}`));
    });

    test("a job fails, waits longer each time, and succeeds or fails for good", async () => {
      const [jobs, events] = [queue(), await listener()];
      const times = [];
      worker(async (job) => {
        if (job.name === "never") throw new UnrecoverableError("for good");
        times.push(Date.now());
        if (job.attemptsMade < job.data.failures) throw new Error(`attempt ${job.attemptsMade}`);
        return job.attemptsMade;
      });
      const backoff = { type: "exponential", delay: 40 };
      assert.equal(await (await jobs.add("retry", { failures: 2 }, { attempts: 3, backoff })).waitUntilFinished(events), 2);
      assert.ok(times[1] - times[0] >= 39 && times[2] - times[1] >= 79, `${times}`);
      const lost = await jobs.add("retry", { failures: 9 }, { attempts: 2, backoff: 5 });
      await assert.rejects(lost.waitUntilFinished(events), /attempt 1/);
      const never = await jobs.add("never", {}, { attempts: 5 });
      await assert.rejects(never.waitUntilFinished(events), /for good/);
      assert.deepEqual((await jobs.getFailed()).map((job) => job.attemptsMade).sort(), [1, 2]);
      // A failed job is tried again by hand.
      const failed = await jobs.getJob(lost.id);
      await failed.updateData({ failures: 0 });
      await failed.retry();
      await until("it succeeds", async () => (await failed.getState()) === "completed");
    });

    test("delayed jobs come in the order of their times, and one is promoted", async () => {
      const [jobs, events, order] = [queue(), await listener(), []];
      const delays = { c: 300, a: 100, b: 200, later: 600_000 };
      const [timestamp, added] = [Date.now(), {}];
      for (const [name, delay] of Object.entries(delays)) added[name] = await jobs.add(name, {}, { timestamp, delay });
      assert.equal(await jobs.getDelayedCount(), 4);
      worker(async (job) => order.push(job.name));
      await Promise.all(["a", "b", "c"].map((name) => added[name].waitUntilFinished(events)));
      assert.deepEqual(order, ["a", "b", "c"]);
      await added.later.changeDelay(500_000);
      await added.later.promote();
      await added.later.waitUntilFinished(events);
      assert.ok((await jobs.getJob(added.c.id)).processedOn - timestamp >= 300);
    });

    test("priorities: the most urgent first, those of one priority in their order", async () => {
      const [jobs, order] = [queue(), []];
      for (const [at, priority] of [3, 1, 2, 1, 3, 0].entries()) await jobs.add(`${priority}:${at}`, {}, { priority });
      const raised = await jobs.add("raised", {}, { priority: 9 });
      await jobs.add("last in", {}, { lifo: true });
      await raised.changePriority({ priority: 2 });
      assert.deepEqual(await jobs.getCountsPerPriority([0, 1, 2, 3]), { 0: 2, 1: 2, 2: 2, 3: 2 });
      worker(async (job) => order.push(job.name));
      await until("all are done", () => order.length === 8);
      assert.deepEqual(order, ["last in", "0:5", "1:1", "1:3", "2:2", "raised", "3:0", "3:4"]);
    });

    test("a limiter of rates lets so many through at a time", async () => {
      const [jobs, times] = [queue(), []];
      await jobs.addBulk(numbers(6).map((number) => ({ name: "n", data: { number } })));
      const began = Date.now();
      let refused = 0;
      const limited = worker(
        async (job) => {
          if (job.data.number === 5 && refused++ === 0) {
            await limited.rateLimit(100);
            throw new RateLimitError();
          }
          times.push(Date.now());
        },
        { limiter: { max: 2, duration: 300 } },
      );
      await until("all are done", () => times.length === 6);
      assert.equal(refused, 2);
      // Each window begins with its first job.
      for (const at of [2, 4]) assert.ok(times[at] - began >= 150 * at - 10, `${times} from ${began}`);
    });

    test("a flow: a parent waits for its children in other queues, and gets what they returned", async () => {
      const flows = open(FlowProducer);
      const [events, seen] = [await listener("parents"), []];
      const child = async (job) => {
        seen.push(job.name);
        if (job.name === "broken") throw new Error("broken on purpose");
        return job.name;
      };
      open(Worker, "children", child);
      open(Worker, "parents", async (job) => {
        seen.push(job.name);
        return Object.values(await job.getChildrenValues()).sort();
      });
      const leaf = { name: "leaf", queueName: "children", data: {} };
      const tree = await flows.add({
        name: "root",
        queueName: "parents",
        children: [
          { name: "x", queueName: "children", children: [leaf, leaf] },
          { name: "y", queueName: "children" },
        ],
      });
      assert.deepEqual(await tree.job.waitUntilFinished(events), ["x", "y"]);
      assert.equal(seen.at(-1), "root");
      assert.ok(seen.indexOf("x") > seen.lastIndexOf("leaf"));
      const read = await flows.getFlow({ id: tree.job.id, queueName: "parents" });
      assert.deepEqual(read.children.map((one) => one.job.name).sort(), ["x", "y"]);
      const failing = await flows.add({
        name: "root",
        queueName: "parents",
        children: [{ name: "broken", queueName: "children", opts: { failParentOnFailure: true } }],
      });
      await assert.rejects(failing.job.waitUntilFinished(events), /child .* failed/);
    });

    test("a queue is paused and resumed; a worker too", async () => {
      const [jobs, events, done] = [queue(), await listener(), []];
      const told = [];
      events.on("paused", () => told.push("paused"));
      events.on("resumed", () => told.push("resumed"));
      const running = worker(async (job) => done.push(job.name));
      await running.waitUntilReady();
      await jobs.pause();
      assert.equal(await jobs.isPaused(), true);
      await jobs.addBulk(["a", "b", "c"].map((name) => ({ name, data: {} })));
      await until("it is told", () => told.length === 1);
      assert.deepEqual([await jobs.count(), done], [3, []]);
      await jobs.resume();
      await until("all are done", () => done.length === 3);
      assert.deepEqual(done, ["a", "b", "c"]);
      await until("it is told", () => told.length === 2);
      assert.deepEqual(told, ["paused", "resumed"]);
      await running.pause();
      await jobs.add("d", {});
      assert.equal(await jobs.getWaitingCount(), 1);
      running.resume();
      await until("the last is done", () => done.length === 4);
    });

    test("a scheduler repeats its job until it is removed", async () => {
      const [jobs, done] = [queue(), []];
      worker(async (job) => done.push(job.data.number));
      await jobs.upsertJobScheduler("often", { every: 60 }, { name: "tick", data: { number: 7 } });
      await jobs.upsertJobScheduler("thrice", { every: 40, limit: 3 }, { name: "tick", data: { number: 1 } });
      await jobs.upsertJobScheduler("nightly", { pattern: "0 0 3 * * *" }, { name: "sweep" });
      assert.equal(await jobs.getJobSchedulersCount(), 3);
      const nightly = await jobs.getJobScheduler("nightly");
      assert.ok(nightly.next > Date.now() && nightly.next <= Date.now() + 25 * 3600_000);
      await until("both have run", () => done.filter((one) => one === 7).length >= 4 && done.filter((one) => one === 1).length >= 3);
      assert.equal(await jobs.removeJobScheduler("often"), true);
      await until("it comes to rest", async () => (await jobs.getActiveCount()) === 0 && (await jobs.getDelayedCount()) === 1);
      assert.equal(done.filter((one) => one === 1).length, 3);
      assert.deepEqual((await jobs.getJobSchedulers()).map((one) => one.key).sort(), ["nightly", "thrice"]);
    });

    test("deduplication, cleaning, draining, removal and obliteration", async () => {
      const jobs = queue();
      const first = await jobs.add("same", {}, { deduplication: { id: "only" } });
      assert.equal((await jobs.add("same", {}, { deduplication: { id: "only" } })).id, first.id);
      await jobs.addBulk(numbers(20).map((number) => ({ name: number % 2 ? "bad" : "good", data: {} })));
      assert.equal(await jobs.remove(first.id), 1);
      const running = worker(async (job) => {
        if (job.name === "bad") throw new Error("bad");
      });
      await until("all are done", async () => (await jobs.getCompletedCount()) + (await jobs.getFailedCount()) === 20);
      await running.close();
      assert.deepEqual(await jobs.getJobCounts("completed", "failed", "wait"), { completed: 10, failed: 10, wait: 0 });
      assert.equal((await jobs.clean(0, 4, "completed")).length, 4);
      assert.equal((await jobs.clean(0, 0, "failed")).length, 10);
      assert.equal(await jobs.getCompletedCount(), 6);
      await jobs.addBulk(numbers(5).map(() => ({ name: "n", data: {}, opts: { delay: 60_000 } })));
      await jobs.add("n", {});
      await jobs.drain(true);
      assert.equal(await jobs.count(), 0);
      await jobs.add("n", {});
      await jobs.obliterate();
      assert.deepEqual(await plain.keys("bull:work:*"), []);
    });

    test("a job whose worker is gone stalls, and another worker takes it", async () => {
      const [jobs, events, stalled] = [queue(), await listener(), []];
      events.on("stalled", ({ jobId }) => stalled.push(jobId));
      const job = await jobs.add("n", {}, { jobId: "left" });
      const lost = worker(() => new Promise(() => {}), { lockDuration: 200, skipLockRenewal: true, skipStalledCheck: true });
      await until("it is active", () => job.isActive());
      await lost.close(true);
      worker(async () => "saved", { stalledInterval: 100 });
      assert.equal(await job.waitUntilFinished(events), "saved");
      assert.deepEqual(stalled, ["left"]);
    });

    test("workers share jobs: none is lost and none is done twice", async () => {
      const [jobs, events] = [queue(), await listener()];
      const [done, completed] = [[], []];
      events.on("completed", ({ jobId }) => completed.push(jobId));
      const process = (at) => async (job) => {
        done.push([at, job.data.number]);
        await new Promise(setImmediate);
      };
      for (const at of numbers(3)) worker(process(at), { concurrency: 8 });
      const adding = numbers(10).map((turn) => jobs.addBulk(numbers(100, turn * 100).map((number) => ({ name: "n", data: { number } }))));
      await Promise.all(adding);
      await until("all are done", () => completed.length >= 1000, 30_000);
      assert.deepEqual(done.map(([, number]) => number).sort(ascending), numbers(1000));
      assert.equal(new Set(completed).size, 1000);
      assert.equal(new Set(done.map(([at]) => at)).size, 3, "each worker had some");
      assert.equal(await jobs.getCompletedCount(), 1000);
    });
  });
}

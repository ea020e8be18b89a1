// Socket.IO on two servers that reach each other's clients through the database alone, by all of its adapters.
"use strict";

const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { once } = require("node:events");
const { after, before, describe, test } = require("node:test");
const { createAdapter, createShardedAdapter } = require("@socket.io/redis-adapter");
const { Emitter } = require("@socket.io/redis-emitter");
const { createAdapter: createStreamsAdapter } = require("@socket.io/redis-streams-adapter");
const { Redis } = require("ioredis");
const { createClient } = require("redis");
const { Server } = require("socket.io");
const { io } = require("socket.io-client");
const { start, until } = require("./server");

/** Two connections, to publish and to subscribe, and their end, which waits for what they still do. */
const LIBRARIES = {
  ioredis: async (port) => {
    const publisher = new Redis(port);
    const subscriber = publisher.duplicate();
    return { publisher, subscriber, close: () => Promise.all([publisher.quit(), subscriber.quit()]) };
  },
  "node-redis": async (port) => {
    const publisher = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
    const subscriber = await publisher.duplicate().connect();
    return { publisher, subscriber, close: () => Promise.all([publisher.close(), subscriber.close()]) };
  },
};

/** Waits are short: a reader of a stream ends with its last one. */
const STREAMS = { blockTimeInMs: 50 };

const ADAPTERS = {
  classic: createAdapter,
  sharded: createShardedAdapter,
  streams: (client) => createStreamsAdapter(client, STREAMS),
  "many streams": (client) => createStreamsAdapter(client, { ...STREAMS, streamCount: 3, useShardedPubSub: true }),
};

/** A Socket.IO server: clients say `join` to enter a room. */
async function serve(port, library, adapt, options = {}) {
  const { publisher, subscriber, close } = await LIBRARIES[library](port);
  const http = createServer();
  const server = new Server(http, { adapter: adapt(publisher, subscriber), ...options });
  server.on("connection", (socket) => {
    socket.on("join", async (room, done) => {
      await socket.join(room);
      done();
    });
  });
  server.on("ask", (question, answer) => answer(`${question} yes`));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const end = async () => {
    await server.close();
    await close();
  };
  return { server, url: `http://127.0.0.1:${http.address().port}`, end };
}

/** Ends the servers, then the database: readers of streams go on for a while, and would look for a lost database. */
async function endAll(servers, database) {
  for (const { end } of servers ?? []) await end();
  if (!database) return;
  const inspector = new Redis(database.port);
  await until("all have left", async () => /connected_clients:1\r/.test(await inspector.info("clients")));
  await inspector.quit();
  await database.stop();
}

async function connect(url) {
  const client = io(url, { transports: ["websocket"], reconnection: false, forceNew: true });
  await once(client, "connect", { signal: AbortSignal.timeout(10_000) });
  return client;
}

/** What comes at `client` as `event`, in its order. */
function recorded(client, event) {
  const seen = [];
  client.on(event, (...values) => seen.push(values.length === 1 ? values[0] : values));
  return seen;
}

/** Waits until an event of the server comes at all clients: who reads a stream from its end misses what came before. */
async function heard(server, clients) {
  const left = new Set(clients);
  clients.forEach((client) => client.once("hear", () => left.delete(client)));
  await until("all hear", () => {
    server.emit("hear");
    return left.size === 0;
  });
}

const VARIANTS = Object.keys(ADAPTERS).flatMap((adapter) => Object.keys(LIBRARIES).map((library) => [adapter, library]));

for (const [adapter, library] of VARIANTS) {
  describe(`the ${adapter} adapter over ${library}`, { timeout: 20_000 }, () => {
    let database, servers, clients;
    before(async () => {
      database = await start();
      const one = () => serve(database.port, library, ADAPTERS[adapter]);
      servers = [await one(), await one()];
      clients = [];
      for (const number of [0, 0, 1, 1]) clients.push(await connect(servers[number].url));
      for (const { server } of servers) {
        await until("the servers know of each other", async () => (await server.fetchSockets()).length === 4);
      }
      await heard(servers[0].server, clients);
    });
    after(async () => {
      clients?.forEach((client) => client.disconnect());
      await endAll(servers, database);
    });

    test("an event of one server reaches the clients of both, in its order", async () => {
      const seen = clients.map((client) => recorded(client, "count"));
      for (let number = 0; number < 200; number++) servers[0].server.emit("count", number);
      const wanted = Array.from({ length: 200 }, (_, number) => number);
      await until("all have all", () => seen.every((one) => one.length >= 200));
      seen.forEach((one) => assert.deepEqual(one, wanted));
      clients.forEach((client) => client.off("count"));
    });

    test("bytes come as they went", async () => {
      const seen = clients.map((client) => recorded(client, "bytes"));
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
      servers[1].server.emit("bytes", bytes);
      await until("all have them", () => seen.every((one) => one.length === 1));
      seen.forEach((one) => assert.deepEqual(Buffer.from(one[0]), bytes));
    });

    test("a room reaches its members on both servers and nobody else", async () => {
      const seen = clients.map((client) => recorded(client, "said"));
      await clients[0].emitWithAck("join", "red");
      await clients[3].emitWithAck("join", "red");
      const members = await servers[0].server.in("red").fetchSockets();
      assert.deepEqual(members.map((one) => one.id).sort(), [clients[0].id, clients[3].id].sort());
      servers[1].server.to("red").emit("said", "to red");
      servers[1].server.emit("said", "to all");
      await until("all have the last", () => seen.every((one) => one.at(-1) === "to all"));
      assert.deepEqual(seen, [["to red", "to all"], ["to all"], ["to all"], ["to red", "to all"]]);
    });

    test("one server lets clients of the other join and leave rooms", async () => {
      servers[0].server.in(clients[2].id).socketsJoin("blue");
      await until("it joined", async () => (await servers[1].server.in("blue").fetchSockets()).length === 1);
      const [remote] = await servers[0].server.in("blue").fetchSockets();
      assert.equal(remote.id, clients[2].id);
      assert.ok(remote.rooms.has("blue"));
      servers[0].server.socketsLeave("blue");
      await until("it left", async () => (await servers[0].server.in("blue").fetchSockets()).length === 0);
    });

    test("acknowledgements come from the clients of both servers", async () => {
      clients.forEach((client, number) => client.on("who", (answer) => answer(number)));
      const answers = await servers[0].server.timeout(5000).emitWithAck("who");
      assert.deepEqual(answers.sort(), [0, 1, 2, 3]);
    });

    test("servers answer each other", async () => {
      assert.deepEqual(await servers[0].server.serverSideEmitWithAck("ask", "ready?"), ["ready? yes"]);
    });

    if (adapter === "classic") {
      test("a program that is no server emits to rooms", async () => {
        const seen = clients.map((client) => recorded(client, "news"));
        const publisher = new Redis(database.port);
        const emitter = new Emitter(publisher);
        await clients[1].emitWithAck("join", "readers");
        emitter.to("readers").emit("news", "first");
        emitter.emit("news", "second");
        await until("all have the second", () => seen.every((one) => one.at(-1) === "second"));
        assert.deepEqual(seen, [["second"], ["first", "second"], ["second"], ["second"]]);
        publisher.disconnect();
      });
    }
  });
}

for (const library of Object.keys(LIBRARIES)) {
  test(`a client that was away gets from a stream what it missed, on another server, over ${library}`, { timeout: 20_000 }, async () => {
    const database = await start();
    const options = { connectionStateRecovery: {} };
    const servers = [];
    for (const _ of [0, 1]) servers.push(await serve(database.port, library, ADAPTERS.streams, options));
    const client = io(servers[0].url, { transports: ["websocket"], reconnection: false, forceNew: true });
    await once(client, "connect", { signal: AbortSignal.timeout(10_000) });
    await client.emitWithAck("join", "red");
    const seen = recorded(client, "count");
    await heard(servers[0].server, [client]);
    client.io.engine.close();
    const sessions = () => servers[0].server.of("/").sockets.size;
    await until("it is gone", () => sessions() === 0);
    const inspector = new Redis(database.port);
    await until("its session is kept", async () => (await inspector.keys("sio:session:*")).length === 1);
    // More than one XRANGE of the adapter fetches.
    for (let number = 1; number <= 250; number++) servers[number % 2].server.to("red").emit("count", number);
    servers[0].server.to("blue").emit("count", "not for it");
    await until("all are in the stream", async () => (await inspector.xlen("socket.io")) > 251);
    client.io.uri = servers[1].url;
    client.connect();
    await once(client, "connect", { signal: AbortSignal.timeout(10_000) });
    assert.equal(client.recovered, true);
    await until("all have come", () => seen.length >= 250);
    const came = seen.map(([number]) => number);
    assert.deepEqual(came.filter((number) => number % 2 === 0), Array.from({ length: 125 }, (_, at) => 2 * at + 2));
    assert.deepEqual(came.filter((number) => number % 2 === 1), Array.from({ length: 125 }, (_, at) => 2 * at + 1));
    assert.ok(client.active);
    inspector.disconnect();
    client.disconnect();
    await endAll(servers, database);
  });
}

// node-redis and ioredis over TLS, as the user `default` and as a user with rules.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { after, before, beforeEach, describe, test } = require("node:test");
const { Redis } = require("ioredis");
const { createClient } = require("redis");
const { freePort, start, until } = require("./server");

const RULES = ["on", ">wonderland", "~app:*", "&news:*", "+@all", "-@dangerous"];
const LIMIT = { timeout: 20_000 };

let certificates;
before(() => {
  certificates = fs.mkdtempSync(path.join(os.tmpdir(), "tarn-node-certificates"));
  execFileSync("sh", [path.join(__dirname, "../certificates.sh"), certificates]);
});
after(() => fs.rmSync(certificates, { recursive: true, force: true }));

const file = (name) => path.join(certificates, name);

/** The options of node's TLS: the authority to trust, and the certificate to show, if one is named. */
function trust(authority = "authority", shown = undefined) {
  const read = (name) => fs.readFileSync(file(name));
  return { ca: read(`${authority}.pem`), ...(shown && { cert: read(`${shown}.pem`), key: read(`${shown}.key`) }) };
}

/** A server with `tlsPort`, and an ordinary port for `admin`. */
async function startEncrypted(authClients) {
  const tlsPort = await freePort();
  const server = await start(
    ...["--tls-port", `${tlsPort}`, "--tls-auth-clients", authClients, "--tls-cert-file", file("server.pem")],
    ...["--tls-key-file", file("server.key"), "--tls-ca-cert-file", file("authority.pem")],
  );
  const admin = new Redis(server.port);
  const prepare = async () => {
    await admin.flushall();
    await admin.call("ACL", "SETUSER", "alice", "reset", ...RULES);
    await admin.call("ACL", "LOG", "RESET");
  };
  const stop = async () => {
    admin.disconnect();
    await server.stop();
  };
  return { tlsPort, admin, prepare, stop };
}

/** The entries of `ACL LOG`, the latest first: reason, context, object and user. */
async function logged(admin) {
  const entries = await admin.call("ACL", "LOG");
  return entries.map((entry) => [3, 5, 7, 9].map((at) => entry[at]).join(" "));
}

describe("node-redis over TLS", LIMIT, () => {
  let lenient, strict;
  before(async () => {
    [lenient, strict] = [await startEncrypted("no"), await startEncrypted("yes")];
  });
  beforeEach(() => Promise.all([lenient.prepare(), strict.prepare()]));
  after(async () => {
    await lenient?.stop();
    await strict?.stop();
  });

  /** A client that connects once. */
  async function connect(server, tls, options = {}) {
    const socket = { host: "localhost", port: server.tlsPort, tls: true, reconnectStrategy: false, ...tls };
    const client = createClient({ socket, ...options });
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  test("it leaves a server that it cannot trust", async () => {
    const client = await connect(lenient, trust());
    assert.equal(await client.ping(), "PONG");
    await client.close();
    await assert.rejects(connect(lenient, trust("foreign")), /self-signed certificate|unable to verify/);
    const elsewhere = { ...trust(), servername: "elsewhere.example" };
    await assert.rejects(connect(lenient, elsewhere), { code: "ERR_TLS_CERT_ALTNAME_INVALID" });
  });

  test("it is asked for a certificate", async () => {
    for (const version of ["TLSv1.2", "TLSv1.3"]) {
      const client = await connect(strict, { ...trust("authority", "client"), minVersion: version, maxVersion: version });
      assert.equal(await client.echo("hello"), "hello");
      await client.close();
    }
    // In TLS 1.3 the refusal comes when the client is connected already; node-redis may then wait without end.
    for (const shown of [undefined, "stranger"]) {
      await assert.rejects(connect(strict, { ...trust("authority", shown), maxVersion: "TLSv1.2" }));
    }
  });

  for (const RESP of [2, 3]) {
    test(`it is a user with rules in RESP${RESP}`, async () => {
      const alice = { RESP, username: "alice", password: "wonderland" };
      const client = await connect(strict, trust("authority", "client"), alice);
      assert.equal(await client.aclWhoAmI(), "alice");
      assert.equal(await client.set("app:k", "v"), "OK");
      await assert.rejects(client.flushAll(), /NOPERM/);
      await assert.rejects(client.get("other:k"), /NOPERM/);
      await assert.rejects(client.publish("secret", "m"), /NOPERM/);
      await assert.rejects(client.multi().set("app:k", "w").get("other:k").exec(), /NOPERM|EXECABORT/);
      assert.equal(await client.get("app:k"), "v");
      await client.close();
      await assert.rejects(connect(strict, trust("authority", "client"), { ...alice, password: "guess" }), /WRONGPASS/);
      assert.deepEqual(await logged(strict.admin), [
        "auth toplevel HELLO alice",
        "key multi other:k alice",
        "channel toplevel secret alice",
        "key toplevel other:k alice",
        "command toplevel flushall alice",
      ]);
    });

    test(`large values and messages come over in RESP${RESP}`, async () => {
      const client = await connect(lenient, trust(), { RESP, username: "alice", password: "wonderland" });
      const large = "x".repeat(10 << 20);
      assert.equal(await client.set("app:large", large), "OK");
      assert.ok((await client.get("app:large")) === large);
      const numbers = await Promise.all(Array.from({ length: 2000 }, () => client.incr("app:n")));
      assert.equal(numbers[1999], 2000);
      const [listener, heard] = [await client.duplicate().connect(), []];
      await listener.subscribe("news:a", (text) => heard.push(text));
      assert.equal(await client.publish("news:a", "hello"), 1);
      await until("the message", () => heard.length === 1);
      assert.deepEqual(heard, ["hello"]);
      await listener.close();
      await client.close();
    });
  }
});

describe("ioredis over TLS", LIMIT, () => {
  let server;
  before(async () => {
    server = await startEncrypted("yes");
  });
  beforeEach(() => server.prepare());
  after(() => server?.stop());

  /** A client that connects once. */
  function connect(tls, options = {}) {
    const once = { lazyConnect: true, retryStrategy: () => null, maxRetriesPerRequest: 0 };
    const client = new Redis({ host: "localhost", port: server.tlsPort, tls, ...once, ...options });
    client.on("error", () => {});
    return client;
  }

  test("it leaves a server that it cannot trust, and is left without a certificate", async () => {
    const shown = trust("authority", "client");
    const elsewhere = { ...shown, servername: "elsewhere.example" };
    for (const tls of [trust("foreign", "client"), elsewhere, trust(), trust("authority", "stranger")]) {
      const client = connect(tls);
      await assert.rejects(client.ping());
      client.disconnect();
    }
    const client = connect(shown);
    assert.equal(await client.ping(), "PONG");
    client.disconnect();
  });

  test("it is a user with rules", async () => {
    const client = connect(trust("authority", "client"), { username: "alice", password: "wonderland" });
    assert.equal(await client.acl("WHOAMI"), "alice");
    assert.equal(await client.set("app:k", "v"), "OK");
    await assert.rejects(client.flushall(), /^ReplyError: NOPERM/);
    await assert.rejects(client.get("other:k"), /^ReplyError: NOPERM/);
    const replies = await client.pipeline().get("app:k").get("other:k").exec();
    assert.equal(replies[0][1], "v");
    assert.match(replies[1][0].message, /^NOPERM/);
    client.disconnect();
    // It asks for INFO when it has connected, and goes on without.
    const refused = ["key toplevel other:k alice", "command toplevel flushall alice", "command toplevel info alice"];
    assert.deepEqual(await logged(server.admin), refused);
  });
});

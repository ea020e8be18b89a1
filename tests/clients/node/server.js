// Starts the server under test on a free port with an empty folder, and kills it at the end.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { setTimeout: pause } = require("node:timers/promises");

const START_LIMIT_MS = 30_000;

/** The program to test: TARN_BINARY, or what cargo built. */
function binary() {
  const target = process.env.CARGO_TARGET_DIR ?? path.join(__dirname, "../../../target");
  return process.env.TARN_BINARY ?? path.join(target, "debug/tarn");
}

function freePort() {
  return new Promise((resolve, reject) => {
    const listener = net.createServer();
    listener.on("error", reject);
    listener.listen(0, "127.0.0.1", () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    const say = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("data", (data) => say(data.toString().startsWith("+PONG")));
    socket.on("error", () => say(false));
    socket.on("close", () => say(false));
    socket.setTimeout(1000, () => say(false));
  });
}

/** A running server: its `port`, and `stop`. */
async function start(...options) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tarn-node"));
  const port = await freePort();
  const program = binary();
  const verb = path.basename(program).startsWith("redis") ? [] : ["serve"];
  const common = ["--port", `${port}`, "--dir", folder, "--save", "", "--loglevel", "warning"];
  const output = fs.openSync(path.join(folder, "output"), "w+");
  const child = spawn(program, [...verb, ...common, ...options], { stdio: ["ignore", output, output] });
  const ended = new Promise((resolve) => child.on("close", resolve).on("error", resolve));
  const started = Date.now();
  while (!(await answers(port))) {
    if (child.exitCode !== null || child.pid === undefined || Date.now() - started > START_LIMIT_MS) {
      child.kill("SIGKILL");
      throw new Error(`the server does not answer:\n${fs.readFileSync(path.join(folder, "output"), "utf8")}`);
    }
    await pause(10);
  }
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    fs.closeSync(output);
    fs.rmSync(folder, { recursive: true, force: true });
  };
  return { port, stop };
}

/** Waits until `is_so` answers true; fails after a while. */
async function until(what, isSo, limitMs = 10_000) {
  const started = Date.now();
  while (!(await isSo())) {
    if (Date.now() - started > limitMs) throw new Error(`in vain: ${what}`);
    await pause(5);
  }
}

module.exports = { freePort, start, until };

"""Starts the server under test once a session, on a free port with an empty folder, and kills it at the end."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

# redis-py takes hiredis if it finds it. Without this variable it shall read replies by itself; programs that tests start take it.
if "TARN_HIREDIS" not in os.environ:
    sys.modules["hiredis"] = None

import redis

START_LIMIT_SECONDS = 30


def binary():
    """The program to test: TARN_BINARY, or what cargo built."""
    named = os.environ.get("TARN_BINARY")
    if named:
        return named
    top = pathlib.Path(__file__).resolve().parents[2]
    return str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR", top / "target")) / "debug" / "tarn")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A running server: `port`, and the child process."""

    def __init__(self, folder, *options):
        self.port = free_port()
        program = binary()
        command = [program] if pathlib.Path(program).name.startswith("redis") else [program, "serve"]
        command += ["--port", str(self.port), "--dir", str(folder), "--save", "", "--loglevel", "warning"]
        self.command = command + list(options)
        self.output = open(folder / "output", "w+")
        self.start()

    def start(self):
        self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)
        self.wait_until_it_answers()

    def kill_and_start(self):
        """Kills the server, which cannot prepare for it, and starts it again with the same port, folder and options."""
        self.child.kill()
        self.child.wait()
        self.start()

    def wait_until_it_answers(self):
        started = time.monotonic()
        while True:
            try:
                with redis.Redis(port=self.port) as client:
                    client.ping()
                return
            except redis.exceptions.RedisError:
                if self.child.poll() is not None or time.monotonic() - started > START_LIMIT_SECONDS:
                    self.output.seek(0)
                    raise RuntimeError(f"the server does not answer:\n{self.output.read()}")
                time.sleep(0.01)

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.output.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("data"))
    yield running
    running.stop()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    return request.param


@pytest.fixture
def client(server, protocol):
    """redis-py with texts, in both protocols, on an empty server."""
    with redis.Redis(port=server.port, protocol=protocol, decode_responses=True) as connected:
        connected.flushall()
        yield connected


@pytest.fixture
def raw(server, protocol):
    """redis-py with bytes."""
    with redis.Redis(port=server.port, protocol=protocol) as connected:
        connected.flushall()
        yield connected

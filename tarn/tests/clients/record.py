#!/usr/bin/env python3
"""Records what a client of PostgreSQL asks, for `tarn/tests/sql_clients.rs`.

    python3 record.py LISTEN SERVER FILE     then let the client connect to port LISTEN, and end this by Ctrl-C

Each line of FILE is a statement: {"simple": text}, or {"extended": text} with the types of its parameters, their
formats and values (text, or hex where binary), and the formats of results. "fails" is the code of its error. The
number that the server gives the table `flight` is written as {flight}.
"""

import asyncio
import json
import re
import socket
import struct
import sys

ENCRYPTION = (80877103, 80877104)


def text_of(body, at):
    end = body.index(b"\0", at)
    return body[at:end].decode(), end + 1


def numbers_of(body, at, letter):
    (count,) = struct.unpack_from("!h", body, at)
    size = struct.calcsize("!" + letter)
    return list(struct.unpack_from(f"!{count}{letter}", body, at + 2)), at + 2 + count * size


class Recorder:
    """What one connection has asked, in order, and what it waits for."""

    def __init__(self, lines, flight):
        self.lines, self.flight = lines, flight
        self.statements, self.portals, self.waiting = {}, {}, []

    def mark(self, text):
        return re.sub(rf"\b{self.flight}\b", "{flight}", text) if self.flight else text

    def add(self, line):
        self.lines.append(line)
        self.waiting.append(line)

    def asked(self, kind, body):
        if kind == b"Q":
            self.add({"simple": self.mark(text_of(body, 0)[0])})
        elif kind == b"P":
            name, at = text_of(body, 0)
            text, at = text_of(body, at)
            self.statements[name] = (self.mark(text), numbers_of(body, at, "I")[0])
        elif kind == b"B":
            portal, at = text_of(body, 0)
            name, at = text_of(body, at)
            formats, at = numbers_of(body, at, "h")
            (count,) = struct.unpack_from("!h", body, at)
            at += 2
            values = []
            for number in range(count):
                (size,) = struct.unpack_from("!i", body, at)
                at += 4
                value = None if size < 0 else body[at : at + size]
                at += max(size, 0)
                is_binary = (formats[number] if len(formats) > 1 else (formats or [0])[0]) == 1
                values.append(None if value is None else value.hex() if is_binary else self.mark(value.decode()))
            results, at = numbers_of(body, at, "h")
            text, types = self.statements.get(name, ("", []))
            line = {"extended": text, "types": types, "formats": formats, "values": values, "results": results}
            self.portals[portal] = line
        elif kind == b"E":
            portal, _ = text_of(body, 0)
            self.add(self.portals.get(portal, {"extended": ""}))

    def answered(self, kind, body):
        if kind == b"E":
            fields = dict((part[:1], part[1:]) for part in body.split(b"\0") if part)
            # What fails before it runs was not asked to run.
            if not self.waiting and self.statements:
                text, types = list(self.statements.values())[-1]
                self.add({"extended": text, "types": types, "formats": [], "values": [None] * len(types), "results": []})
            if self.waiting:
                self.waiting[0]["fails"] = fields[b"C"].decode()
        elif kind == b"Z":
            self.waiting.clear()
        elif kind in (b"C", b"I", b"s") and self.waiting and "extended" in self.waiting[0]:
            self.waiting.pop(0)


async def questions(reader, writer, see):
    """Passes on what the client sends, and shows its messages; what begins a connection has no kind."""
    have, has_begun = b"", False
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
        have += data
        while len(have) >= (5 if has_begun else 8):
            length = struct.unpack_from("!i", have, 1)[0] + 1 if has_begun else struct.unpack_from("!i", have)[0]
            if len(have) < length:
                break
            if has_begun:
                see(have[:1], have[5:length])
            else:
                has_begun = struct.unpack_from("!i", have, 4)[0] not in ENCRYPTION
            have = have[length:]
    writer.close()


async def answers(reader, writer, see):
    """Passes on what the server sends, and shows its messages; what it says of encryption is one letter."""
    have = b""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
        have += data
        if have == b"N":
            have = b""
        while len(have) >= 5:
            length = struct.unpack_from("!i", have, 1)[0] + 1
            if len(have) < length:
                break
            see(have[:1], have[5:length])
            have = have[length:]
    writer.close()


def flight_of(port):
    """The number of the table flight, asked without a library."""
    start = b"\0\3\0\0user\0default\0\0"
    query = b"SELECT oid FROM pg_class WHERE relname = 'flight'\0"
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(struct.pack("!i", len(start) + 4) + start + b"Q" + struct.pack("!i", len(query) + 4) + query)
        server.settimeout(2)
        got = b""
        while b"SELECT" not in got:
            got += server.recv(65536)
        return re.search(rb"D.{6}.{4}(\d+)C", got, re.S).group(1).decode()


async def main():
    listen, port, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    lines, flight = [], flight_of(port)

    async def connected(reader, writer):
        recorder = Recorder(lines, flight)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            questions(reader, to_server, recorder.asked),
            answers(from_server, writer, recorder.answered),
            return_exceptions=True,
        )
        with open(path, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    async with await asyncio.start_server(connected, "127.0.0.1", listen) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

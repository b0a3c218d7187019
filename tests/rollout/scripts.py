"""Scripts of servers that wait for the test, or keep their connections open."""

from __future__ import annotations

import contextlib
import json
import socket
import threading

from tests.wire.engines import CHAT, VLLM
from tests.wire.replies import _STREAM, _head, events, json_reply, stream
from tests.wire.server import Pause, Reset

TEXT = ("POST", "/v1/completions")


def routes(script=None):
    """Routes of a server whose chat replies follow a script; well-behaved without one."""
    found = VLLM.routes()
    if script is not None:
        found[CHAT] = script
    return found


def replying(text, **changes):
    """A server that can be told from another by its words."""

    def script(request):
        choice = {"index": 0, "finish_reason": "stop"}
        if request.json.get("stream"):
            chunks = [
                {"id": "1", "choices": [{**choice, "delta": {"content": text}}], **changes},
                {"id": "1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
            ]
            return stream(events(chunks))
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        return json_reply({"choices": [{**choice, "message": message}], "usage": usage, **changes})

    return script


def gated(pieces, gate: threading.Event, before=1):
    """A stream that sends some pieces, and the others once the gate is open."""

    def script(_request):
        yield _head(200, _STREAM)
        for place, piece in enumerate(pieces):
            while place >= before and not gate.is_set():
                yield Pause(0.005)
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        yield b"0\r\n\r\n"

    return script


def held(gate: threading.Event, script):
    """Nothing at all until the gate is open, but a connection that notices who leaves."""

    def waiting(_request):
        while not gate.is_set():
            yield Pause(0.005)
        yield from script

    return waiting


def broken_off(pieces, seen: threading.Event, end):
    """A stream that breaks off once the client has seen of it what the test waits for.

    A break that comes before the router has read what was sent takes that along.

    Args:
        pieces: of its body.
        seen: set by the test.
        end: "cut" to close the connection, "reset" to break it.
    """

    def script(_request):
        yield _head(200, _STREAM)
        for piece in pieces:
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        while not seen.is_set():
            yield Pause(0.005)
        if end == "reset":
            yield Reset()

    return script


class KeptOpen:
    """A server that keeps connections, and can close those that nobody uses.

    Attributes:
        accepted: connections.
        answered: requests.
    """

    def __init__(self) -> None:
        self.accepted = self.answered = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listening.close()
        self.close_idle()

    def close_idle(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)  # `close` waits for whoever reads from it
            each.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        body = json.dumps(VLLM.body()).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        try:
            with connection.makefile("rb") as reader:
                while self._read(reader):
                    self.answered += 1
                    connection.sendall(head.encode() + b"\r\n\r\n" + body)
        except (OSError, ValueError):
            return

    @staticmethod
    def _read(reader) -> bool:
        length = 0
        while (line := reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if line == b"":
            return False
        reader.read(length)
        return True


def reply(body: bytes, kind: str, status: int):
    """A reply with any status."""
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return (head.encode() + b"Connection: close\r\n\r\n", body)

"""A small OpenAI-compatible server that does what the request's `behaviour` says.

In a thread of the test, or as a process of its own that can be killed:
`python -m tests.workload.load.fake_server` prints its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any

FAULTS_BEFORE = {
    "429": (429, "Too Many Requests"),
    "503": (503, "Service Unavailable"),
    "400": (400, "Bad Request"),
    "302": (302, "Found"),
}


@dataclass
class FakeServer:
    """Serves until it is closed.

    Attributes:
        models: names it lists.
        bodies: of all requests, in the order they came.
        headers: of all requests.
        closed_early: streams that the client closed.
        connections: opened so far.
        hangs_up: whether it closes the connection after a stream, without a word of it.
        fault_of: fault by place of the request, for those that the request does not name.
        closes_when_asked_again: closes a connection, without a word, when a second request comes.
    """

    models: list[str] = field(default_factory=lambda: ["toy"])
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    closed_early: int = 0
    connections: int = 0
    hangs_up: bool = False
    fault_of: dict[int, str] = field(default_factory=dict)
    closes_when_asked_again: bool = False
    url: str = ""

    async def start(self, port: int = 0) -> asyncio.Server:
        self._one_at_a_time = asyncio.Lock()
        server = await asyncio.start_server(self._connection, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _connection(self, reader, writer) -> None:
        self.connections += 1
        asked = 0
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if ": " in line)
                headers = {name.lower(): value for name, value in headers.items()}
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                asked += 1
                if asked > 1 and self.closes_when_asked_again:
                    break
                if not await self._answer(first.split()[1], headers, content, writer):
                    break
        writer.close()

    async def _answer(self, path, headers, content, writer) -> bool:
        if path == "/v1/models":
            listed = {"data": [{"id": name, "object": "model"} for name in self.models]}
            await _whole(writer, 200, "OK", listed)
            return True
        if not path.endswith("completions"):
            await _whole(writer, 404, "Not Found", {"detail": "Not Found"})
            return True
        body = json.loads(content)
        place = len(self.bodies)
        self.bodies.append(body)
        self.headers.append(headers)
        behaviour = body.get("behaviour", {})
        fault = behaviour.get("fault") or self.fault_of.get(place)
        try:
            return await self._reply(path, body, behaviour, fault, writer)
        except ConnectionError:
            self.closed_early += 1
            raise

    async def _reply(self, path, body, behaviour, fault, writer) -> bool:
        if fault in FAULTS_BEFORE:
            status, words = FAULTS_BEFORE[fault]
            error = {"error": {"message": f"as asked: {fault}", "type": "test", "code": status}}
            await _whole(writer, status, words, error, {"Retry-After": "7"})
            return True
        if fault == "json":
            await _whole(writer, 200, "OK", {"choices": [{"text": "not streamed"}]})
            return True
        if fault == "reset":
            writer.transport.abort()
            return False
        async with contextlib.AsyncExitStack() as stack:
            if behaviour.get("service_s"):  # one request at a time, the others queue
                await stack.enter_async_context(self._one_at_a_time)
                await asyncio.sleep(behaviour["service_s"])
            await self._stream(path, body, behaviour, fault, writer)
        return fault is None and not self.hangs_up

    async def _stream(self, path, body, behaviour, fault, writer) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chat = "chat" in path
        chunks, each = behaviour.get("chunks", 4), behaviour.get("tokens_per_chunk", 1)
        at = behaviour.get("at", 2)
        if chat:
            await _event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
        while len(self.bodies) < behaviour.get("after_requests", 0):
            await asyncio.sleep(0.001)
        await asyncio.sleep(behaviour.get("first_s", 0.0))
        for number in range(0 if fault == "empty" else chunks):
            if number:
                await asyncio.sleep(behaviour.get("gap_s", 0.0))
            if number == at and fault is not None and await self._fail(fault, behaviour, writer):
                return
            text = behaviour.get("texts", {}).get(str(number), behaviour.get("text", "x " * each))
            text = json.loads(f'"{text}"')  # so that a request can ask for half a character
            piece = {"content": text} if chat else text
            choice = {"index": 0, "delta" if chat else "text": piece}
            if body.get("return_token_ids"):
                choice["token_ids"] = [behaviour.get("token_id", 7)] * each
            event: dict[str, Any] = {"choices": [choice]}
            if behaviour.get("count_along"):
                event["usage"] = {"completion_tokens": each * (number + 1)}
            await _event(writer, event)
        if fault != "empty":
            finish = {"index": 0, "delta" if chat else "text": {} if chat else ""}
            reason = behaviour.get("finish_reason", "length")
            await _event(writer, {"choices": [finish | {"finish_reason": reason}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 11, "completion_tokens": chunks * each}
            told = {"choices": [], "usage": usage} | behaviour.get("says", {})
            await _event(writer, told)
        if fault == "cut-event":
            await _raw(writer, b'data: {"choices": [')
        elif fault != "no-done":
            await _raw(writer, b"data: [DONE]\n\n")
        if fault == "linger":
            await asyncio.sleep(3600)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _fail(self, fault, behaviour, writer) -> bool:
        """True when the stream is over."""
        if fault == "error-event":
            message = json.loads(f'"{behaviour.get("message", "out of memory")}"')
            await _event(writer, {"error": {"message": message, "type": "server", "code": 500}})
            await _raw(writer, b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif fault == "malformed":
            await _raw(writer, b"data: {not json\n\n")
        elif fault == "drop":
            writer.transport.abort()
        elif fault == "stall":
            await asyncio.sleep(3600)
        else:
            return False
        return True


async def _whole(writer, status, words, document, more=None) -> None:
    content = json.dumps(document).encode()
    lines = {
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **(more or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    writer.write(f"HTTP/1.1 {status} {words}\r\n{head}\r\n".encode() + content)
    await writer.drain()


async def _event(writer, document) -> None:
    await _raw(writer, b"data: " + json.dumps(document).encode() + b"\n\n")


async def _raw(writer, content) -> None:
    if writer.transport.is_closing():
        raise ConnectionResetError
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
    await writer.drain()


class Running:
    """A fake server in a thread of its own."""

    def __init__(self) -> None:
        self.fake = FakeServer()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()

        def work() -> None:
            asyncio.set_event_loop(self._loop)
            self._server = self._loop.run_until_complete(self.fake.start())
            ready.set()
            self._loop.run_forever()

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()


async def _main() -> None:
    fake = FakeServer()
    server = await fake.start()
    print(fake.url, flush=True)  # noqa: T201 - how the test learns the port
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())

"""A server whose speed is known: a step of n requests drafting k tokens costs what it is told.

`python -m tests.workload.sweep.cost_server --port P --k K [--fault F]`. In every step each running
request gets 1 + k * ACCEPTANCE tokens, so replies of one length take a known number of steps; a
step takes BASE_S * (1 + DRAFT * k) * max(1, n * (k + 1) / WIDTH) seconds. Drafting pays while the
batch is narrow and stops to pay when n * (k + 1) is beyond WIDTH.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

BASE_S, DRAFT, WIDTH, ACCEPTANCE = 0.004, 0.05, 8.0, 0.75


def step_s(n: int, k: int) -> float:
    return BASE_S * (1 + DRAFT * k) * max(1.0, n * (k + 1) / WIDTH)


class CostServer:
    def __init__(self, k: int, fault: str | None, scale: float) -> None:
        self.k, self.fault, self.scale = k, fault, scale
        self.running = 0
        self.answered = 0

    async def connection(self, reader, writer) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
                content = await reader.readexactly(int(fields.get("content-length", 0)))
                await self.answer(first.split()[1], content, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async def answer(self, path, content, writer) -> None:
        documents = {
            "/health": {"status": "ok"},
            "/v1/models": {"data": [{"id": "cost", "object": "model"}]},
            "/version": {"version": "9", "engine": "specdecode"},
            "/server_info": {"engine": "specdecode", "num_speculative_tokens": self.k},
        }
        if self.fault == "lossy":
            documents["/server_info"]["typical_acceptance"] = 0.3
        if path in documents:
            await whole(writer, "200 OK", documents[path])
        elif path.endswith("completions"):
            await self.reply(json.loads(content), writer)
        else:
            await whole(writer, "404 Not Found", {"detail": "Not Found"})

    async def reply(self, body, writer) -> None:
        self.answered += 1
        if self.fault == "dies" and self.answered > 6:
            print("the accelerator fell off the bus", flush=True)  # noqa: T201 - the log of a server
            os._exit(3)
        if self.fault == "refuses" and self.answered % 5 == 0:
            await whole(writer, "500 Internal Server Error", {"error": {"message": "no"}})
            return
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        tokens, sent, steps = body["max_tokens"], 0, 0
        self.running += 1
        try:
            while sent < tokens:
                await asyncio.sleep(self.scale * step_s(self.running, self.k))
                steps += 1
                now = min(tokens, round((1 + self.k * ACCEPTANCE) * steps)) - sent
                sent += now
                await event(writer, {"choices": [{"index": 0, "delta": {"content": "x " * now}}]})
        finally:
            self.running -= 1
        await event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        usage = {"prompt_tokens": 5, "completion_tokens": tokens}
        accepted = sent - steps
        speculation = {
            "num_spec_steps": steps,
            "num_draft_tokens": steps * self.k,
            "num_accepted_draft_tokens": accepted,
        }
        told = {"speculative_decoding": speculation if self.k else None}
        await event(writer, {"choices": [], "usage": usage, "metrics": told})
        await raw(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def whole(writer, status, document) -> None:
    content = json.dumps(document).encode()
    head = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{head}".encode() + content)
    await writer.drain()


async def event(writer, document) -> None:
    await raw(writer, b"data: " + json.dumps(document).encode() + b"\n\n")


async def raw(writer, content) -> None:
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
    await writer.drain()


async def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--port", type=int, required=True)
    asked.add_argument("--k", type=int, default=0)
    asked.add_argument("--fault")
    asked.add_argument("--scale", type=float, default=1.0)
    given = asked.parse_args()
    if given.fault == "start":
        print("there is no such model", flush=True)  # noqa: T201
        sys.exit(4)
    server = CostServer(given.k, given.fault, given.scale)
    listening = await asyncio.start_server(server.connection, "127.0.0.1", given.port)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

"""One HTTP request and its answer: prompts in, deltas out, and a client that may go at any time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Self

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import specdecode
from specdecode.decoding import Engine, GenerationResult
from specdecode.decoding.intake import make_requests
from specdecode.decoding.request import Request
from specdecode.errors import UserError
from specdecode.serving.answers import Answer
from specdecode.serving.asks import Ask
from specdecode.serving.connection import disconnected, unless_gone
from specdecode.serving.errors import ApiError
from specdecode.serving.replies import Delta, Drafting, Reply
from specdecode.serving.scheduler import Scheduler
from specdecode.serving.settings import ServerSettings
from specdecode.serving.text import TextStream

log = logging.getLogger("specdecode.serving")


@dataclass
class Exchange:
    """A request whose replies are queued.

    Attributes:
        answer: shapes the documents.
        replies: one for each choice.
        deltas: (choice, delta) as they come.
        scheduler: decodes them.
        stall_s: seconds a client may leave data unread.
        workers: threads for what would keep other streams waiting.
        first: the first delta, if it was read ahead.
    """

    answer: Answer
    replies: list[Reply]
    deltas: asyncio.Queue[tuple[int, Delta]]
    scheduler: Scheduler
    stall_s: float
    workers: Executor
    results: dict[int, GenerationResult] = field(default_factory=dict)
    drafting: dict[int, Drafting] = field(default_factory=dict)
    first: tuple[int, Delta] | None = None

    @classmethod
    async def open(
        cls,
        http: HttpRequest,
        body: bytes,
        engine: Engine,
        *,
        scheduler: Scheduler,
        settings: ServerSettings,
        workers: Executor,
        is_chat: bool,
        category: str,
    ) -> Self:
        """Check a request and queue its replies.

        Raises:
            ApiError: it is wrong, nobody has room for it, or the client went away.
        """
        arrived = time.perf_counter()
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(
            workers, functools.partial(_read, body, engine, settings, is_chat=is_chat)
        )
        ask, requests = await unless_gone(http.receive, reading)
        deltas: asyncio.Queue[tuple[int, Delta]] = asyncio.Queue()
        replies = [
            Reply(request, _delivery(deltas, index), category, arrived)
            for index, request in enumerate(requests)
        ]
        scheduler.submit(replies)
        answer = Answer(
            ask=ask,
            id=("chatcmpl-" if is_chat else "cmpl-") + secrets.token_hex(12),
            model=settings.model_name,
            tokenizer=engine.target.tokenizer,
            num_speculative_tokens=engine.num_speculative_tokens,
            fingerprint=f"specdecode-{specdecode.__version__}",
        )
        return cls(answer, replies, deltas, scheduler, settings.stall_s, workers)

    async def respond(self, http: HttpRequest) -> Response:
        """The whole answer, or one that streams.

        Raises:
            ApiError: a reply could not be finished.
        """
        try:
            if self.answer.ask.stream:
                # What goes wrong before the first token can still be told by the status.
                await unless_gone(http.receive, asyncio.create_task(self._begin()))
                return _EventStream(self)
            await unless_gone(http.receive, asyncio.create_task(self._collect()))
        except BaseException:
            self.cancel()
            raise
        return await asyncio.get_running_loop().run_in_executor(self.workers, self._whole)

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The stream, event by event."""
        ask, answer = self.answer.ask, self.answer
        texts = [TextStream(answer.tokenizer, ask.params.stop) for _ in self.replies]
        begun: set[int] = set()
        offsets = [0] * len(self.replies)
        while len(self.results) < len(self.replies):
            index, delta = self.first or await self.deltas.get()
            self.first = None
            self._note(index, delta)
            if delta.error is not None:
                yield _event(delta.error.body())
                self.cancel()
                break
            prompt = None if index in begun else self.replies[index].request.prompt
            if ask.is_chat and prompt is not None:
                yield _event(answer.first(index, prompt))
            begun.add(index)
            result = delta.result
            text = texts[index].add(delta.token_ids) if result is None else ""
            if result is not None:
                text = texts[index].finish(result.text)
            if text or result or ask.logprobs is not None or ask.return_token_ids:
                piece = answer.piece(
                    index,
                    text,
                    tokens=delta.token_ids,
                    logprobs=delta.logprobs,
                    finish_reason=None if result is None else result.finish_reason,
                    offset=offsets[index],
                    prompt=None if ask.is_chat else prompt,
                )
                offsets[index] += answer.length(delta.logprobs)
                yield _event(piece)
        else:
            if ask.include_usage:
                results, drafting = self._in_order()
                yield _event(answer.last(results, drafting, self._queue_s()))
        yield b"data: [DONE]\n\n"

    def _whole(self) -> Response:
        results, drafting = self._in_order()
        return JSONResponse(self.answer.whole(results, drafting, self._queue_s()))

    async def _begin(self) -> None:
        self.first = await self.deltas.get()
        if self.first[1].error is not None:
            raise self.first[1].error

    async def _collect(self) -> None:
        while len(self.results) < len(self.replies):
            index, delta = await self.deltas.get()
            self._note(index, delta)
            if delta.error is not None:
                raise delta.error

    def _note(self, index: int, delta: Delta) -> None:
        if delta.result is not None and delta.drafting is not None:
            self.results[index], self.drafting[index] = delta.result, delta.drafting

    def _in_order(self) -> tuple[list[GenerationResult], list[Drafting]]:
        count = range(len(self.replies))
        return [self.results[i] for i in count], [self.drafting[i] for i in count]

    def _queue_s(self) -> float:
        first = self.replies[0]
        return 0.0 if first.joined is None else first.joined - first.arrived

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.scheduler.cancel(self.replies)


class _EventStream(Response):
    """Server-sent events that stop, and let the replies go, as soon as nobody reads them."""

    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writing = asyncio.create_task(self._write(send))
        gone = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait({writing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            writing.cancel()
            gone.cancel()
            self._exchange.cancel()  # means nothing to replies that have ended
            await asyncio.wait({writing, gone})

    async def _write(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async with contextlib.aclosing(self._exchange.events()) as events:
                async for event in events:
                    await self._send(send, event, more=True)
            await self._send(send, b"", more=False)
        except TimeoutError:  # the client does not read; what is left would fill the memory
            log.warning("a client left %g s of stream unread; it is let go", self._exchange.stall_s)
        except OSError:
            log.debug("a client went away while it was written to")

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": body, "more_body": more}
        # Not wait_for: it can swallow a cancellation, and then the task waits for ever.
        async with asyncio.timeout(self._exchange.stall_s):
            await send(message)


def _read(
    body: bytes, engine: Engine, settings: ServerSettings, *, is_chat: bool
) -> tuple[Ask, list[Request]]:
    """What is asked for, and its replies; a worker's job, because tokenising takes its time.

    Raises:
        ApiError: it is wrong.
    """
    ask = Ask.read(body, settings, is_chat=is_chat)
    try:
        requests = make_requests(engine.target, ask.prompts, ask.params)
    except UserError as error:
        raise ApiError(400, str(error)) from error
    longest = max(len(r.prompt) for r in requests)
    if settings.max_prompt_tokens is not None and longest > settings.max_prompt_tokens:
        raise ApiError(
            400,
            f"a prompt has {longest} tokens; at most {settings.max_prompt_tokens}",
            param="messages" if is_chat else "prompt",
        )
    return ask, requests


def _delivery(deltas: asyncio.Queue[tuple[int, Delta]], index: int) -> Callable[[Delta], None]:
    """Hands deltas over from the engine's thread."""
    loop = asyncio.get_running_loop()

    def deliver(delta: Delta) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(deltas.put_nowait, (index, delta))

    return deliver


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"

"""Clients that go, stall, send nonsense or come in crowds, and what they were promised.

A client is a function that plays its part once and returns nothing, or raises `Unmet` if the
server did not do what it promises.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipelines.soak.raw_http import (
    JSON_HEADERS,
    connected,
    head,
    header_of,
    post,
    post_chunked,
    read_to_end,
    read_until,
    reset,
    status_of,
)
from specdecode.workload.sse import SseParser

_WORDS = ("the", "cat", "sat", "on", "a", "red", "mat", "and", "ran", "blue", "dog", "was", "not")
_CLOSE = {**JSON_HEADERS, "Connection": "close"}
_WAIT_S = 120.0
_NONSENSE = (
    b"",
    b"{",
    b"[1]",
    b"\xff\xfe\x00",
    b'{"prompt": 1}',
    b'{"prompt": "\\ud800"}',
    b"[" * 999,
)


class Unmet(Exception):  # noqa: N818 - becomes a line of the report
    """The server did not answer as it promises."""


class Misbehaviour:
    """A stream of ill-behaved clients, in threads, from `__enter__` to `__exit__`.

    Args:
        url: base address of the server.
        model: name that requests carry.
        crowd: clients of a burst; more than the server has room for.
        oversized: bytes of a body beyond the server's limit.
        max_tokens: length of the replies they ask for.
        workers: how many misbehave at a time, bursts apart.
        pause_s: mean time between two of a worker.
        burst_every_s: time between bursts.
        seed: of their order.

    Attributes:
        played: how often each has played its part; counted anew from `__enter__` on.
        unmet: what the server did wrong, by client.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        crowd: int,
        oversized: int,
        max_tokens: int = 24,
        workers: int = 3,
        pause_s: float = 0.3,
        burst_every_s: float = 15.0,
        seed: int = 0,
    ) -> None:
        self._url, self._model, self._crowd, self._oversized = url, model, crowd, oversized
        self._max_tokens, self._pause_s, self._burst_every_s = max_tokens, pause_s, burst_every_s
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.played: Counter[str] = Counter()
        self.unmet: Counter[str] = Counter()
        self._threads = [
            threading.Thread(target=self._go_on, args=(random.Random(f"{seed}-{i}"),), daemon=True)  # noqa: S311 - no secret
            for i in range(workers)
        ]
        self._threads.append(
            threading.Thread(target=self._bursts, args=(random.Random(seed),), daemon=True)  # noqa: S311
        )

    def __enter__(self) -> Misbehaviour:
        self.played.clear()  # who misbehaved before the load says nothing about the load
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * _WAIT_S)

    def once_each(self) -> None:
        """Every client plays its part once, so that what the server makes for it is there."""
        chance = random.Random(0)  # noqa: S311
        for client in (*CLIENTS, burst):
            self.play(client, chance)

    def play(self, client: Client, chance: random.Random) -> None:
        """One client plays its part, and it is noted how."""
        name, found = client.__name__, None
        try:
            client(self, chance)
        except Unmet as error:
            found = str(error)
        except Exception as error:  # noqa: BLE001 - a time-out, or what would end this thread unseen
            found = f"{type(error).__name__}: {error}"
        with self._lock:
            self.played[name] += 1
            if found is not None:
                self.unmet[f"{name}: {found}"] += 1

    def ask(self, chance: random.Random, **more: Any) -> dict[str, Any]:
        """A request like any other, with a prompt of its own length."""
        words = " ".join(chance.choices(_WORDS, k=chance.randint(1, 60)))
        return {
            "model": self._model,
            "prompt": words,
            "max_tokens": chance.randint(2, self._max_tokens),
            "seed": chance.randrange(2**31),
            "ignore_eos": True,
            **more,
        }

    def exchange(self, request: bytes) -> bytes:
        """Send it whole and read the answer to its end."""
        with connected(self._url, _WAIT_S) as connection:
            with contextlib.suppress(ConnectionError):  # refused before it was sent whole
                connection.sendall(request)
            return read_to_end(connection)

    @property
    def url(self) -> str:
        """Base address of the server."""
        return self._url

    @property
    def oversized(self) -> int:
        """Bytes of a body beyond the server's limit."""
        return self._oversized

    @property
    def crowd(self) -> int:
        """Clients of a burst."""
        return self._crowd

    def wait(self, seconds: float) -> None:
        """Wait, unless it is over before."""
        self._stop.wait(seconds)

    def _go_on(self, chance: random.Random) -> None:
        coming: list[Client] = []
        while not self._stop.is_set():
            coming = coming or chance.sample(CLIENTS, len(CLIENTS))  # all in turn, none left out
            self.play(coming.pop(), chance)
            self.wait(chance.expovariate(1 / self._pause_s))

    def _bursts(self, chance: random.Random) -> None:
        while not self._stop.is_set():
            self.play(burst, chance)
            self.wait(self._burst_every_s)


Client = Callable[[Misbehaviour, random.Random], None]


def goes_before_the_first_byte(world: Misbehaviour, chance: random.Random) -> None:
    """Asks, and is gone."""
    connection = connected(world.url, _WAIT_S)
    connection.sendall(post(world.ask(chance, stream=chance.random() < 0.5)))
    world.wait(chance.random() * 0.2)
    _leave(connection, chance)


def goes_in_mid_stream(world: Misbehaviour, chance: random.Random) -> None:
    """Reads the first events of a stream, and is gone."""
    connection = connected(world.url, _WAIT_S)
    connection.sendall(post(world.ask(chance, stream=True, n=chance.randint(1, 2))))
    read_until(connection, b"data: ", 64)
    _leave(connection, chance)


def goes_before_done(world: Misbehaviour, chance: random.Random) -> None:
    """Is gone once it has read why the reply ended."""
    connection = connected(world.url, _WAIT_S)
    connection.sendall(post(world.ask(chance, stream=True)))
    read_until(connection, b'"finish_reason": "', 16)
    _leave(connection, chance)


def reads_slowly(world: Misbehaviour, chance: random.Random) -> None:
    """Reads a stream a few bytes at a time, and must get all of it."""
    asked = world.ask(chance, stream=True, logprobs=5)
    with connected(world.url, _WAIT_S, receive_buffer=4096) as connection:
        connection.sendall(post(asked))
        seen = b""
        while b"data: [DONE]" not in seen:
            piece = connection.recv(512)
            if not piece:
                break
            seen += piece
            time.sleep(0.005)
    if status_of(seen) == 429:
        return
    if status_of(seen) != 200:
        raise Unmet(f"a stream that was read slowly had status {status_of(seen)}")
    if b"data: [DONE]" not in seen:
        raise Unmet("a stream that was read slowly broke off")
    if (error := _error_in(seen)) is not None:
        raise Unmet(f"a stream that was read slowly ended with an error: {error}")


def stops_reading(world: Misbehaviour, chance: random.Random) -> None:
    """Never reads its stream, and goes after a while."""
    connection = connected(world.url, _WAIT_S, receive_buffer=1024)
    connection.sendall(post(world.ask(chance, stream=True, logprobs=20)))
    world.wait(2.0)
    _leave(connection, chance)


def sends_too_much(world: Misbehaviour, chance: random.Random) -> None:
    """A body beyond the limit, declared or in chunks."""
    if chance.random() < 0.5:
        declared = {**_CLOSE, "Content-Length": str(world.oversized)}
        _refused(world.exchange(head(declared)), 413)
    else:
        pieces = [b" " * 65536] * (world.oversized // 65536 + 1)
        # None: the end of the connection overtook the answer.
        _refused(world.exchange(post_chunked(pieces, headers=_CLOSE)), 413, None)


def sends_nonsense(world: Misbehaviour, chance: random.Random) -> None:
    """A body that is no request."""
    _refused(world.exchange(post(chance.choice(_NONSENSE), headers=_CLOSE)), 400)


def breaks_http(world: Misbehaviour, chance: random.Random) -> None:
    """Bytes that are no HTTP."""
    answer = world.exchange(bytes(chance.choices(range(128, 256), k=50)) + b"\r\n\r\n")
    if status_of(answer) != 400:
        raise Unmet(f"{status_of(answer)} where 400 was promised")


def begins_and_stalls(world: Misbehaviour, chance: random.Random) -> None:
    """Half a request, and then nothing."""
    whole = post(world.ask(chance))
    connection = connected(world.url, _WAIT_S)
    connection.sendall(whole[: chance.randrange(1, len(whole))])
    world.wait(2.0)
    _leave(connection, chance)


def burst(world: Misbehaviour, chance: random.Random) -> None:
    """More clients at once than there is room for: each is served or told when to return."""
    # Short replies: a queue that stays full would turn the whole load into 429s.
    asks = [post(world.ask(chance, max_tokens=2), headers=_CLOSE) for _ in range(world.crowd)]
    with ThreadPoolExecutor(world.crowd) as pool:
        answers = list(pool.map(world.exchange, asks))
    statuses = Counter(status_of(answer) for answer in answers)
    if set(statuses) - {200, 429}:
        raise Unmet(f"a crowd was answered with {_counted(statuses)}")
    for answer in answers:
        if status_of(answer) == 429:
            _refused(answer)
        if status_of(answer) == 200 and not _is_whole(answer):
            raise Unmet("a reply of a crowd is not whole")


CLIENTS: tuple[Client, ...] = (
    goes_before_the_first_byte,
    goes_in_mid_stream,
    goes_before_done,
    reads_slowly,
    stops_reading,
    sends_too_much,
    sends_nonsense,
    breaks_http,
    begins_and_stalls,
)


def _leave(connection: Any, chance: random.Random) -> None:
    if chance.random() < 0.5:
        reset(connection)
    else:
        connection.close()


def _refused(answer: bytes, *promised: int | None) -> None:
    """It is refused with one of these; a full server says when to return, and reads no body."""
    status = status_of(answer)
    if status == 429:
        if not (header_of(answer, "retry-after") or "").isdecimal():
            raise Unmet("429 without Retry-After")
    elif status not in promised:
        raise Unmet(f"{status} where {promised[0]} was promised")


def _error_in(stream: bytes) -> str | None:
    """The error event of a stream. Not any "error" in it: that may be a token of the reply."""
    for event in SseParser().feed(stream.partition(b"\r\n\r\n")[2]):
        if not event.done and (error := json.loads(event.data).get("error")) is not None:
            return str(error)
    return None


def _is_whole(answer: bytes) -> bool:
    with contextlib.suppress(ValueError, KeyError, IndexError):
        document = json.loads(answer.partition(b"\r\n\r\n")[2])
        return document["choices"][0]["finish_reason"] in ("length", "stop")
    return False


def _counted(statuses: Mapping[int | None, int]) -> str:
    return ", ".join(f"{status}: {number}" for status, number in statuses.items())

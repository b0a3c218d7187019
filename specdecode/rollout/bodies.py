"""Bodies of requests and replies, kept only if someone asked for it: a share of them, for a while.

Which requests are kept is drawn by a hash of their `prompt_id`, so both halves of a pair are, or
neither. What looks like personal data is replaced before anything is written. That finds addresses
and numbers and not everything: names and stories stay. So files are for their owner only, and the
oldest go when they are too old or too many.

Writing is a thread's work. What it cannot keep up with is left out and counted; a body is a help to
people and no evidence.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from specdecode.errors import ConfigError
from specdecode.rollout.redaction import redacted, redacted_json
from specdecode.workload.load.payload import mended
from specdecode.workload.split import seeded_hash

log = logging.getLogger("specdecode.rollout")

_NAME = re.compile(r"bodies-([0-9]{8})\.jsonl")
_DAY_S: Final = 86_400.0
_PARTS: Final = 16
_NOT_KEPT: Final = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key"})
"""Fields of a request that say who asked."""


@dataclass
class BodyCounts:
    """What became of the bodies that were drawn.

    Attributes:
        kept: written.
        left_out: the thread could not keep up, or one was too large.
        failed: could not be written.
        removed: files that were too old, or too many.
    """

    kept: int = 0
    left_out: int = 0
    failed: int = 0
    removed: int = 0

    def to_json(self) -> dict[str, Any]:
        """For health."""
        return asdict(self)


class _Body(NamedTuple):
    request_id: str
    request: bytes
    reply: str


class Bodies:
    """Keeps a share of bodies in a folder.

    Args:
        folder: made, for its owner only, if it is not there.
        share: of requests, in [0, 1].
        days: after which a file goes.
        most_bytes: of all files together; the oldest go first.
        most_body: bytes of request and of reply above which a body is left out.
        waiting: bodies that may wait for the thread.

    Raises:
        ConfigError: a number is out of range.
        OSError: the folder cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        share: float,
        *,
        days: float = 7.0,
        most_bytes: int = 256 << 20,
        most_body: int = 1 << 20,
        waiting: int = 256,
    ) -> None:
        if not 0 <= share <= 1:
            raise ConfigError(f"the share of bodies to keep must be from 0 to 1, not {share:g}")
        if not days > 0 or most_bytes < 1:
            raise ConfigError("bodies need days and bytes above 0; share 0 keeps none")
        self.counts = BodyCounts()
        self._folder, self._share, self._days = Path(folder), share, days
        self._most_bytes, self._most_body = most_bytes, most_body
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._handle, self._path, self._size = -1, self._folder, 0
        self._queue: queue.Queue[_Body | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._work, name="bodies", daemon=True)
        self._thread.start()

    def wants(self, prompt_id: str) -> bool:
        """Whether the bodies of a request are to be kept; the same for both arms."""
        return seeded_hash("bodies", prompt_id) / 2**256 < self._share

    def keep(self, request_id: str, request: bytes, reply: str) -> None:
        """Hand over a request and the text of its reply. Never waits and never raises.

        Args:
            request_id: of the row.
            request: the body as it came.
            reply: the text, as far as there is one.
        """
        if len(request) > self._most_body or len(reply) > self._most_body:
            self.counts.left_out += 1
            return
        try:
            self._queue.put_nowait(_Body(request_id, bytes(request), reply))
        except queue.Full:
            self.counts.left_out += 1

    def close(self) -> None:
        """Write what waits, and end the thread."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What follows runs in the thread.

    def _work(self) -> None:
        self._safely(self._retire)
        while True:
            try:
                body = self._queue.get(timeout=_DAY_S / 24)
            except queue.Empty:
                self._safely(self._retire)  # files grow old though nobody asks anything
                continue
            if body is None:
                break
            self._safely(self._write, body)
        if self._handle >= 0:
            os.close(self._handle)

    def _safely(self, do: Any, *arguments: Any) -> None:
        try:
            do(*arguments)
        except Exception:
            if not self.counts.failed:  # a disk that is full fails each time: once is enough
                log.exception("%s: a body cannot be kept", self._folder)
            self.counts.failed += 1

    def _write(self, body: _Body) -> None:
        line = {
            "at": datetime.now(UTC).isoformat(),
            "request_id": body.request_id,
            "request": _without_the_user(body.request),
            "reply": redacted(mended(body.reply)),
        }
        data = json.dumps(line).encode("ascii") + b"\n"
        if self._handle < 0 or self._size + len(data) > max(1, self._most_bytes // _PARTS):
            self._next_file()
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._handle, data[done:], self._size + done)
        finally:
            if done < len(data):  # no half a line stays behind
                with contextlib.suppress(OSError):
                    os.ftruncate(self._handle, self._size)
        self._size += done
        self.counts.kept += 1

    def _next_file(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        self._retire()
        last = max((int(m[1]) for p in self._files() if (m := _NAME.fullmatch(p.name))), default=0)
        self._path, self._size = self._folder / f"bodies-{last + 1:08d}.jsonl", 0
        self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def _retire(self) -> None:
        """Remove files that are too old, and the oldest of too many."""
        oldest_first = self._files()
        total = sum(path.stat().st_size for path in oldest_first)
        for path in oldest_first:
            state = path.stat()
            # Room for one more file is left, so that all together never exceed the limit.
            too_many = total > self._most_bytes - self._most_bytes // _PARTS
            if too_many or time.time() - state.st_mtime > self._days * _DAY_S:
                if path == self._path and self._handle >= 0:
                    os.close(self._handle)
                    self._handle = -1
                path.unlink()
                total -= state.st_size
                self.counts.removed += 1

    def _files(self) -> list[Path]:
        return sorted(p for p in self._folder.iterdir() if _NAME.fullmatch(p.name))


def _without_the_user(body: bytes) -> Any:
    """A request without those who asked it, as far as that can be told."""
    try:
        found: Mapping[str, Any] = json.loads(body)
        kept = {name: value for name, value in found.items() if name not in _NOT_KEPT}
        return redacted_json(kept)
    except (ValueError, AttributeError, RecursionError):
        return redacted(body.decode("utf-8", errors="replace"))

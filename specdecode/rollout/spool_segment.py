"""One file of a spool while it is written to."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from specdecode.durable import SHARED_MODE, sync_folder, written_whole
from specdecode.rollout.spool_lines import SCHEMA, Line, encoded, name_of


class SegmentGoneError(OSError):
    """The file was removed or replaced while it was written to: what went into it is lost."""


class Segment:
    """The segment that is written to. One thread writes, one syncs and closes.

    Args:
        folder: of the spool.
        number: of the segment; no file may have it yet.
        hidden: whether readers are not to find it before `show`.

    Attributes:
        rows: lines beside the first, but those of requests that began in the segment before.
        born: monotonic seconds.

    Raises:
        OSError: the file cannot be made; nothing is left of it.
    """

    def __init__(self, folder: Path, number: int, *, hidden: bool = False) -> None:
        self.folder, self.number = folder, number
        self.path = folder / (("." if hidden else "") + name_of(number, closed=False))
        if hidden:
            self.path.unlink(missing_ok=True)  # a crash may have left one behind
        self._one = threading.Lock()  # of what was written and what is synced
        self._doubtful: list[Line] = []
        self.rows, self.born = 0, time.monotonic()
        self._size, self._digest = 0, hashlib.sha256()
        self._named = False
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, SHARED_MODE)
        try:
            self.write(encoded("segment", {"schema": SCHEMA, "number": number}), rows=0)
            self._head = self._size
            self._safe_size, self._safe_digest = self._size, self._digest.copy()
        except BaseException:
            os.close(self._handle)
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise

    def write(self, data: bytes, *, rows: int, lines: Sequence[Line] = ()) -> None:
        """Add whole lines; they survive the end of this process, but not yet a power cut.

        Args:
            data: the lines.
            rows: how many of them count.
            lines: that are in doubt until they are synced.

        Raises:
            OSError: they could not be written. The segment is as before, or, if not even that could
                be done, the next write begins where this one did.
        """
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._handle, memoryview(data)[done:], self._size + done)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)  # no half a line stays behind
            raise
        with self._one:
            self._size += len(data)
            self._digest.update(data)
            self._doubtful += lines
        self.rows += rows

    def sync(self) -> None:
        """On return all that was written before the call survives a power cut.

        Raises:
            SegmentGoneError: the file is no longer in its folder.
            OSError: the disk failed.
        """
        with self._one:
            size, digest, lines = self._size, self._digest.copy(), len(self._doubtful)
        os.fsync(self._handle)
        own = os.fstat(self._handle)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_ino, there.st_dev) != (own.st_ino, own.st_dev):
            raise SegmentGoneError(
                errno.ESTALE, "was removed or replaced while it was written to", str(self.path)
            )
        if not self._named:
            sync_folder(self.folder)
            self._named = True
        with self._one:
            self._safe_size, self._safe_digest = size, digest
            del self._doubtful[:lines]

    def show(self) -> None:
        """Let readers find a hidden segment, as a whole.

        Raises:
            OSError: the folder cannot be written.
        """
        shown = self.folder / name_of(self.number, closed=False)
        self.path.rename(shown)
        self.path, self._named = shown, False

    def give_up(self) -> None:
        """Let go of the file as it is; a second call is harmless."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with contextlib.suppress(OSError):
                os.close(handle)

    def discard(self) -> None:
        """Let go of it and remove it."""
        self.give_up()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def cut_back(self) -> list[Line]:
        """Close it with what is known to be on the disk, after a sync that failed.

        What came later may be there or not, now or after the next start. So it is cut off, and a
        copy kept beside it as far as it can be read. May be called again if it fails.

        Returns:
            The lines that were cut off, to be written elsewhere.

        Raises:
            OSError: not even that can be done.
        """
        if not self.path.exists() and (self.folder / name_of(self.number, closed=True)).exists():
            return list(self._doubtful)  # an earlier call came this far
        handle = os.open(self.path, os.O_RDWR)
        try:
            with contextlib.suppress(OSError):
                tail = os.pread(handle, self._size - self._safe_size, self._safe_size)
                aside = f"{self.path.stem}.{hashlib.sha256(tail).hexdigest()[:12]}.torn"
                self.path.with_name(aside).write_bytes(tail)
            # This touches the last page that is safe only in part, so that it is written anew.
            os.ftruncate(handle, self._safe_size)
            os.fsync(handle)
        finally:
            os.close(handle)
        close_file(self.path, self.number, self._safe_digest.hexdigest())
        return list(self._doubtful)

    @property
    def empty(self) -> bool:
        """Whether there is no line beside the first."""
        return self._size == self._head

    def close(self) -> None:
        """Make it a closed segment with a digest; one without a line beside the first is removed.

        Raises:
            OSError: as `sync`. The file keeps its name then, and is repaired at the next start.
        """
        try:
            self.sync()
            if not self.empty:
                close_file(self.path, self.number, self._digest.hexdigest())
            else:
                self.path.unlink()
        finally:
            self.give_up()


def close_file(path: Path, number: int, sha256: str) -> None:
    """Give a synced segment its final name, with its digest beside it.

    The digest comes first: there is never a closed segment without one.

    Raises:
        OSError: the folder cannot be written.
    """
    final = path.with_name(name_of(number, closed=True))
    with written_whole(digest_path(final)) as file:
        file.write(f"{sha256}  {final.name}\n".encode("ascii"))
    path.rename(final)
    sync_folder(path.parent)


def digest_path(segment: Path) -> Path:
    """Where the digest of a closed segment is."""
    return segment.with_name(segment.name + ".sha256")

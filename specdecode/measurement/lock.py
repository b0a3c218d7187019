"""What only one process may have at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from specdecode.errors import UserError


class FileLock:
    """A lock that is free again when its holder ends, however it ends; its empty file stays.

    Args:
        path: the lock's file, made when it is not there; its folder must be.
        taken: what another process does that has it, and what to do about that.

    Raises:
        UserError: another process has it; the message is `taken`.
        OSError: the file cannot be opened, or its file system has no locks.
    """

    def __init__(self, path: Path, taken: str) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            self.release()
            if isinstance(error, BlockingIOError):
                raise UserError(taken) from error
            raise

    @property
    def held(self) -> bool:
        """Whether it was not released yet."""
        return self._handle >= 0

    def release(self) -> None:
        """Let others have it; a second call is harmless."""
        if self.held:
            os.close(self._handle)  # and the lock with it
            self._handle = -1

"""Files that are there whole or not at all, and are never replaced."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from specdecode.measurement.records import sync_folder


def create_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a new file; on return it survives a power cut.

    The content is made safe under another name (opened with O_EXCL) and then linked: like O_EXCL on
    the final name this has exactly one winner, and a crash leaves no half-written file behind.

    Raises:
        FileExistsError: the file is there already; it is untouched.
        OSError: the folder cannot be written, or its file system has no hard links.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()  # of a process that died and had our number
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    finally:
        partial.unlink()
    sync_folder(path.parent)

"""Files that have one maker and are never replaced."""

from __future__ import annotations

from pathlib import Path

from specdecode.durable import SHARED_MODE, written_whole


def create_file(path: Path, content: bytes, *, mode: int = SHARED_MODE) -> None:
    """Write a new file; on return it survives a power cut.

    Raises:
        FileExistsError: the file is there already; it is untouched.
        OSError: the folder cannot be written, or its file system has no hard links.
    """
    with written_whole(path, mode=mode, replace=False) as file:
        file.write(content)

"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

SHARED_MODE = 0o644
"""Evidence is for everyone to read, whatever the umask of who wrote it."""


@contextmanager
def written_whole(
    path: Path, *, mode: int = SHARED_MODE, replace: bool = True
) -> Iterator[BinaryIO]:
    """A file to write into; it becomes `path` in one step at the end, and is safe on disk then.

    The content goes to a private file in the same folder first. When anything fails on the way,
    that file is removed and `path` is as it was. A process that is killed can leave it behind, but
    never a `path` that is half written.

    Args:
        path: the file to make; its folder must be there.
        mode: permissions of the file, exactly these.
        replace: whether it takes the place of a file that is there already. Otherwise exactly one
            of several who try is the maker, as with O_EXCL on the final name.

    Raises:
        FileExistsError: `replace` is off and the file is there already; or a folder, pipe or device
            has its name. It is untouched.
        OSError: the folder cannot be written, the disk is full, or `replace` is off and the file
            system has no hard links.
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "is a folder or device, and is not replaced", str(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if replace:
            partial.replace(path)
        else:
            os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new name, a rename or an unlink in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

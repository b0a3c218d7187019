"""Files that hold a secret: read only when nobody else could have read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from specdecode.errors import ConfigError

LARGEST_BYTES = 64 * 1024
"""Far more than any key takes; a wrong path must not fill the memory."""


def read_private(path: Path | str, *, made_by: str, instead: str, public: bool = False) -> bytes:
    """The content of a file that only its owner may read.

    Mode and size are those of the file that was opened, so a link counts as what it leads to, and
    nothing can be put in its place between the check and the reading. A pipe will do.

    Args:
        path: the file.
        made_by: command that makes such a file, for the message when it cannot be read.
        instead: what to do where the secret may be known to others, for the message.
        public: it is known to be no secret, so others may read the file.

    Raises:
        ConfigError: it cannot be read, is too large for a key, or others have any right to it and
            it is not `public`.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            open_to_others = bool(mode & 0o077) and not public
            content = b"" if open_to_others else file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror or error}); `{made_by}` makes one"
        ) from error
    if open_to_others:
        raise ConfigError(
            f"{path}: others may read this key (mode {mode:o}), so it is no secret: `chmod 600` "
            f"it, and {instead} if it may have been copied"
        )
    if len(content) > LARGEST_BYTES:
        raise ConfigError(
            f"{path}: holds more than {LARGEST_BYTES} bytes, which is no key; `{made_by}` makes one"
        )
    return content

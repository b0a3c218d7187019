"""Bytes of a reply as they were before a server compressed them."""

from __future__ import annotations

import zlib


class Decompressor:
    """Undoes gzip and deflate piece by piece.

    Args:
        coding: value of the header Content-Encoding.

    Attributes:
        blind: whether it cannot be undone here, so that the reply cannot be read.
    """

    def __init__(self, coding: str) -> None:
        self.blind = coding.strip() not in ("gzip", "x-gzip", "deflate")
        self._inner = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def feed(self, data: bytes, most: int) -> bytes:
        """What these bytes stand for, at most so many; b"" for a coding that is not known.

        Raises:
            ValueError: they are not of this coding.
        """
        if self.blind:
            return b""
        try:
            return self._inner.decompress(data, most)
        except zlib.error as error:
            raise ValueError(f"not what Content-Encoding says: {error}") from error

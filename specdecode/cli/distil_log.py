"""Progress of a distillation in a pipe: log lines on stderr. A terminal gets bars instead."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_lines() -> Iterator[None]:
    """Show what the library logs about its progress while the block runs."""
    logger = logging.getLogger("specdecode")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    before = logger.level
    if not sys.stderr.isatty():
        logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)

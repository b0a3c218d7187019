"""What a pipeline command tells a person, on standard error: standard output stays for data."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Prints one message for the person who started the command."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()

"""Libraries that draw their own progress bars are told to do so on a terminal only."""

from __future__ import annotations

import sys


def no_progress_in_a_pipe() -> None:
    """Turn off transformers' bars unless stderr is a terminal."""
    if sys.stderr.isatty():
        return
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

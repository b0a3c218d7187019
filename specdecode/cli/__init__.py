"""The command line: `specdecode COMMAND`.

One file a command. A command's heavy libraries are imported when it runs, so that `--help` and
`version` answer at once.

Exit codes: 0 success or GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID, 2 wrong usage or an input the
caller can fix, 1 an engine failure, 130 interrupted.
"""

from __future__ import annotations

from specdecode.cli.main import main

__all__ = ["main"]

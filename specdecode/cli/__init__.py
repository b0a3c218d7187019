"""The command line: `specdecode COMMAND`.

One file a command. A command's heavy libraries are imported when it runs, so that `--help` and
`version` answer at once.

Exit codes: 0 success or GO, 10 NO_GO, 11 INCONCLUSIVE, 12 INVALID, 3 TAMPERED, 2 wrong usage or an
input the caller can fix, 1 an engine failure, 130 interrupted.
"""

from __future__ import annotations

import os

# Before any library is imported: nothing this command uses may phone home unless asked to.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from specdecode.cli.main import main

__all__ = ["main"]

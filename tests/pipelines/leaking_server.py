"""`specdecode` with a server that keeps some memory of every reply: `python -m` this, `serve` …"""

from __future__ import annotations

import time

from specdecode.cli import main
from specdecode.serving.scheduler import Scheduler

PIECE, AT_MOST_EVERY_S = 4_000_000, 0.1
kept: list[bytes] = []
last = [0.0]
end = Scheduler._end


def leaking_end(self, reply, outcome):
    end(self, reply, outcome)
    if time.monotonic() - last[0] > AT_MOST_EVERY_S:
        last[0] = time.monotonic()
        kept.append(b"x" * PIECE)  # written to, so that it is really there


if __name__ == "__main__":
    Scheduler._end = leaking_end
    raise SystemExit(main())

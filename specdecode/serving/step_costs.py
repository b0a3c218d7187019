"""What steps with and without drafts cost here and now, measured on the traffic itself."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median

_KEPT = 16  # measurements; older ones tell of other contexts and other loads
_ENOUGH = 3
_FRESH = 256  # steps after which a plain step is timed again
_SOON = 4  # steps after which it is where much hangs on it,
_SHARE = 0.02  # as long as that takes no more plain steps a step on average,
_BURST = 8.0  # and no more than these at once
_SPREAD = 64  # drafted steps over which reading is spread


class MeasuredCosts:
    """Seconds of steps, by the number of rows (in powers of two) and by whether any row drafted."""

    def __init__(self) -> None:
        self._drafted: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._plain: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._age: dict[int, int] = defaultdict(int)
        self._credit = _BURST
        self._unspread = self._reading = 0.0  # the draft's reading: since the last step, and a step
        self._drafts = 0

    def read(self, seconds: float) -> None:
        """The draft read prompts of newcomers for so long: a part of what drafted steps cost."""
        self._unspread += seconds

    def drafted(self, rows: int, seconds: float) -> None:
        """A step with a draft took so long."""
        self._drafts = min(_SPREAD, self._drafts + 1)
        self._reading += (self._unspread - self._reading) / self._drafts
        self._unspread = 0.0
        self._drafted[_bucket(rows)].append(seconds)
        self._age[_bucket(rows)] += 1
        self._credit = min(_BURST, self._credit + _SHARE)

    def plain(self, rows: int, seconds: float) -> None:
        """A step without one took so long."""
        self._plain[_bucket(rows)].append(seconds)
        self._age[_bucket(rows)] = 0

    def tried(self, rows: int, seconds: float) -> None:
        """A step without one, tried out only to be timed, took so long."""
        self.plain(rows, seconds)
        self._credit -= 1

    def lacks_plain(self, rows: int, *, doubtful: bool = False) -> bool:
        """Whether too little is known of plain steps of this size, or it is too long ago.

        Args:
            rows: of a batch.
            doubtful: whether a small error in the ratio would matter.
        """
        bucket = _bucket(rows)
        soon = doubtful and self._credit >= 1 and self._age[bucket] >= _SOON
        return soon or len(self._plain[bucket]) < _ENOUGH or self._age[bucket] >= _FRESH

    def ratio(self, rows: int) -> float | None:
        """Cost of a step with a draft over one without; None until both were measured.

        The draft's reading of prompts is spread over the steps that draft.
        """
        drafted, plain = self._drafted[_bucket(rows)], self._plain[_bucket(rows)]
        if min(len(drafted), len(plain)) < _ENOUGH:
            return None
        return (median(drafted) + self._reading) / median(plain)


def _bucket(rows: int) -> int:
    return 1 << (rows - 1).bit_length()

"""The acceptance guard: a slot whose drafts do not pay goes on without them, and tries again later.

A step with a draft pays if it yields more tokens than it costs, both in plain steps: τ + 1 tokens
against r, the measured cost of a step with a draft over one without (`step_costs`), to which the
draft's reading of prompts belongs: replies may be short, and prompts long. What a step takes longer
it takes longer for all R replies in it, and the k of them that draft answer for all of that: each
gains τ − (r − 1) R / k, which is τ + 1 − r where everybody drafts. Else the last slot that drafts
would think it pays, and halve the speed of the others. The gain of each step, brought to [0, 1], is
watched by an e-detector (`statistics.drift`) for a mean below break-even. While drafts pay,
whatever the distribution of τ, a false alarm takes `PATIENCE` steps on average at least.

After an alarm the slot decodes plainly. After a pause it drafts for a few steps again, and if those
paid, for good. Pauses are so long that probing costs `PROBE_SHARE` of the time at most, going by
the same measurement, and double with each failure. They end at multiples of their length, so that
slots probe together: one drafting row costs a draft of its own alone, but a pass of the target over
its draft makes the step of a whole batch dearer.

**Why replies keep the target's law.** Whether a step drafts is settled before it draws anything, by
earlier steps and by clocks (see `specdecode.drafting.length`). It changes which coins are used, and
so the token ids for a seed, but not their distribution.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from specdecode.decoding.request import Request
from specdecode.drafting.length import DraftLength
from specdecode.serving.step_costs import MeasuredCosts
from specdecode.statistics.drift import EDetector

log = logging.getLogger("specdecode.serving")

PATIENCE = 256
PROBE_STEPS = 4
PROBE_SHARE = 0.02
PLAIN, SPECULATING = "plain", "speculating"
_SHORTEST_PAUSE, _LONGEST_PAUSE = 32, 8192
_BREAK_EVEN = 0.5
_CLEAR = 1.5  # drafts that yield so many times what they cost pay for sure
_FADING = 0.95
_AS_BEFORE = "plain from the first token, as it was found in this slot before"
_PROVEN = 4 * PATIENCE  # drafted steps after which earlier failures are forgotten


class AcceptanceGuard:
    """Watches the slots of one scheduler; used by its thread.

    Args:
        gamma: draft tokens a step.
        on_switch: told "plain" or "speculating" at every switch.
    """

    def __init__(self, gamma: int, on_switch: Callable[[str], None] = lambda _to: None) -> None:
        self.gamma, self.costs, self.step = gamma, MeasuredCosts(), 0
        self._on_switch = on_switch
        self._rows = 1
        self._drafted = False
        self._yield: float | None = None  # tokens of a drafted step, faded mean of all slots
        self._slots: list[Slot] = []
        self._of: dict[Request, Slot] = {}
        self._drafting: set[Slot] = set()  # in the step under way

    @property
    def ratio(self) -> float | None:
        """Cost of a step with a draft, in plain steps, at the present number of rows."""
        return self.costs.ratio(self._rows)

    def gain(self, kept: int) -> float | None:
        """Plain steps that a drafting row of the step under way gained; None until that is known.

        Args:
            kept: of its draft tokens.
        """
        ratio = self.ratio
        if ratio is None:
            return None
        return kept - (ratio - 1) * len(self._of) / max(1, len(self._drafting))

    @property
    def is_drafting(self) -> bool:
        """Whether any slot drafts but for probes, as one that nobody has taken yet does."""
        return not self._slots or any(not slot.is_plain for slot in self._slots)

    def read(self, seconds: float) -> None:
        """The draft read prompts of newcomers for so long."""
        self.costs.read(seconds)

    def lengths_of(self, request: Request) -> DraftLength:
        """Put a request into a free slot; what decides its draft lengths."""
        taken = set(self._of.values())
        slot = next((s for s in self._slots if s not in taken), None)
        if slot is None:
            slot = Slot(self, len(self._slots))
            self._slots.append(slot)
        self._of[request] = slot
        slot.begin(request)
        return slot

    def forget(self, request: Request) -> None:
        """Its slot is free; what was learnt there stays."""
        slot = self._of.pop(request, None)
        if slot is not None:
            slot.request = None

    def switches_of(self, request: Request) -> tuple[str, ...]:
        """What was switched while it was decoded."""
        return tuple(self._of[request].switches) if request in self._of else ()

    def wants_plain_cost(self, rows: int) -> bool:
        """Whether a plain step of so many rows should be timed."""
        ratio = self.costs.ratio(rows)
        if ratio is None or self._yield is None:
            return self.costs.lacks_plain(rows)
        return self.costs.lacks_plain(rows, doubtful=self._yield < _CLEAR * ratio)

    def plain_cost(self, rows: int, seconds: float) -> None:
        """It was."""
        self.costs.tried(rows, seconds)

    def stepped(self, rows: int, seconds: float) -> None:
        """A step of so many rows is over."""
        (self.costs.drafted if self._drafted else self.costs.plain)(rows, seconds)
        self._drafted = False
        self._drafting.clear()
        self._rows = rows
        self.step += 1

    def chose(self, slot: Slot, length: int) -> None:
        """A slot settled how much it drafts in the step under way."""
        (self._drafting.add if length else self._drafting.discard)(slot)

    def drafted(self, tokens: int) -> None:
        """A slot drafted in the step under way, which gave it so many tokens."""
        self._drafted = True
        before = tokens if self._yield is None else self._yield
        self._yield = _FADING * before + (1 - _FADING) * tokens

    def switched(self, slot: Slot, why: str) -> None:
        """Log and count a switch."""
        to = PLAIN if slot.is_plain else SPECULATING
        log.warning("slot %d: %s from here on: %s", slot.number, to, why)
        self._on_switch(to)

    def state(self) -> dict[str, Any]:
        """For people: which slots do what, and the measured ratio."""
        return {
            "cost_ratio": self.ratio,
            "slots": [PLAIN if slot.is_plain else SPECULATING for slot in self._slots],
        }


class Slot:
    """One slot's state; a `DraftLength`.

    Args:
        guard: it belongs to.
        number: its name in the log.
    """

    def __init__(self, guard: AcceptanceGuard, number: int) -> None:
        self._guard, self.number = guard, number
        self.request: Request | None = None
        self.switches: list[str] = []
        self.is_plain = False
        self._detector = _detector()
        self._gains: list[float] = []  # of the probe under way
        self._failures = 0  # since drafts last proved to pay
        self._next_probe = 0

    def begin(self, request: Request) -> None:
        """A request takes the slot."""
        self.request = request
        self.switches = [_AS_BEFORE] if self.is_plain else []

    def choose(self, seconds: Sequence[float], most: int) -> int:
        """See `DraftLength.choose`."""
        del seconds
        waits = self.is_plain and self._guard.step < self._next_probe
        length = 0 if waits else min(self._guard.gamma, most)
        self._guard.chose(self, length)
        return length

    def observe(self, drafted: int, kept: int) -> None:
        """See `DraftLength.observe`. A step without a draft says nothing."""
        if drafted == 0:
            return
        self._guard.drafted(kept + 1)
        ratio, gain = self._guard.ratio, self._guard.gain(kept)
        if ratio is None or gain is None:
            return
        if self.is_plain:
            self._probe(gain, ratio)
        else:
            self._watch(gain, ratio)

    def _watch(self, gain: float, ratio: float) -> None:
        if ratio <= 1:  # a draft that costs nothing cannot lose
            return
        value = _BREAK_EVEN + gain / (2 * max(1, self._guard.gamma))
        self._detector.update([min(1.0, max(0.0, value))])
        if self._detector.n >= _PROVEN:
            self._failures = 0
        if self._detector.alarm_at is None:
            return
        self.is_plain, self._gains = True, []
        self._pause(ratio)
        self._switch(
            f"drafts do not pay; a step with them costs {ratio:.2f} plain steps "
            f"(alarm after {self._detector.n} steps)"
        )

    def _probe(self, gain: float, ratio: float) -> None:
        self._gains.append(gain)
        if len(self._gains) < PROBE_STEPS:
            return
        mean, self._gains = sum(self._gains) / PROBE_STEPS, []
        if mean <= 0:
            self._failures += 1
            self._pause(ratio)
            return
        self.is_plain, self._detector = False, _detector()
        self._failures += 1  # until it has lasted
        self._switch(f"drafts pay; a step with them gains {mean:.2f} plain steps")

    def _pause(self, ratio: float) -> None:
        lost = PROBE_STEPS * max(0.0, ratio - 1)
        shortest = max(_SHORTEST_PAUSE, math.ceil(lost / PROBE_SHARE))
        length = min(_LONGEST_PAUSE, 1 << (shortest - 1).bit_length() + min(self._failures, 16))
        after = self._guard.step + length
        self._next_probe = -(-after // length) * length

    def _switch(self, why: str) -> None:
        to = PLAIN if self.is_plain else SPECULATING
        if self.request is not None:
            self.switches.append(f"{to} after token {len(self.request.output)}: {why}")
        self._guard.switched(self, why)


def _detector() -> EDetector:
    return EDetector(_BREAK_EVEN, average_run_length=PATIENCE)

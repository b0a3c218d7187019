"""A release for tests: a router that keeps to the contract, and traffic that it records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flows.approvals import People
from pipelines.flows.judging import Judge
from pipelines.flows.look import Look, look
from pipelines.flows.records import OnRecord, Records
from pipelines.flows.release import Bundle, LostPromotionError, Release
from specdecode.governance import Plan
from specdecode.governance.ledger import Ledger
from specdecode.governance.signers import Signers
from specdecode.measurement.records import Record, to_table
from specdecode.rollout.state import Mode
from tests.governance.live import streams
from tests.governance.live.streams import Truth, live_plan
from tests.pipelines.fake_router import NOW, FakeRouter

MANIFEST = "a" * 64
STEPS = (0.05, 0.25, 0.5)
_METRICS = {"metrics": ["error_rate", "e2e_s"], "n_min": 30, "n_max": 400}
SHORT = (0.25, 0.5)
STAGES = (
    streams.SHADOW | _METRICS,
    streams.CANARY | _METRICS | {"steps": list(STEPS)},
    streams.WATCH | {"n_min": 30},
)
WAY_UP = [("shadow", 1.0), *(("canary", step) for step in STEPS), ("full", 1.0)]


def release_plan(*stages: Mapping[str, Any], **fields: Any) -> Plan:
    """A plan with shadow, canary 5/25/50 and watch that some dozens of requests satisfy."""
    return live_plan(*(stages or STAGES), **fields)


def short_plan() -> Plan:
    """The same with two steps, for tests that go up many times."""
    return release_plan(STAGES[0], STAGES[1] | {"steps": list(SHORT)}, STAGES[2])


def perfect(_rng: object, _index: int) -> dict[str, Any]:
    """A request that is always in time."""
    return {"e2e_s": 0.5, "quality": 1.0}


def broken(_rng: object, index: int) -> dict[str, Any]:
    """One that fails half of the time."""
    return perfect(_rng, index) | ({"error": "planted"} if index % 2 else {})


@dataclass
class Traffic:
    """What the router has recorded: some requests for each state that it was read in.

    Attributes:
        router: by whose state requests are recorded.
        truths: how the candidate does, by stage or by stage and step ("canary 0.25").
        enough: whether so much comes that the step can be decided.
        served: stages and steps that were there, in order.
        more: further rows.
    """

    router: FakeRouter
    truths: Mapping[str, Truth] = field(default_factory=dict)
    enough: bool = True
    served: list[str] = field(default_factory=list)
    more: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, stage: str) -> pa.Table:
        state = self.router.state
        name = str(state.stage) if state.step is None else f"{state.stage} {state.step}"
        if state.stage is not None and name not in self.served:
            self.served.append(name)
        parts = [self._rows(name) for name in self.served if name.split(maxsplit=1)[0] == stage]
        parts += [made(tuple(json.dumps(row, default=str) for row in self.more))]
        return pa.concat_tables(parts)

    def _rows(self, name: str) -> pa.Table:
        truth = self.truths.get(name) or self.truths.get(name.split(maxsplit=1)[0]) or perfect
        return recorded(name, truth, 50 if self.enough else 5)


@cache
def recorded(name: str, truth: Truth, n: int) -> pa.Table:
    """About n requests to the candidate in a stage or step; those of later steps come later."""
    stage, _, step = name.partition(" ")
    if stage == "shadow":
        rows = streams.shadow(n, truth, perfect)
    elif stage == "watch":
        rows = [row | {"request_id": f"w{i}"} for i, row in enumerate(streams.watch(2 * n, truth))]
    else:
        share = float(step)
        rows = streams.canary(
            int(n / share), truth, perfect, seed=1, share=share, first=int(20_000 * share)
        )
    return to_table(Record.model_validate(row | {"manifest_sha256": MANIFEST}) for row in rows)


@cache
def made(rows: tuple[str, ...]) -> pa.Table:
    """Rows from their JSON."""
    return to_table(Record.model_validate(json.loads(row)) for row in rows)


class FakeRegistry:
    """A registry in memory."""

    def __init__(self, champion: str | None = "1", version: str = "2") -> None:
        self.current, self.version, self.before = champion, version, None
        self.moves: list[str | None] = []

    def champion(self) -> str | None:
        return self.current

    def promote(self, bundle: Bundle, *, replaces: str | None) -> None:
        assert bundle.verdict_sha256
        if self.current == self.version:
            return
        if self.current != replaces:
            raise LostPromotionError(f"{self.current} was promoted meanwhile")
        self.before, self.current = self.current, self.version
        self.moves.append(self.current)

    def demote(self, reason: str) -> None:
        assert reason
        if self.current == self.version:
            self.current = self.before
            self.moves.append(self.current)


def bundle_of(kept: OnRecord) -> Bundle:
    """A bundle nobody has looked into."""
    document = json.loads(kept.verdict.read_bytes())
    return Bundle(kept.evidence, "e" * 64, document["plan_sha256"], kept.sha256, MANIFEST)


@dataclass
class World:
    """A release and everything around it, which outlives the runs that look at it."""

    folder: Path
    plan: Plan
    router: FakeRouter
    traffic: Traffic
    registry: FakeRegistry
    signers: Signers | None = None
    told: list[tuple[str, str]] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    moments: int = 0

    def release(self) -> Release:
        """As a run that has just begun sees it."""
        records = Records(self.folder / "releases", self.plan, MANIFEST)
        manifest = {"manifest_sha256": MANIFEST}
        gate = self.folder / "gate.json"
        made = Release(
            plan=self.plan,
            manifest_sha256=MANIFEST,
            router=self.router.client(),
            judge=Judge(self.plan, manifest, self.traffic, records, gate=gate),
            records=records,
            people=People(
                self.plan, self.signers, Ledger(self.folder / "ledger.jsonl"), unsealed=True
            ),
            tell=lambda place, action, _: self.told.append((str(place), type(action).__name__)),
            evidence=bundle_of,
            registry=self.registry,
            by="flow test",
            clock=lambda: NOW,
        )
        return replace(made, **self.changes)

    def look(self, *may: Mode, left: list[int] | None = None) -> Look | None:
        """One look; None where it was ended on the way, as by a crash.

        Args:
            may: modes that may be set.
            left: a list with the number of moments until the crash, which are counted down.
        """
        steps = look(self.release(), frozenset(may))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            self.moments += 1
            if left:
                left[0] -= 1
            if left == [0]:
                left.clear()
                steps.close()
                return None

    def climb(self, *may: Mode, crash_after: int | None = None) -> Look:
        """Looks until there is no more to do; with one crash after so many moments in all."""
        left = [] if crash_after is None else [crash_after]
        for _ in range(40):
            found = self.look(*may, left=left)
            if found is not None and (found.ended or found.arrived):
                return found
        raise AssertionError("it goes on and on")


def world(folder: Path, *, truths: Mapping[str, Truth] | None = None, enough: bool = True,
          plan: Plan | None = None, **fields: Any) -> World:  # fmt: skip
    """A release that nothing has happened to yet."""
    router = FakeRouter()
    traffic = Traffic(router, truths or {}, enough)
    return World(folder, plan or release_plan(), router, traffic, FakeRegistry(), **fields)


ALL: Sequence[Mode] = ("shadow", "canary", "full")


def lines(own):
    """Events of the journal with the action they are about."""
    found = own.release().records.journal.lines()
    return [(line.event, line.details.get("action"), line.key.rsplit("-", 1)[0]) for line in found]


def harmed():
    """Rows of a shadow whose candidate fails."""
    return [row | {"manifest_sha256": MANIFEST} for row in streams.shadow(120, broken)]

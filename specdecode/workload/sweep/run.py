"""A sweep from its spec to its result: servers started in turn, one load run per cell."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from specdecode import __version__
from specdecode.errors import ConfigError, EngineError
from specdecode.workload.engines import LossyEngineError, ServerError
from specdecode.workload.interrupts import terminated_as_interrupted
from specdecode.workload.load import EngineSide, run_load
from specdecode.workload.load.engine import AUTO
from specdecode.workload.load.faults import INTERRUPTED
from specdecode.workload.load.progress import Progress
from specdecode.workload.server_process import ServerProcess, last_words
from specdecode.workload.sweep.analysis import Analysis, analyse
from specdecode.workload.sweep.arms import Arm, checked
from specdecode.workload.sweep.cells import Cell
from specdecode.workload.sweep.deck import Deck
from specdecode.workload.sweep.files import write_files
from specdecode.workload.sweep.journal import Failure, SweepFolder
from specdecode.workload.sweep.order import turns
from specdecode.workload.sweep.progress import Show, SweepProgress
from specdecode.workload.sweep.spec import SCHEMA, SweepSpec, manifest_of


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep.

    Attributes:
        document: everything, JSON-safe; also in the folder.
        analysis: what the document's numbers are made from.
        folder: of the sweep.
        files: written into it.
    """

    document: dict[str, Any]
    analysis: Analysis
    folder: Path
    files: tuple[Path, ...]

    @property
    def status(self) -> str:
        """complete, partial (a cell is missing or not whole), or interrupted."""
        return str(self.document["status"])


@dataclass(frozen=True)
class _Running:
    url: str
    pid: int | None
    engine: EngineSide
    model: str


class _ArmFailedError(Exception):
    """An arm cannot go on; the message says why."""


def run_sweep(
    spec: SweepSpec,
    arms: Sequence[Arm],
    folder: Path,
    *,
    api_key: str | None = None,
    show: Show | None = None,
) -> SweepResult:
    """Measure every arm at every load in every round, and say where drafting pays.

    In each round each arm's server is started, one at a time, measured at every load, and stopped;
    with `spec.together` all are up at once and the arms take turns at every load. A sweep that was
    interrupted goes on where it stopped when it is called with the same arguments.

    Args:
        spec: what to send, how often.
        arms: in the order of preference: plain ones, and for each the arms compared with it.
        folder: new or empty, or that of the same sweep.
        api_key: sent as a bearer token, recorded nowhere.
        show: shows progress.

    Returns:
        What was measured. An arm that failed is in it with the reason.

    Raises:
        ConfigError: arms that cannot be compared.
        PromptFileError: the prompts are malformed.
        UserError: the folder holds something else.
    """
    arms = checked(arms)
    lasting = spec.together or any(isinstance(arm.server, str) for arm in arms)
    deck = Deck(spec, lasting=lasting)
    manifest = manifest_of(spec, arms, deck.sha256)
    sweep = _Sweep(spec, arms, deck, SweepFolder(folder, manifest), api_key)
    with (show or _unseen)(sweep.progress):
        interrupted = sweep.run()
    analysis = analyse(spec, arms, sweep.cells)
    document = {
        "schema": SCHEMA,
        "status": sweep.status(interrupted=interrupted),
        "manifest": manifest,
        "ended_at": datetime.now(UTC).isoformat(),
        "versions": {"specdecode": __version__, "python": platform.python_version()},
        "engines": sweep.engines,
        "prompts_salted": deck.salted,
        "failures": [
            {**asdict(failure), "healed": sweep.healed(failure)}
            for failure in sweep.folder.failures()
        ],
        "cells": [
            cell.to_json(str(sweep.folder.cell(*cell.key).relative_to(folder)))
            for cell in sorted(sweep.cells, key=sweep.place)
        ],
        "points": analysis.points,
        "crossovers": analysis.crossovers,
        "recommendations": [r.to_json(spec.max_batch) for r in analysis.recommendations],
    }
    files = write_files(folder, document)
    return SweepResult(document, analysis, folder, tuple(files))


class _Sweep:
    def __init__(
        self,
        spec: SweepSpec,
        arms: tuple[Arm, ...],
        deck: Deck,
        folder: SweepFolder,
        api_key: str | None,
    ) -> None:
        self.spec, self.arms, self.deck, self.folder = spec, arms, deck, folder
        self._api_key = api_key
        self.cells: list[Cell] = []
        self.engines: dict[str, Any] = {}
        self.progress = SweepProgress(len(arms) * spec.rounds * len(spec.concurrency))
        self._failed: set[str] = set()

    def run(self) -> bool:
        """Whether it was interrupted."""
        self.cells = self._on_disk()
        self.progress.done = len(self.cells)
        try:
            with terminated_as_interrupted():
                self._measure_all()
        except KeyboardInterrupt:
            self.cells = self._on_disk()  # one may have come to its end at that moment
            return True
        return False

    def _on_disk(self) -> list[Cell]:
        known = [
            self.folder.read(arm.name, number, load)
            for number in range(1, self.spec.rounds + 1)
            for arm in self.arms
            for load in self.spec.concurrency
        ]
        return [cell for cell in known if cell is not None]

    def place(self, cell: Cell) -> tuple[int, int, int]:
        """Where a cell stands in a list, whenever it was measured."""
        names = [arm.name for arm in self.arms]
        return cell.round, names.index(cell.arm), cell.concurrency

    def healed(self, failure: Failure) -> bool:
        """Whether what it kept from being measured was measured whole since."""
        load = failure.concurrency
        missed = {
            (failure.arm, failure.round, each)
            for each in (self.spec.concurrency if load is None else [load])
        }
        return missed <= {c.key for c in self.cells if c.whole and c.began_after(failure.at)}

    def status(self, *, interrupted: bool) -> str:
        """See `SweepResult.status`."""
        if interrupted:
            return "interrupted"
        whole = sum(cell.whole for cell in self.cells)
        return "complete" if whole == self.progress.total else "partial"

    def _measure_all(self) -> None:
        spec = self.spec
        arms = turns(self.arms, spec.rounds, spec.seed, "arms")
        loads = turns(spec.concurrency, spec.rounds, spec.seed, "concurrency")
        if not spec.together:
            for number, (order, by_load) in enumerate(zip(arms, loads, strict=True), start=1):
                for arm in order:
                    with contextlib.ExitStack() as servers:
                        self._visit(arm, number, by_load, servers, {})
            return
        with contextlib.ExitStack() as servers:
            up: dict[str, _Running] = {}
            for number, (order, by_load) in enumerate(zip(arms, loads, strict=True), start=1):
                for load in by_load:
                    for arm in order:
                        self._visit(arm, number, [load], servers, up)

    def _visit(
        self,
        arm: Arm,
        number: int,
        loads: Sequence[int],
        servers: contextlib.ExitStack,
        up: dict[str, _Running],
    ) -> None:
        """Measure what is left of an arm at some loads; its server is started if it is not up."""
        done = {cell.key for cell in self.cells}
        left = [load for load in loads if (arm.name, number, load) not in done]
        if not left or arm.name in self._failed:
            return
        self.progress.round, self.progress.arm = number, arm.name
        load: int | None = None
        try:
            self.progress.concurrency = self.progress.load = None
            if arm.name not in up:
                up[arm.name] = servers.enter_context(self._server(arm, number))
            for load in left:
                self._measure(arm, up[arm.name], number, load)
        except (_ArmFailedError, EngineError, ServerError, LossyEngineError, ConfigError) as error:
            self._failed.add(arm.name)
            self.progress.failures.append(self.folder.fail(arm.name, number, load, str(error)))

    @contextlib.contextmanager
    def _server(self, arm: Arm, number: int) -> Iterator[_Running]:
        if isinstance(arm.server, str):
            yield self._found(arm, arm.server.rstrip("/"), None)
            return
        with ServerProcess(arm.server, self.folder.log(f"{arm.name}.round-{number}")) as server:
            yield self._found(arm, server.url, server.pid)

    def _found(self, arm: Arm, url: str, pid: int | None) -> _Running:
        engine = EngineSide.find(url, arm.engine or AUTO, self._api_key)
        engine.detected.adapter.rule(engine.detected.facts).refuse_lossy(engine.detected.engine)
        self.engines[arm.name] = engine.witness()
        return _Running(url, pid, engine, engine.model_named(arm.model))

    def _measure(self, arm: Arm, server: _Running, number: int, load: int) -> None:
        self.progress.concurrency = load
        fields = server.engine.request_fields | dict(arm.extra_body)
        sent = self.deck.of(self.folder.path, number, load)
        cell_spec = self.spec.load_of(
            server.url,
            server.model,
            sent.pop("seed"),
            load,
            arm=arm.name,
            extra_body=fields,
            **sent,
        )
        result = run_load(
            cell_spec,
            self.folder.make_room(arm.name, number, load),
            api_key=self._api_key,
            engine=EngineSide(server.engine.detected, self._api_key),
            server_pid=server.pid,
            show=self._watch,
        )
        if result.summary["verdict"]["stopped"] == INTERRUPTED:
            raise KeyboardInterrupt
        cell = self.folder.read(arm.name, number, load)
        if cell is not None:
            self.cells.append(cell)
            self.progress.done += 1
        if not result.complete and not _answers(arm, server.url):
            raise _ArmFailedError(
                f"the server was gone at concurrency {load} "
                f"({result.summary['verdict']['line']}); {self._last_words(arm, number)}"
            )

    def _watch(self, load: Progress) -> AbstractContextManager[None]:
        self.progress.load = load
        return nullcontext()

    def _last_words(self, arm: Arm, number: int) -> str:
        if isinstance(arm.server, str):
            return "it was started by somebody else"
        return last_words(self.folder.log(f"{arm.name}.round-{number}"))


def _answers(arm: Arm, url: str) -> bool:
    path = "/health" if isinstance(arm.server, str) else arm.server.ready_path
    try:
        with httpx.Client(trust_env=False, timeout=10.0) as client:
            client.get(url + path)
    except httpx.HTTPError:
        return False
    return True


def _unseen(progress: SweepProgress) -> AbstractContextManager[None]:
    del progress
    return nullcontext()

"""Runs the tests that speak for a file, once for each of its mutants."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.runner import runtestprotocol

from tests.governance.mutants.changes import Change, mutants
from tests.governance.mutants.graft import graft

LONGEST_S = 60
"""Of computing, not of waiting: then a mutant hangs."""
FAULTS, GATE = "tests/governance/faults", "tests/governance"
ROWS = [f"{FAULTS}/test_integrity.py", f"{GATE}/test_decide.py", f"{GATE}/test_decide_inputs.py"]
RULES = [f"{GATE}/test_rules.py", *(f"{FAULTS}/test_rules.py::test_{name}" for name in (
    "a_guardrail_alarms_just_beyond_the_far_end_of_the_interval_and_not_at_it",
    "a_primary_rule_is_shown_at_the_near_end_of_the_interval_and_not_beyond_it",
    "as_many_prompts_as_are_asked_for_are_enough",
    "as_many_requests_as_are_asked_for_are_enough",
    "only_the_rule_meant_fails_and_beside_it_none_does"))]  # fmt: skip
AUDITS = f"{GATE}/test_decide.py::test_only_an_audit_that_clears_arm_and_control_leads_to_go"
SLOW = "not intervals_by_columns and not first_value and not no_subset and not order_of_rows"
TESTS: dict[str, list[str]] = {
    "decide.py": [*ROWS, *(f"{GATE}/live/test_{name}.py" for name in ("losslessness", "watch"))],
    "verdict.py": ROWS[1:2],
    "integrity.py": ROWS,
    "consistency.py": ROWS,
    "survey.py": [*ROWS, f"{GATE}/test_columns.py"],
    "evidence.py": [*ROWS[1:], *RULES],
    "rules/losslessness.py": [AUDITS, ROWS[2], RULES[-1]],
    "rules/*.py": RULES,
    "live/alarms.py": [f"{GATE}/live/test_alarms.py", f"{GATE}/live/test_watch.py"],
    "live/judge.py": [
        f"{GATE}/live/test_{name}.py"
        for name in ("alarms", "watch", "losslessness", "shadow", "canary")
    ],
    "lints/*.py": [f"{FAULTS}/test_lints.py", f"{GATE}/test_lint.py"],
}
"""Which tests speak for which file of the package, the quickest to fail first."""


class Mutating:
    """In place of running the collected tests once: once for each mutant, in a process of its own.

    alive: what was changed, where no test failed.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        self._path, self._jobs = path, jobs
        self._running: dict[int, Change] = {}
        self.alive: list[Change] = []
        self.count: int | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        module = importlib.import_module(".".join(self._path.with_suffix("").parts))
        source = self._path.read_text("utf-8")
        self._start(session, module, ast.parse(source), (0, "", "", ""))
        self._finish(0)
        if not self.alive:
            return True
        self.alive, self.count = [], 0
        for change, tree in mutants(source):
            self._finish(self._jobs - 1)
            self._start(session, module, tree, change)
            self.count += 1
        self._finish(0)
        return True

    def _start(
        self, session: pytest.Session, module: ModuleType, tree: ast.Module, change: Change
    ) -> None:
        child = os.fork()
        if child:
            self._running[child] = change
            return
        try:
            signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
            graft(module, tree)
            for item, following in zip_longest(session.items, session.items[1:]):
                if any(report.failed for report in runtestprotocol(item, False, following)):
                    os._exit(1)
        except BaseException:  # noqa: BLE001 - whatever it is, it was seen
            os._exit(2)
        os._exit(0)

    def _finish(self, most: int) -> None:
        """Wait until at most this many are running."""
        while len(self._running) > most:
            child, status = os.wait()
            change = self._running.pop(child)
            if status == 0:
                self.alive.append(change)
            line, where, before, after = change
            found = f"\n{line} {where}: {before} -> {after}\n" if status == 0 else "."
            sys.stderr.write(found if self.count is not None else "")
            sys.stderr.flush()


def survivors(path: Path, tests: Sequence[str], jobs: int) -> tuple[int, list[Change]]:
    """How many mutants a file has, and which of them no test sees."""
    given = [
        "-q",
        "--capture=no",
        "-k",
        SLOW,
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *tests,
    ]
    plugin = Mutating(path, jobs)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(given, plugins=[plugin])
    if plugin.count is None:
        raise SystemExit(f"{path}: its tests fail on the code as it is")
    return plugin.count, sorted(plugin.alive)


def targets(names: Sequence[str]) -> dict[Path, list[str]]:
    """Files to change, and the tests that speak for them."""
    root, found = Path("specdecode/governance"), {}
    for pattern, tests in TESTS.items():
        for path in sorted(root.glob(pattern)):
            if path.name != "__init__.py" and (not names or str(path.relative_to(root)) in names):
                found.setdefault(path, tests)
    return found

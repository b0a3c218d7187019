"""Changes the gate's code in one place at a time, and runs the tests that should see it.

    python -m tests.governance.mutants [--jobs N] [FILE ...]

A mutant is one comparison, operator, constant, outcome or condition changed, an entry left out of a
table, or two answers in another order. It is killed when a test fails or takes too long. A survivor
is a change that no test sees: `docs/gate-faults.md` says of each why that does no harm, and one it
does not explain makes the exit code 1. Nothing is written; the changed code exists in the process
that runs the tests only.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

PAGE = Path("docs/gate-faults.md")
LONGEST_S = 300
FAULTS, GATE = "tests/governance/faults", "tests/governance"
ROWS = [f"{FAULTS}/test_integrity.py", f"{GATE}/test_decide.py", f"{GATE}/test_decide_inputs.py"]
RULES = [f"{FAULTS}/test_rules.py", f"{GATE}/test_rules.py"]
SLOW = "not intervals_by_columns and not first_value and not no_subset and not order_of_rows"
TESTS: dict[str, list[str]] = {
    "decide.py": ROWS,
    "verdict.py": ROWS[1:2],
    "integrity.py": ROWS,
    "consistency.py": ROWS,
    "survey.py": [*ROWS, f"{GATE}/test_columns.py"],
    "evidence.py": [*RULES, *ROWS[1:]],
    "rules/losslessness.py": [ROWS[1], *RULES],
    "rules/*.py": RULES,
    "lints/*.py": [f"{FAULTS}/test_lints.py", f"{GATE}/test_lint.py"],
}
"""Which tests speak for which file of the package, the quickest to fail first."""

Change = tuple[int, str, str, str]  # line, function, before, after
ORDER = {ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
         ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
         ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,),
         ast.IsNot: (ast.Is,)}  # fmt: skip
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
              ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.Mod: ast.Mult}  # fmt: skip
ANSWERS = {"PASS": "FAIL", "GO": "NO_GO"}
"""What takes the place of an outcome or status; of any other: the good one."""
SIDES = {"at least": "at most", "at most": "at least"}


def _options(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that may take the place of this one."""
    yield from _operators(node)
    yield from _constants(node)
    yield from _shorter(node)
    match node:
        case ast.If(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Constant):
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)


def _operators(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            for other in ORDER[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        case ast.UnaryOp():
            yield node.operand


def _constants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1 if isinstance(value, int) else value * 2)
        case ast.Constant(value=str() as value) if value in SIDES:
            yield ast.Constant(SIDES[value])
        case ast.Attribute(value=ast.Name(id="Outcome" | "Status" as name)):
            good = "PASS" if name == "Outcome" else "GO"
            yield ast.Attribute(node.value, ANSWERS.get(node.attr, good), ast.Load())


def _shorter(node: ast.AST) -> Iterator[ast.AST]:
    """A table of names, outcomes or checks with one of them left out."""
    match node:
        case ast.Tuple(elts=parts, ctx=ast.Load()) if _is_table(parts):
            for place in range(len(parts)):
                yield ast.Tuple(parts[:place] + parts[place + 1 :], ast.Load())
        case ast.Dict(keys=[_, _, *_], values=values) if all(
            isinstance(value, ast.Name) for value in values
        ):
            for place in range(len(values)):
                keys = node.keys[:place] + node.keys[place + 1 :]
                yield ast.Dict(keys, values[:place] + values[place + 1 :])


def _is_table(parts: Sequence[ast.expr]) -> bool:
    return len(parts) > 1 and all(
        isinstance(part, ast.Attribute | ast.Starred)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in parts
    )


def _skipped(node: ast.AST) -> bool:
    """Annotations, bounds of the plan's fields and texts are no decisions."""
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
    return literal or name in ("Field", "ConfigDict") or isinstance(node, ast.JoinedStr)


def _places(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST, str, Any]]:
    """(function, holder, field, place in it or None) of everything that may be changed."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{inside}.{node.name}".lstrip(".")
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _skipped(child):
                yield inside, node, field, place
                yield from _places(child, inside)


def mutants(source: str) -> Iterator[tuple[Change, ast.Module]]:
    """Every mutant of a module: what was changed, and its tree, valid until the next is asked."""
    tree = ast.parse(source)
    for inside, holder, field, place in list(_places(tree)):
        own = getattr(holder, field)
        node = own if place is None else own[place]
        for option in _options(node):
            before, after = ast.unparse(node), ast.unparse(option)
            if isinstance(node, ast.If):
                before, after = f"if {ast.unparse(node.test)}", "if False"
            _put(holder, field, place, ast.copy_location(option, node))
            yield (node.lineno, inside, before, after), ast.fix_missing_locations(tree)
            _put(holder, field, place, node)
        follows = own[place + 1] if place is not None and place + 1 < len(own) else None
        if isinstance(node, ast.If) and isinstance(follows, ast.If) and not node.orelse:
            own[place], own[place + 1] = follows, node
            tests = [ast.unparse(part.test) for part in (node, follows)]
            yield (node.lineno, inside, f"if {tests[0]} first", f"if {tests[1]} first"), tree
            own[place], own[place + 1] = node, follows


def _put(holder: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[place] = node


def graft(module: ModuleType, tree: ast.Module) -> None:
    """Give the functions and tables of a module the code of its mutant, wherever they are held."""
    new: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(tree, str(module.__file__), "exec"), new)  # noqa: S102 - the gate's own code
    for name, value in new.items():
        _replace(vars(module), name, value, str(module.__file__))
    if "LINTS" in new:  # held by the list of all lints, not by name
        from specdecode.governance import lint

        own = {entry.code: entry for entry in new["LINTS"]}
        lint.LINTS = tuple(own.get(entry.code, entry) for entry in lint.LINTS)


def _replace(names: Any, name: str, value: Any, file: str, owner: type | None = None) -> None:
    old = names.get(name)
    if isinstance(value, property):
        old, value = getattr(old, "fget", None), value.fget
    if isinstance(value, FunctionType):
        if isinstance(old, FunctionType) and value.__code__.co_filename == file:
            old.__code__, old.__defaults__ = value.__code__, value.__defaults__
    elif isinstance(value, type) and isinstance(old, type) and value is not old:
        for inner, part in list(vars(value).items()):
            _replace(vars(old), inner, part, file, old)
    elif isinstance(value, str) and owner is not None and not name.startswith("__"):
        setattr(owner, name, value)
    elif isinstance(value, dict) and owner is None and not name.startswith("__"):
        for key in set(old) - set(value):
            del old[key]
        if not any(callable(item) for item in value.values()):
            old.update(value)
    elif isinstance(value, tuple | int | float) and owner is None:
        names[name] = value


class Mutating:
    """In place of running the collected tests once: once for each mutant, in a process of its own.

    alive: what was changed, where no test failed.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        self._path, self._jobs = path, jobs
        self._running: dict[int, Change] = {}
        self.alive: list[Change] = []
        self.count = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        module = importlib.import_module(".".join(self._path.with_suffix("").parts))
        source = self._path.read_text("utf-8")
        self._start(session, module, ast.parse(source), (0, "", "", ""))
        self._finish(0)
        if not self.alive:
            raise SystemExit(f"{self._path}: its tests fail on the code as it is")
        self.alive = []
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
            signal.alarm(LONGEST_S)
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
            sys.stderr.write("x" if status == 0 else ".")
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
    return plugin.count, sorted(plugin.alive)


def targets(names: Sequence[str]) -> dict[Path, list[str]]:
    """Files to change, and the tests that speak for them."""
    root, found = Path("specdecode/governance"), {}
    for pattern, tests in TESTS.items():
        for path in sorted(root.glob(pattern)):
            if path.name != "__init__.py" and (not names or str(path.relative_to(root)) in names):
                found.setdefault(path, tests)
    return found


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Change the gate's code; see whether tests fail.")
    parser.add_argument("files", nargs="*", help="below specdecode/governance; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args()
    known_files = {str(path.relative_to("specdecode/governance")) for path in targets([])}
    if unknown := sorted(set(given.files) - known_files):  # nothing changed would read as no gap
        parser.error(
            f"no such file: {', '.join(unknown)}; there are {', '.join(sorted(known_files))}"
        )
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    known, new = PAGE.read_text("utf-8") if PAGE.exists() else "", 0
    for path, tests in targets(given.files).items():
        name = path.relative_to("specdecode/governance")
        count, alive = survivors(path, tests, given.jobs)
        lines = [f"| {name} | {count} | {count - len(alive)} | {len(alive)} |"]
        for line, where, before, after in alive:
            text = f"`{before}` → `{after}`"
            new += text not in known
            lines.append(f"  line {line}, {where}: {text}{'' if text in known else '  (new)'}")
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())

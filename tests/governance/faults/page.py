"""The tables of `docs/gate-faults.md`, made from the planted faults."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from specdecode.governance import EXIT_CODES, Status
from specdecode.governance.lint import LINTS
from tests.governance.faults import integrity, lints, live, rules, verifier
from tests.governance.tamper.test_program import ATTACKS

PAGE = Path("docs/gate-faults.md")
WORDS = {0: "GO", 3: "TAMPERED", 10: "NO_GO", 11: "INCONCLUSIVE", 12: "INVALID"}


def _answer(code: int) -> str:
    return f"{WORDS[code]}, {code}"


def _table(*lines: Iterable[str]) -> str:
    head, *rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
                   for line in lines]  # fmt: skip
    return "\n".join([head, "|" + "---|" * head.count(" | ") + "---|", *rows])


def _rules() -> str:
    kinds = {rule.name: rule.kind for rule in rules.plan().rules}
    return _table(
        ("rule", "planted fault", "answer", "beside it, GO"),
        *((f"`{kinds[f.rule]}`", f.planted, _answer(EXIT_CODES[f.answer]), f.beside)
          for f in rules.FAULTS),
        *((f"`{kind}`", "fewer prompts than its `n_min`" if kind != "error_rate" else
           "fewer requests than its `n_min`", _answer(11), "as many")
          for kind in rules.KINDS if kind != "losslessness"),
        ("every kind", "it crashes, or says nothing", _answer(12), "it answers"),
    )  # fmt: skip


def _integrity() -> str:
    early = Status.INCONCLUSIVE
    return _table(
        ("check", "planted fault", "answer", "beside it, GO"),
        *((f"`{f.check}`", f.planted,
           _answer(EXIT_CODES[early if f.check == "complete" else Status.INVALID]), f.beside)
          for f in integrity.FAULTS),
        *(("`numbers_agree`", planted, _answer(12), beside)
          for planted, beside, *_ in integrity.NUMBERS),
    )  # fmt: skip


def _live() -> str:
    return _table(
        ("stage", "check or metric", "planted fault", "answer", "beside it, GO"),
        *((f.stage, f"`{f.check}`", f.planted, _answer(EXIT_CODES[f.answer]), f.beside)
          for f in (*live.FAULTS, live.ONE_STRATUM)),
    )  # fmt: skip


def _verifier() -> str:
    return _table(
        ("check", "planted fault", "answer", "beside it, GO"),
        *((f"`{f.check}`", f.planted, _answer(f.code), f.beside) for f in verifier.FAULTS),
        *((f"`integrity`: `{check}`", f"{fault.planted}; the verdict says that it passed",
           _answer(3), fault.beside) for check, fault in verifier.PASSED.items()),
    )  # fmt: skip


def _lints() -> str:
    severity = {entry.code: entry.severity for entry in LINTS}
    return _table(
        ("lint", "planted fault", "answer", "beside it, no finding"),
        *((f"`{f.code}`", f.planted, severity[f.code], f.beside) for f in lints.FAULTS),
    )


def _attacks() -> str:
    return _table(
        ("attack", "all that can be made to fit", "answer", "the output says"),
        *((a.name, "is" if a.fitted else "is not", _answer(a.code), a.cause) for a in ATTACKS),
    )


SECTIONS = {
    "rules": _rules,
    "integrity": _integrity,
    "live": _live,
    "verifier": _verifier,
    "lints": _lints,
    "attacks": _attacks,
}


def written(page: str) -> str:
    """The page with its tables as the planted faults give them."""
    for name, table in SECTIONS.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        if end not in rest:
            raise ValueError(f"{PAGE} has no place for the table of {name}")
        page = f"{before}{start}\n\n{table()}\n\n{end}{after}"
    return page

"""Every integrity check has been made to fail, alone, beside evidence that is in order."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

from specdecode.governance import Outcome, Status, integrity
from specdecode.measurement import consistency
from specdecode.measurement.records import to_table
from tests.governance.faults.integrity import (
    FAULTS,
    GOOD,
    NUMBERS,
    ROWS,
    Given,
    changed,
    with_numbers,
)

IDS = [f"{fault.check}: {fault.planted}" for fault in FAULTS]
NUMBER_IDS = [planted for planted, *_ in NUMBERS]


def outcomes(verdict):
    """Integrity checks by what they said."""
    return {
        entry.name.removeprefix("integrity/"): entry.outcome
        for entry in verdict.rules
        if entry.role == "integrity"
    }


def not_passed(verdict):
    return {name for name, outcome in outcomes(verdict).items() if outcome is not Outcome.PASS}


def test_every_integrity_check_has_a_planted_fault():
    registered = {*integrity.CHECKS, "complete", "readable"}

    assert {fault.check for fault in FAULTS} == registered
    assert set(outcomes(GOOD.verdict())) == registered - {"readable"}


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_only_the_check_meant_fails_and_beside_it_none_does(fault):
    faulty, passing = fault.fault.verdict(), fault.neighbour.verdict()
    early = fault.check == "complete"

    assert not_passed(faulty) == {fault.check} | fault.others
    assert faulty.status is (Status.INCONCLUSIVE if early else Status.INVALID)
    assert faulty.exit_code == (11 if early else 12)
    assert faulty.reasons[0].startswith(f"integrity/{fault.check}: ")
    assert faulty.to_change
    assert (passing.status, not_passed(passing)) == (Status.GO, set())


@pytest.mark.parametrize(
    ("places", "fault", "neighbour"), [case[2:] for case in NUMBERS], ids=NUMBER_IDS
)
def test_numbers_of_a_row_that_contradict_each_other_are_seen(places, fault, neighbour):
    faulty = with_numbers(places, fault).verdict()
    passing = with_numbers(places, neighbour).verdict()

    assert not_passed(faulty) == {"numbers_agree"}
    assert faulty.exit_code == 12
    assert (passing.status, not_passed(passing)) == (Status.GO, set())


def terms():
    """What `contradictory` and `_ended_otherwise` look for: (line, their source without it)."""
    tree = ast.parse(inspect.getsource(consistency))
    looking = [node for node in tree.body if isinstance(node, ast.FunctionDef)
               and node.name in ("contradictory", "_ended_otherwise")]  # fmt: skip
    found = []
    for node in (node for function in looking for node in ast.walk(function)):
        if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(node).startswith("wrong"):
            found.append((node, "value", "np.zeros(batch.num_rows, dtype=bool)"))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            found += [(node, side, "False") for side in ("left", "right")
                      if ast.unparse(getattr(node, side)) != "wrong"]  # fmt: skip
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("np.where(cut"):
            found += [(node, place, "np.zeros(len(cut), dtype=bool)") for place in (1, 2)]
    for node, where, nothing in found:
        holder, key = (node.args, where) if isinstance(where, int) else (vars(node), where)
        whole, holder[key] = holder[key], ast.parse(nothing, mode="eval").body
        yield ast.unparse(whole), ast.unparse(ast.fix_missing_locations(tree))
        holder[key] = whole


TERMS = dict(terms())


def seen_by(source):
    """Which of the faults of numbers a version of `consistency` sees."""
    names = {"__name__": consistency.__name__}
    exec(compile(source, consistency.__name__, "exec"), names)  # noqa: S102 - the module itself
    seen = set()
    for planted, _, places, fault, _ in NUMBERS:
        table = to_table(with_numbers(places, fault).rows)
        texts = table.column("sampling").to_pylist()
        kinds = sorted(set(texts))
        which = np.array([kinds.index(text) for text in texts])
        (batch,) = table.combine_chunks().to_batches()
        settings = [names["read_settings"](text) for text in kinds]
        if names["contradictory"](batch, settings, which).any():
            seen.add(planted)
    return seen


def test_all_terms_are_found():
    assert len(TERMS) == 10
    assert seen_by(inspect.getsource(consistency)) == set(NUMBER_IDS)


@pytest.mark.parametrize("term", TERMS)
def test_no_term_of_the_comparison_can_be_left_out_unseen(term):
    assert seen_by(TERMS[term]) < set(NUMBER_IDS)


@pytest.mark.parametrize(("faulty", "rest"), [(5, ""), (6, " and 1 more"), (9, " and 4 more")])
def test_five_of_what_is_wrong_are_named_and_the_rest_counted(faulty, rest):
    verdict = Given(changed(*range(0, 3 * faulty, 3), tpot_s=9.0)).verdict()
    named = [row.request_id for row in ROWS[: 3 * faulty : 3]]

    (reason,) = (entry.reason for entry in verdict.rules if entry.name.endswith("numbers_agree"))
    assert reason == f"numbers contradict each other in {', '.join(sorted(named)[:5])}{rest}"

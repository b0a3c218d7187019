"""A verdict that says what plan and rows do not."""

from __future__ import annotations

import zipfile

import pytest

from specdecode.governance import Status
from tests.governance.bundles import case, edited, repacked
from tests.governance.plans import FASTER
from tests.governance.tamper.attacks import unsigned
from tests.measurement.factories import run


def entry(document, name, stratum=None):
    return next(e for e in document["rules"] if (e["name"], e["stratum"]) == (name, stratum))


def without(document, name):
    document["rules"] = [e for e in document["rules"] if e["name"] != name]


VERDICTS = {
    "an estimate": (lambda v: entry(v, "block-faster").update(estimate=1.6), "rules",
                    "block-faster: estimate 1.6, the rows give"),
    "an estimate left out": (
        lambda v: entry(v, "tail").update(estimate=None, low=None, high=None, level=None),
        "rules", "was left out"),
    "a threshold": (lambda v: entry(v, "acceptance").update(threshold=1.0), "rules",
                    "acceptance: threshold 1.0, the plan says 2.0"),
    "a level": (lambda v: entry(v, "tail").update(level=0.5), "rules", "level is not the plan's"),
    "n": (lambda v: entry(v, "tail").update(n=99), "rules", "tail: n 99, the rows have 24"),
    "the lower end of an interval": (
        lambda v: entry(v, "block-faster").update(low=1.2), "rules",
        "block-faster: low 1.2, the rows give"),
    "the upper end of an interval": (
        lambda v: entry(v, "everywhere", "language=en").update(high=9.0), "rules",
        "everywhere: high 9.0 in language=en, the rows give"),
    "a tail's interval upside down": (
        lambda v: entry(v, "tail").update(low=1.0, high=0.9), "rules", "upside down"),
    "a tail's interval that says something else": (
        lambda v: entry(v, "tail").update(low=5.0, high=6.0), "rules",
        "'pass', where the numbers say 'fail'"),
    "an outcome": (lambda v: entry(v, "first").update(outcome="fail"), "rules", "first: 'fail'"),
    "a stratum's outcome": (
        lambda v: entry(v, "everywhere", "language=zh").update(outcome="pass"), "rules",
        "everywhere: 'pass' in language=zh"),
    "a rule's role": (lambda v: entry(v, "tail").update(role="secondary"), "rules", "role"),
    "whether it counts": (lambda v: entry(v, "tail").update(counts=False), "rules", "counts"),
    "a stratum left out": (
        lambda v: v["rules"].remove(entry(v, "everywhere", "language=zh")), "rules", "strata"),
    "a rule left out": (lambda v: without(v, "tail"), "rules", "other rules than the plan has"),
    "an error rate": (lambda v: entry(v, "block-errors").update(estimate=0.05), "rules",
                      "block-errors: estimate 0.05, the rows give 0.0"),
    "a check left out": (lambda v: without(v, "integrity/missing"), "integrity",
                         "leaves out the check missing"),
    "the early end left out": (lambda v: without(v, "integrity/complete"), "integrity", "complete"),
    "rows": (lambda v: v.update(rows=999), "counts", "999 rows in the verdict, 144 here"),
    "prompts": (lambda v: v.update(prompts=25), "counts", "25 prompts, the rows have 24"),
    "the claim": (lambda v: v.update(claim="block is free"), "counts", "claim"),
    "the status": (lambda v: v.update(status="NO_GO"), "status", "NO_GO, where the outcomes give"),
    "the reasons": (lambda v: v.update(reasons=["trust me"]), "status", "the reasons are not"),
    "the plan it names": (lambda v: v.update(plan_sha256="0" * 64), "plan", "of plan 000000000000"),
    "the inputs it names": (lambda v: v.update(manifest_sha256="0" * 64), "inputs",
                            "of other inputs"),
    "the rows it names": (lambda v: v.update(rows_sha256="0" * 64), "rows", "000000000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_a_changed_verdict_is_not_what_plan_and_rows_give(bundle, checked, name):
    change, seen_by, cause = VERDICTS[name]
    attacked = unsigned(bundle, **{"verdict.json": edited(bundle["verdict.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code == 3
    assert {seen_by, "ledger", "approvals"} <= wrong
    assert cause in text


def test_rules_cannot_be_judged_on_rows_that_are_invalid(tmp_path, checked):
    broken = case(FASTER, rows=[r for r in run(24) if r.arm != "token"])
    with zipfile.ZipFile(broken.write(tmp_path)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change = lambda v: entry(v, "block-faster").update(outcome="pass")  # noqa: E731

    code, _, text = checked(
        repacked(files | {"verdict.json": edited(files["verdict.json"], change)})
    )

    assert broken.verdict.status is Status.INVALID
    assert code == 3
    assert "rules judged on invalid rows" in text


def test_an_interval_narrowed_within_reason_is_seen_by_ledger_and_approval_only(bundle, checked):
    """The limit that VERIFY.md states: interval ends are not recomputed."""
    change = lambda v: entry(v, "tail").update(low=entry(v, "tail")["estimate"])  # noqa: E731
    attacked = unsigned(bundle, **{"verdict.json": edited(bundle["verdict.json"], change)})

    assert checked(repacked(attacked))[:2] == (3, {"ledger", "approvals"})


def test_the_order_of_its_entries_is_the_plans(bundle, checked):
    change = lambda v: v["rules"].reverse()  # noqa: E731
    attacked = unsigned(bundle, **{"verdict.json": edited(bundle["verdict.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"status", "ledger", "approvals"})
    assert "the reasons are not those of the deciding rules" in text

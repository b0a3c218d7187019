"""Rows, audits, manifests and plans of which exactly one integrity check says: no evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from specdecode.governance import PLAN_ENTRY, Plan, Verdict, decide, plan_sha256, sealed_sha256
from specdecode.measurement.records import Record, to_table
from tests.governance.plans import ARMS, FASTER, small_plan
from tests.measurement.factories import MANIFEST, OTHER_MANIFEST, audit, record, run

ROWS = run(20)
PLAN = small_plan(prompts_expected={"full": 20})
OTHER_PLAN = small_plan(FASTER | {"threshold": 1.3})
_OF_ROWS: Any = object()


@dataclass(frozen=True)
class Given:
    """What `decide` is given. The audit is of the rows and clears every arm, unless it is given."""

    rows: list[Record] = field(default_factory=lambda: ROWS)
    plan: Plan = PLAN
    audit: Any = _OF_ROWS
    manifest: Any = None
    table: Callable[[pa.Table], pa.Table] = lambda table: table

    def verdict(self) -> Verdict:
        own = audit(self.rows) if self.audit is _OF_ROWS else self.audit
        return decide(self.plan, self.table(to_table(self.rows)), own, self.manifest)


@dataclass(frozen=True)
class IntegrityFault:
    """A fault of the evidence. `others`: checks that cannot help but see it too."""

    check: str
    planted: str
    beside: str
    fault: Given
    neighbour: Given
    others: frozenset[str] = frozenset()


def changed(*places: int, **values: Any) -> list[Record]:
    """ROWS with fields of some of them changed."""
    return [
        row.model_copy(update=values) if place in places else row for place, row in enumerate(ROWS)
    ]


def every(change: Callable[[Record], Mapping[str, Any]], **match: str) -> list[Record]:
    """ROWS with fields of those that match changed."""
    return [
        row.model_copy(update=change(row))
        if all(getattr(row, name) == value for name, value in match.items())
        else row
        for row in ROWS
    ]


def allowing(share: float) -> Plan:
    return small_plan(prompts_expected={"full": 19}, missing_data={"max_missing_share": share})


def drafting(gamma: int) -> Plan:
    block = ARMS[2] | {"num_speculative_tokens": gamma}
    return small_plan(prompts_expected={"full": 20}, arms=[*ARMS[:2], block])


def named(document: Any) -> Given:
    return Given(manifest=document)


def sealed(plan: Plan, entry: str | None = None) -> Given:
    """Rows and manifest that name the plan they were measured for; `entry` forges that name."""
    entries = {"lock": "c" * 64, PLAN_ENTRY: plan_sha256(plan)}
    seal = sealed_sha256(entries)
    rows = [row.model_copy(update={"manifest_sha256": seal}) for row in ROWS]
    if entry is not None:
        entries[PLAN_ENTRY] = entry
    return Given(rows, manifest={"entries": entries, "manifest_sha256": seal})


def drawn(temperature: float, setting: str) -> list[Record]:
    """All arms of one request decoded at this temperature."""
    return [
        row.model_copy(update={"sampling": row.sampling | {"temperature": temperature}})
        if (row.prompt_id, row.sampling_name) == ("p0004", setting)
        else row
        for row in ROWS
    ]


GOOD = Given()
IDLE = every(lambda row: {"drafted": 0, "accepted": 0, "acceptance_histogram": [row.steps]},
             arm="block")  # fmt: skip
LOST = {"error": "out of memory"}
OTHERS = frozenset
FAULTS = (
    IntegrityFault("readable", "a column is left out", "all columns",
                   Given(table=lambda table: table.drop_columns(["sampling"])), GOOD),
    IntegrityFault("rows_present", "there are no rows", "all rows", Given([]), GOOD,
                   OTHERS({"arms", "sampling", "stage", "complete"})),
    IntegrityFault("unique", "a row twice", "once", Given([*ROWS, ROWS[3]]), GOOD),
    IntegrityFault("unique", "two rows with one request id", "an id each",
                   Given(changed(0, request_id=ROWS[1].request_id)), GOOD),
    IntegrityFault("manifest", "the manifest at hand is another than the rows name", "the same",
                   named({"manifest_sha256": OTHER_MANIFEST}),
                   named({"manifest_sha256": MANIFEST})),
    IntegrityFault("manifest", "one row of other inputs", "all of the same",
                   Given(changed(0, manifest_sha256=OTHER_MANIFEST)), GOOD),
    IntegrityFault("manifest", "the manifest is not an object", "none is given", named(["x"]),
                   GOOD),
    IntegrityFault("audit_of_these_rows", "the audit is of all rows but one", "of all rows",
                   Given(audit=audit(ROWS[1:])), GOOD),
    IntegrityFault("audit_of_these_rows", "the audit does not name its rows", "it names them",
                   Given(audit=audit(ROWS) | {"rows_sha256": None}), GOOD),
    IntegrityFault("audit_of_these_rows", "the audit is not an object", "it is one",
                   Given(audit=[audit(ROWS)]), GOOD),
    IntegrityFault("plan_of_these_rows", "the rows were measured for a plan with another threshold",
                   "for this one", sealed(OTHER_PLAN), sealed(PLAN)),
    IntegrityFault("plan_of_these_rows", "this plan's name put under the seal of another",
                   "under its own", sealed(OTHER_PLAN, plan_sha256(PLAN)), sealed(PLAN)),
    IntegrityFault("arms", "a row of an arm the plan does not have", "of its arms only",
                   Given([*ROWS, record("p0000", "lossy", category="arithmetic")]), GOOD),
    IntegrityFault("arms", "no rows of the comparator", "rows of it",
                   Given([row for row in ROWS if row.arm != "token"]), GOOD,
                   OTHERS({"missing"})),
    IntegrityFault("sampling", "no sampled rows", "sampled ones too",
                   Given([row for row in ROWS if row.sampling_name == "greedy"]), GOOD,
                   OTHERS({"missing"})),
    IntegrityFault("sampling", "a request of the setting sampled decoded at temperature 0",
                   "at temperature 0.1", Given(drawn(0.0, "sampled")),
                   Given(drawn(0.1, "sampled"))),
    IntegrityFault("sampling", "a request of the setting greedy decoded at temperature 0.1",
                   "at temperature 0", Given(drawn(0.1, "greedy")), Given(drawn(0.0, "greedy"))),
    IntegrityFault("stage", "one row of the stage canary", "all of the plan's stage",
                   Given(changed(5, stage="canary")), GOOD),
    IntegrityFault("same_inputs", "one arm saw another first token", "all arms the same",
                   Given(changed(1, prompt_token_ids=[9, 2, 3])), GOOD),
    IntegrityFault("same_inputs", "one arm was asked with top_k", "all arms with the same",
                   Given(changed(1, sampling=ROWS[1].sampling | {"top_k": 5})),
                   Given(changed(0, 1, 2, sampling=ROWS[1].sampling | {"top_k": 5}))),
    IntegrityFault("same_inputs", "one arm's row has another category", "all arms the same",
                   Given(changed(1, category="chat")), GOOD),
    IntegrityFault("numbers_agree", "a histogram of another number of steps", "of as many",
                   Given(changed(1, steps=99)), GOOD),
    IntegrityFault("missing", "2 of 40 requests lack a row, 1 may", "1 of 40 lacks one",
                   Given(ROWS[4:-1], allowing(1 / 40)), Given(ROWS[:-1], allowing(1 / 40))),
    IntegrityFault("missing", "a time is null", "none is",
                   Given(changed(0, e2e_s=None, tpot_s=None)), GOOD),
    IntegrityFault("missing", "a count of a drafting arm is null", "of one that does not draft",
                   Given(changed(1, accepted=None)), Given(changed(0, accepted=None))),
    IntegrityFault("missing", "a score in two arms of three", "in none",
                   Given(changed(7, quality=None)), Given(changed(6, 7, 8, quality=None))),
    IntegrityFault("baseline_works", "2 of 40 requests of the baseline fail, 1 may", "1 fails",
                   Given(changed(0, 3, **LOST), allowing(1 / 40)),
                   Given(changed(0, **LOST), allowing(1 / 40))),
    IntegrityFault("speculation", "the baseline drafted", "it did not",
                   Given(changed(0, drafted=4)), GOOD),
    IntegrityFault("speculation", "the candidate never drafted", "it did", Given(IDLE), GOOD),
    IntegrityFault("speculation", "5 tokens are to be drafted, the histograms say 4", "4 are",
                   Given(plan=drafting(5)), Given(plan=drafting(4))),
    IntegrityFault("complete", "20 prompts of 21", "20 of 20",
                   Given(plan=small_plan(prompts_expected={"full": 21})), GOOD),
    IntegrityFault("complete", "rows of two profiles", "of one",
                   Given(changed(0, profile="smoke"),
                         small_plan(prompts_expected={"full": 20, "smoke": 20})), GOOD),
    IntegrityFault("complete", "a profile the plan does not know", "one it knows",
                   Given(every(lambda _: {"profile": None})), GOOD),
)  # fmt: skip

# Faults of one row's numbers: places of the rows changed, the fault, the neighbour.
PLAIN, TOKEN, BLOCK = ROWS[:3]


def limit(tokens: int | str) -> dict[str, Any]:
    return {"sampling": PLAIN.sampling | {"max_tokens": tokens}}


def told(share: float) -> dict[str, Any]:
    assert PLAIN.tpot_s is not None
    return {"tpot_s": PLAIN.tpot_s * share}


LONGEST = max(row.output_tokens or 0 for row in ROWS[:3])
Change = dict[str, Any]
SILENT: Change = {"output_tokens": 0, "output_token_ids": [], "tpot_s": None,
                  "finish_reason": "stop"}  # fmt: skip
NUMBERS: tuple[tuple[str, str, tuple[int, ...], Change, Change], ...] = (
    ("the histogram has one step more than there were", "as many", (1,),
     {"steps": (TOKEN.steps or 0) - 1}, {"steps": TOKEN.steps}),
    ("one token accepted more than the histogram says", "as many", (1,),
     {"accepted": (TOKEN.accepted or 0) + 1}, {"accepted": TOKEN.accepted}),
    ("one token more accepted than drafted", "as many", (1,),
     {"drafted": (TOKEN.accepted or 0) - 1}, {"drafted": TOKEN.accepted}),
    ("the first token after the last", "both at once", (0,),
     {"ttft_s": (PLAIN.e2e_s or 0) * 1.001, "tpot_s": None},
     {"ttft_s": PLAIN.e2e_s, "tpot_s": None}),
    ("one token more than was asked for", "as many", (0, 1, 2),
     limit(LONGEST - 1), limit(LONGEST)),
    ("cut by its length and one token shorter", "ended by itself", (0,),
     {"finish_reason": "length", **limit((PLAIN.output_tokens or 0) + 1)},
     {"finish_reason": "stop", **limit((PLAIN.output_tokens or 0) + 1)}),
    ("a limit that is no number", "a number", (0, 1, 2), limit("32"), limit(32)),
    ("a limit that is no number, and replies without a token", "a number", (0, 1, 2),
     SILENT | limit("32"), SILENT | limit(32)),
    ("a time per token 0.2 % beside its parts", "0.05 %", (0,), told(1.002), told(1.0005)),
)  # fmt: skip


def with_numbers(places: tuple[int, ...], change: Change) -> Given:
    """The rows changed; where one arm is asked otherwise, so are the others."""
    rows = changed(*places, **change)
    if "sampling" in change:
        rows = [row.model_copy(update={"sampling": change["sampling"]}) if place < 3 else row
                for place, row in enumerate(rows)]  # fmt: skip
    return replace(GOOD, rows=rows)

"""From what was learnt about an arm to a verdict with reasons."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from specdecode.audit.drift import LARGEST_HARMLESS
from specdecode.audit.eprocess import MAIN_SHARE, STAKES
from specdecode.audit.greedy import against_baseline
from specdecode.audit.judge import Evidence, Judgement
from specdecode.audit.rows import RowSet
from specdecode.statistics.binomial import excess_p_value

Finding = Literal["lossless", "biased", "undecided"]

# At alpha = 0.01, faults whose mean total variation per token is 0.05 (output drawn from the
# draft, residual replaced by the target's law, temperature off by a tenth) cross in 90 % of
# simulated runs within about 2 300 tokens; tests/audit/test_power.py repeats the simulation.
_TOKENS_AT_ONE_PERCENT = 2500
# log(1 / share of one main direction at one stake): what a bet has to earn before the mixture can
# reject.
_ENTRY_FEE = math.log(3 * len(STAKES) / MAIN_SHARE)
# A greedy fault that strikes one token in a hundred is to be missed with probability alpha.
_GREEDY_FAULT_RATE = 0.01
_TOLD = 3  # reasons that are told in words
_LARGEST_LOG = math.log(1e300)


def min_sampled_tokens(alpha: float) -> int:
    """Sampled tokens below which silence means nothing.

    Time to detection grows with log(1/alpha) plus the entry fee of the mixture.
    """
    at_one_percent = math.log(100) + _ENTRY_FEE
    return math.ceil(_TOKENS_AT_ONE_PERCENT * (math.log(1 / alpha) + _ENTRY_FEE) / at_one_percent)


def min_greedy_tokens(alpha: float) -> int:
    """Greedy tokens after which a fault in one token of a hundred would be missed with <= alpha."""
    return math.ceil(math.log(alpha) / math.log1p(-_GREEDY_FAULT_RATE))


@dataclass(frozen=True)
class AuditReport:
    """Losslessness of the outputs of one arm.

    Attributes:
        verdict: "biased" if anything was found; "lossless" if nothing was, every kind of row
            present was read in sufficient number, and the draft is known where sampled rows say
            that tokens were drafted; else "undecided".
        reasons: why, worst first; never empty.
        alpha: probability of calling a correct engine biased by its sampled rows.
        e_value: evidence against losslessness after the last token (1 = none); biased once it has
            reached 1/alpha at any time. Cut at 1e300; `log_e_value` is exact.
        log_e_value: natural logarithm of the evidence after the last token.
        max_log_e_value: largest value on the way; log(1/alpha) or more means rejection.
        tokens_read: sampled tokens behind the evidence. Greedy tokens are counted in `greedy`.
        first_evidence: where it first sufficed, or None.
        min_tokens: sampled tokens needed before silence counts as lossless.
        directions: log evidence by direction ("draft", "sharper", "flatter", "tail", "order",
            "repeat", "latest", and with steps "bonus: …" and "after rejection: …").
        evidence: thinned curve of (tokens read, log evidence) for a picture.
        sampled: counts and finding of the sampled rows; None when there were none.
        greedy: counts, tolerance, control and finding of the greedy rows; None when none.
        rows: how many were read, judged, in error, or unjudgeable, with reasons.
        carried_by: the log evidence split by output position, place in a step, stratum and
            sampling parameters: table -> group -> {tokens, log_e_value}. Sums of "positions",
            "places" and "parameters", and of each attribute in "strata", give `log_e_value`.
        draft_honesty: what traces tell about draft tokens and coins; None without traces. A draft
            that is not what it says leaves a lossless output undecided.
    """

    verdict: Finding
    reasons: list[str]
    alpha: float
    e_value: float
    log_e_value: float
    max_log_e_value: float
    tokens_read: int
    first_evidence: Evidence | None
    min_tokens: int
    directions: dict[str, float]
    evidence: list[tuple[int, float]]
    sampled: dict[str, Any] | None
    greedy: dict[str, Any] | None
    rows: dict[str, Any]
    carried_by: dict[str, dict[str, dict[str, float | int]]]
    draft_honesty: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON-safe values."""
        document = asdict(self)
        document["evidence"] = [[tokens, log_e] for tokens, log_e in self.evidence]
        return document


def report_of(judgement: Judgement, alpha: float, control: Judgement | None) -> AuditReport:
    """Draws the conclusion.

    Args:
        judgement: of the arm in question.
        alpha: level.
        control: of plain decoding, judged by the same rule; None when there is none.
    """
    min_tokens = min_sampled_tokens(alpha)
    parts: list[tuple[Finding, list[str]]] = []
    sampled = greedy = None
    if judgement.process.tokens_read:
        finding, reasons = _sampled_finding(judgement, min_tokens, control)
        parts.append((finding, reasons))
        sampled = {
            "verdict": finding,
            "rows": judgement.sampled.rows,
            "tokens": judgement.process.tokens_read,
            "border_ties": judgement.sampled.border_ties,
            "impossible": judgement.sampled.impossible,
            "impossible_tokens": judgement.sampled.listed,
            "draft_known": judgement.has_draft,
            "noise": judgement.drift.to_json(),
            "control_log_e_value": None
            if control is None or not control.process.tokens_read
            else control.process.log_e,
        }
    if judgement.greedy.tokens:
        greedy = _greedy_section(judgement, alpha, control)
        finding, reasons = _greedy_finding(greedy, alpha)
        greedy["verdict"] = finding
        parts.append((finding, reasons))
    honesty = judgement.honesty.summary(min_tokens)
    if honesty is not None and honesty["verdict"] == "dishonest":
        parts.append(
            ("undecided", [f"the draft is not what it says: {r}" for r in honesty["reasons"]])
        )
    verdict, reasons = _overall(parts, judgement)
    log_e = judgement.process.log_e
    return AuditReport(
        verdict=verdict,
        reasons=reasons,
        alpha=alpha,
        e_value=math.exp(min(log_e, _LARGEST_LOG)),
        log_e_value=log_e,
        max_log_e_value=judgement.process.max_log_e,
        tokens_read=judgement.process.tokens_read,
        first_evidence=judgement.first_evidence,
        min_tokens=min_tokens,
        directions=judgement.process.by_direction,
        evidence=judgement.process.points,
        sampled=sampled,
        greedy=greedy,
        rows={
            "total": judgement.rows.total,
            "judged": len(judgement.rows.rows),
            "errors": [{"row": row, "error": why} for row, why in judgement.rows.errors],
            "unjudged": [{"row": row, "reason": why} for row, why in judgement.rows.unjudged],
            "error_count": judgement.rows.error_count,
            "unjudged_count": sum(judgement.rows.why_unjudged.values()),
        },
        carried_by=judgement.carriers.to_json(),
        draft_honesty=honesty,
    )


def _sampled_finding(
    judgement: Judgement, min_tokens: int, control: Judgement | None
) -> tuple[Finding, list[str]]:
    process = judgement.process
    reasons = []
    if judgement.sampled.impossible:
        reasons.append(
            f"{judgement.sampled.impossible} sampled tokens have probability 0 under the target "
            "with the requested sampling parameters"
        )
    if process.crossed_at is not None:
        reasons.append(
            f"the evidence reached 1/alpha after {process.crossed_at} sampled tokens; by then the "
            f"bet that they lean {process.crossed_by} had gained most"
        )
    if reasons:
        if control is not None and (
            control.process.crossed_at is not None or control.sampled.impossible
        ):
            reasons.append(
                "plain decoding is biased by the same test, so the reference does not describe "
                "this engine (other weights, dtype, template or parameters?) and speculation may "
                "not be the cause"
            )
        return "biased", reasons
    if process.tokens_read < min_tokens:
        reasons.append(
            f"{process.tokens_read} sampled tokens were read without a finding; at least "
            f"{min_tokens} are needed before that counts as lossless"
        )
    if judgement.rows.drafted and not judgement.has_draft:
        reasons.append(
            "tokens were drafted for these rows, and without the draft outputs that lean towards "
            "it, the usual fault of a verifier, go unseen; give the draft that was used "
            "(--draft on the command line, draft= in Python)"
        )
    if judgement.drift.too_large:
        reasons.append(
            "numerical noise of the reference alone earns bets of more than "
            f"{LARGEST_HARMLESS} a token, which could hide a fault; audit with the target in "
            "float32"
        )
    if reasons:
        return "undecided", reasons
    looked = "sharper, flatter, tail, order of the vocabulary, repeat, latest"
    if judgement.rows.stepped:
        looked += ", bonus tokens, tokens after a rejection"
    looked = (
        f"towards the draft, {looked}"
        if judgement.has_draft
        else f"{looked}; without the draft, outputs that lean towards it go unseen"
    )
    return "lossless", [
        f"{process.tokens_read} sampled tokens gave no evidence of bias (looked: {looked})"
    ]


def _greedy_section(
    judgement: Judgement, alpha: float, control: Judgement | None
) -> dict[str, Any]:
    tally = judgement.greedy
    section: dict[str, Any] = {
        **tally.summary(),
        "tie_tolerance": judgement.tolerance.gap,
        "tolerance": judgement.tolerance.to_json(),
        "min_tokens": min_greedy_tokens(alpha),
        "listed_failures": tally.listed_failures(),
        "divergences": tally.divergences(
            judgement.tolerance, None if control is None else control.greedy
        ),
        "control": None,
        "tie_excess_p_value": None,
        "failure_excess_p_value": None,
        "against_baseline": None,
    }
    if control is not None and control.greedy.tokens:
        other = control.greedy
        section["control"] = other.summary()
        section["tie_excess_p_value"] = excess_p_value(
            tally.ties, tally.tokens, other.ties, other.tokens
        )
        section["failure_excess_p_value"] = excess_p_value(
            tally.failures, tally.tokens, other.failures, other.tokens
        )
        section["against_baseline"] = against_baseline(
            judgement.rows.rows, tally, control.rows.rows, other
        )
    return section


def _greedy_finding(section: dict[str, Any], alpha: float) -> tuple[Finding, list[str]]:
    failures, tokens = section["failures"], section["tokens"]
    control = section["control"]
    if failures:
        text = (
            f"{failures} of {tokens} greedy tokens fall short of the best one by more than the "
            f"measured tolerance of {section['tie_tolerance']:.3g}"
        )
        if control is None or not control["failures"] or section["failure_excess_p_value"] < alpha:
            return "biased", [text]
        return "undecided", [
            f"{text}, but so do {control['failures']} of {control['tokens']} of plain decoding: "
            "the reference does not describe this engine"
        ]
    reasons = []
    if section["tie_excess_p_value"] is not None and section["tie_excess_p_value"] < alpha:
        reasons.append(
            f"{section['ties']} ties in {tokens} greedy tokens are more than plain decoding shows "
            f"({control['ties']} in {control['tokens']})"
        )
    compared = section["against_baseline"]
    if compared is not None and compared["ends_differ"]:
        reasons.append(
            f"{compared['ends_differ']} greedy outputs agree with plain decoding but end elsewhere"
        )
    if tokens < section["min_tokens"]:
        reasons.append(
            f"{tokens} greedy tokens were read without a failure; at least "
            f"{section['min_tokens']} are needed before that counts as lossless"
        )
    if reasons:
        return "undecided", reasons
    return "lossless", [
        f"{tokens} greedy tokens are the target's own choice ({section['ties']} within the "
        "measured tolerance)"
    ]


def _why_unjudged(rows_read: RowSet) -> str:
    """How many rows, for which reasons, and one to look at; more of them are in rows.unjudged."""
    counts = Counter(rows_read.why_unjudged).most_common()
    example = {why: label for label, why in reversed(rows_read.unjudged)}
    told = [
        f"{n} because {why}" + (f", such as {example[why]}" if why in example else "")
        for why, n in counts[:_TOLD]
    ]
    if rest := sum(n for _, n in counts[_TOLD:]):
        told.append(f"{rest} for other reasons")
    total = sum(n for _, n in counts)
    rows = "row" if total == 1 else "rows"
    return f"{total} {rows} could not be judged (rows.unjudged): {'; '.join(told)}"


def _overall(
    parts: list[tuple[Finding, list[str]]], judgement: Judgement
) -> tuple[Finding, list[str]]:
    if not parts:
        parts = [("undecided", ["no tokens were judged"])]
    read = {"sampled": judgement.process.tokens_read, "greedy": judgement.greedy.tokens}
    for kind in sorted(judgement.rows.requested):
        if not read[kind]:
            # An arm that only ever failed on one kind of request must not pass on the other.
            parts = [*parts, ("undecided", [f"{kind} rows were requested but none was judged"])]
    if judgement.rows.unjudged:
        parts = [*parts, ("undecided", [_why_unjudged(judgement.rows)])]
    order: tuple[Finding, ...] = ("biased", "undecided", "lossless")
    ranked = sorted(parts, key=lambda part: order.index(part[0]))
    return ranked[0][0], [reason for _, reasons in ranked for reason in reasons]

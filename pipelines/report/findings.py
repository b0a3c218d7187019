"""What a rule found, said in the language of the page from the codes and numbers of the verdict.

The gate writes its reasons in English, and they are the record. On a page in another language the
same sentence is made again from kind, outcome and numbers. Where these do not tell it all (what a
failed integrity check saw, say), the gate's own words are shown, marked as English.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.report.section import Quoted
from pipelines.report.words import Words

AT_LEAST = frozenset(
    ("speed_ratio", "quality_non_inferiority", "acceptance_length", "efficiency_gain", "strata")
)
AT_MOST = frozenset(("tail_latency", "token_amplification", "error_rate"))

Json = Mapping[str, Any]


def finding(rule: Json, plan: Json | None, words: Words) -> str | Quoted:
    """The reason of a rule, in the language of the page where its codes tell it.

    Args:
        rule: an entry of the verdict.
        plan: the plan, for what the entry does not repeat (`n_min`, which latency); None when it
            was not kept.
        words: texts of the page.
    """
    reason = str(rule.get("reason") or "")
    if words.language == "en":
        return reason
    return composed(rule, plan, words) or Quoted(reason, "en")


def reasons(verdict: Json, plan: Json | None, words: Words) -> list[str | Quoted]:
    """Why the verdict is what it is; sentences no rule accounts for stay as they are written."""
    by_sentence = {_sentence(rule, rule.get("reason")): rule for rule in verdict.get("rules") or ()}
    found: list[str | Quoted] = []
    for text in verdict.get("reasons") or ():
        rule = by_sentence.get(str(text))
        said = None if rule is None or words.language == "en" else composed(rule, plan, words)
        if said is None or rule is None:
            found.append(str(text) if words.language == "en" else Quoted(str(text), "en"))
        else:
            found.append(_sentence(rule, said))
    return found


def remedies(verdict: Json, plan: Json | None, words: Words) -> list[str | Quoted]:
    """What would change the verdict, by the gate."""
    by_remedy = {rule.get("remedy"): rule for rule in verdict.get("rules") or ()}
    found: list[str | Quoted] = []
    for text in dict.fromkeys(str(text) for text in verdict.get("to_change") or ()):
        rule = by_remedy.get(text)
        said = None if rule is None or words.language == "en" else remedy(rule, plan, words)
        found.append(said or (text if words.language == "en" else Quoted(text, "en")))
    return found


def composed(rule: Json, plan: Json | None, words: Words) -> str | None:
    """The reason from the codes; None where they do not tell it."""
    kind, outcome, arm = rule.get("kind"), str(rule.get("outcome")), str(rule.get("arm"))
    if kind == "losslessness" and outcome in ("pass", "fail", "undecided"):
        return words(f"finding.lossless_{outcome}", arm=arm)
    if kind == "error_rate" and outcome in ("pass", "fail"):
        return _failures(rule, words)
    label, wanted = _label(rule, plan, words), _of_plan(rule, plan).get("n_min")
    if label is None:
        return None
    where = _where(rule, words)
    if outcome == "insufficient" and wanted is not None:
        n = rule.get("n")
        return words("finding.insufficient", n=n, where=where, wanted=wanted, label=label)
    ends = [rule.get(name) for name in ("estimate", "low", "high", "level", "threshold")]
    if outcome not in ("pass", "fail", "undecided") or any(end is None for end in ends):
        return None
    estimate, low, high, level, _ = (float(end) for end in ends if end is not None)
    return words(
        "finding.interval",
        label=label,
        where=where,
        estimate=f"{estimate:.4g}",
        level=f"{100 * level:.4g}",
        low=f"{low:.4g}",
        high=f"{high:.4g}",
        n=rule.get("n"),
        wanted=wanted_of(rule, words),
        conclusion=words(f"finding.{_conclusion(rule, outcome)}"),
    )


def remedy(rule: Json, plan: Json | None, words: Words) -> str | None:
    """What would change the outcome of a rule; None where the codes do not tell it."""
    outcome, label = str(rule.get("outcome")), _label(rule, plan, words)
    if rule.get("kind") == "losslessness" and outcome in ("fail", "undecided"):
        return words(f"remedy.lossless_{outcome}")
    if label is None:
        return None
    if outcome in ("fail", "undecided"):
        return words(
            f"remedy.{outcome}",
            label=label,
            where=_where(rule, words),
            wanted=wanted_of(rule, words),
        )
    wanted = _of_plan(rule, plan).get("n_min")
    if outcome == "insufficient" and wanted is not None:
        return words(
            "remedy.insufficient", n=rule.get("n"), where=_where(rule, words), wanted=wanted
        )
    return None


def wanted_of(rule: Json, words: Words) -> str:
    """What the plan asks for, such as "at least 1.1"."""
    side = "at_least" if rule.get("kind") in AT_LEAST else "at_most"
    return words(f"finding.{side}", threshold=f"{rule['threshold']:g}")


def stratum_label(stratum: str, words: Words) -> str:
    """A stratum such as "language=ja" with the field by its name."""
    by, _, value = stratum.partition("=")
    return f"{words.label('by', by)} = {value}" if value else stratum


def _conclusion(rule: Json, outcome: str) -> str:
    if outcome != "pass":
        return {"fail": "missed", "undecided": "undecided"}[outcome]
    low, high, limit = float(rule["low"]), float(rule["high"]), float(rule["threshold"])
    shown = low >= limit if rule.get("kind") in AT_LEAST else high <= limit
    return "shown" if shown else "no_violation"


def _where(rule: Json, words: Words) -> str:
    return words("finding.where", stratum=rule["stratum"]) if rule.get("stratum") else ""


def _failures(rule: Json, words: Words) -> str | None:
    rate, n, most = rule.get("estimate"), rule.get("n"), rule.get("threshold")
    if rate is None or not n or most is None:
        return None
    return words("finding.failures", failed=round(rate * n), n=n, most=f"{most:.2%}")


def _label(rule: Json, plan: Json | None, words: Words) -> str | None:
    kind, of_plan = str(rule.get("kind")), _of_plan(rule, plan)
    if kind == "tail_latency":
        if "metric" not in of_plan or "quantile" not in of_plan:
            return None
        latency, quantile = str(of_plan["metric"]).removesuffix("_s"), of_plan["quantile"]
        return words("judged.tail_latency", quantile=f"{quantile * 100:g}", latency=latency)
    if kind == "strata":
        measure = of_plan.get("measure")
        return words.texts.get(f"judged.strata_{measure}")
    return words.texts.get(f"judged.{kind}")


def _of_plan(rule: Json, plan: Json | None) -> Json:
    rules = (plan or {}).get("rules") or ()
    return next((r for r in rules if isinstance(r, Mapping) and r.get("name") == rule["name"]), {})


def _sentence(rule: Json, said: object) -> str:
    who = f"{rule['name']} ({rule['arm']})" if rule.get("arm") else str(rule["name"])
    return f"{who}: {said}"

"""Plan and parameters must speak of the same experiment, and that is checked before it is run.

The plan says what will be claimed, params.yaml what is measured. Were they to differ, the verdict
would be about something that nobody measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.errors import ConfigError
from specdecode.governance import Plan
from specdecode.governance.rules.losslessness import Losslessness


def check_agreement(plan: Plan, params: Mapping[str, Any]) -> None:
    """Compares a plan with the parameters of a run.

    Raises:
        ConfigError: they differ; names every difference.
    """
    differences = list(_differences(plan, params))
    if differences:
        raise ConfigError(
            f"plan '{plan.name}' and params.yaml differ: {'; '.join(differences)}. "
            "Correct the one that is wrong; a plan for another experiment gets a name of its own."
        )


def _differences(plan: Plan, params: Mapping[str, Any]) -> Iterator[str]:
    decoding, draft = params["decoding"], params["draft"]["source"]
    yield from _different_names("arms", [arm.name for arm in plan.arms], decoding["arms"])
    names = [setting["name"] for setting in decoding["sampling"]]
    yield from _different_names("sampling settings", plan.sampling, names)
    yield from _misnamed(plan, decoding["sampling"])
    yield from _other_amount(plan, params["profile"], params["prompts"]["limit"])
    yield from _other_alpha(plan, params["audit"]["alpha"])
    order = params["prompts"]["order_seed"]
    if plan.order_seed != order:
        yield f"order_seed is {plan.order_seed} in the plan, prompts.order_seed {order} here"
    for arm in plan.arms:
        if arm.draft is None:
            continue
        if arm.draft != draft:
            yield f"arm {arm.name} drafts with '{arm.draft}' in the plan, with '{draft}' here"
        if arm.verification != arm.name:
            yield (
                f"arm {arm.name} verifies by '{arm.verification}' in the plan, but an arm is "
                "measured under the rule it is named after"
            )
        tokens = decoding["num_speculative_tokens"]
        if arm.num_speculative_tokens not in (None, tokens):
            yield (
                f"arm {arm.name} drafts {arm.num_speculative_tokens} tokens in the plan, "
                f"{tokens} here"
            )


def _misnamed(plan: Plan, settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Rules about "greedy" and "sampled" claim what these words say, whatever was measured."""
    for setting in settings:
        name, temperature = setting["name"], setting.get("temperature")
        if temperature is None or name not in plan.sampling:
            continue
        if name == "greedy" and temperature != 0:
            yield f"the plan's setting 'greedy' needs temperature 0, it is {temperature:g} here"
        if name == "sampled" and temperature == 0:
            yield "the plan's setting 'sampled' needs a temperature above 0, it is 0 here"


def _other_amount(plan: Plan, profile: str, limit: int | None) -> Iterator[str]:
    """A limit under what the plan expects makes every run an early end: hours for no decision."""
    expected = plan.prompts_expected.get(profile)
    if expected is None:
        yield f"the plan does not say how many prompts the profile '{profile}' has"
    elif limit is not None and limit < expected:
        yield (
            f"the plan expects {expected} prompts of the profile '{profile}', prompts.limit is "
            f"{limit}"
        )


def _other_alpha(plan: Plan, alpha: float) -> Iterator[str]:
    for rule in plan.rules:
        if isinstance(rule, Losslessness) and rule.alpha != alpha:
            yield f"rule {rule.name} asks for alpha {rule.alpha:g}, the audit runs at {alpha:g}"


def _different_names(what: str, wanted: list[str], found: list[str]) -> Iterator[str]:
    if sorted(wanted) != sorted(found):
        yield f"{what} are {', '.join(wanted)} in the plan, {', '.join(found)} here"

"""Engine settings that change the distribution of the output. No score makes up for that.

What an engine accepts beyond p/q is listed here by the name of its own setting. A value that is not
known to be exact is refused like one that is known not to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from specdecode.governance.lints.base import Lint
from specdecode.governance.lints.settings import setting, settings_of
from specdecode.governance.plan_arms import EngineName
from specdecode.governance.plan_schema import Plan

Exact = Callable[[object], bool]


def _one_of(*values: object) -> Exact:
    # By type as well: True == 1 in Python, and "1" is not a number.
    return lambda value: any(value == v and type(value) is type(v) for v in values)


_NUMBER_1 = _one_of(1, 1.0)
_OFF = _one_of(None, False)

_EXACT: Mapping[EngineName, Mapping[str, Exact]] = {
    "specdecode": {},
    "vllm": {
        "rejection_sample_method": _one_of(None, "standard", "block"),
        "spec_decoding_acceptance_method": _one_of(None, "rejection_sampler"),
        "acceptance_method": _one_of(None, "rejection_sampler"),
        "posterior_threshold": _OFF,
        "posterior_alpha": _OFF,
    },
    "sglang": {
        "speculative_accept_threshold_single": _NUMBER_1,
        "speculative_accept_threshold_acc": _NUMBER_1,
    },
    "tensorrt-llm": {
        "use_relaxed_acceptance_for_thinking": _OFF,
        "decoding_type": lambda value: str(value).lower() != "medusa",
    },
    "llama.cpp": {},
    "speculators": {"verifier_accept_k": _NUMBER_1, "accept_tolerance": _one_of(0, 0.0)},
}

_PARTS = ("typical_acceptance", "relaxed_acceptance", "synthetic_acceptance", "spec_synth",
          "simulate_acc", "lenience", "lenient", "entropy_verif", "forced_accept")  # fmt: skip
"""Parts of a setting's name that mean a lossy mode in any engine, unless it is off."""


def _lossy(plan: Plan) -> Iterator[str]:
    for arm in plan.arms:
        if arm.engine is None:
            continue
        exact = _EXACT[arm.engine.name]
        for name, value in settings_of(arm):
            named = next((part for part in _PARTS if part in name), None)
            allowed = exact.get(name, _OFF if named else None)
            if allowed is not None and not allowed(value):
                yield (
                    f"arm {arm.name}: {arm.engine.name} with {name}: {value!r} may emit tokens "
                    "that the target would not"
                )


def _dropped_draws(plan: Plan) -> Iterator[str]:
    """A drawn token dropped for its own low probability biases what is left.

    A greedy draft may stop so: then the length depends on the kept prefix alone.
    """
    for arm in plan.arms:
        if arm.engine is None or arm.engine.name != "llama.cpp":
            continue
        cut = setting(arm, "spec_draft_p_min") or setting(arm, "p_min")
        if cut and setting(arm, "spec_draft_sampling") not in (None, "greedy"):
            yield f"arm {arm.name}: llama.cpp drops drafted tokens under p-min {cut} it has sampled"


LINTS = (
    Lint(
        "lossy-acceptance",
        "error",
        _lossy,
        "take the engine's exact acceptance; a lossy one is another model and needs a plan that "
        "says so, without a claim of losslessness",
    ),
    Lint(
        "dropped-draws",
        "error",
        _dropped_draws,
        "set p-min to 0, or draft greedily",
    ),
)

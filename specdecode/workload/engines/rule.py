"""Whether a server accepts drafts by a rule that keeps the target's distribution.

What each engine accepts beyond the exact rule is listed by the name of its own setting. A value
that is not known to be exact is taken like one that is known not to be. Seeing no lossy setting is
not proof: some engines hide their configuration, some read it from their environment. Proof is the
audit of what they emit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specdecode.workload.engines.errors import LossyEngineError
from specdecode.workload.engines.unknown import Unknown

Exact = Callable[[object], bool]
"""Whether a value of a setting keeps the distribution."""


def one_of(*values: object) -> Exact:
    """Only these values, and of these types: True == 1 in Python, and "1" is not a number."""
    return lambda value: any(value == v and type(value) is type(v) for v in values)


ONE = one_of(1, 1.0)
ZERO = one_of(None, 0, 0.0)
OFF = one_of(None, False)

_ANYWHERE: Mapping[str, Exact] = {
    "verifier_accept_k": one_of(None, 1, 1.0),
    "accept_tolerance": ZERO,
    "posterior_threshold": OFF,
    "posterior_alpha": OFF,
}
_PARTS = (
    "typical_acceptance", "relaxed_acceptance", "synthetic_acceptance", "spec_synth",
    "simulate_acc", "lenience", "lenient", "entropy_verif", "forced_accept",
)  # fmt: skip
"""Parts of a setting's name that mean a lossy mode in any engine, unless it is off."""


@dataclass(frozen=True)
class AcceptanceRule:
    """What the configuration of a server says about its acceptance rule.

    Attributes:
        seen: "lossy", a setting changes the distribution; "clean", the server shows its settings
            and none does; "hidden", it does not show them.
        findings: each setting that does; or why they are hidden.
    """

    seen: Literal["lossy", "clean", "hidden"]
    findings: tuple[str, ...] = ()

    def refuse_lossy(self, engine: str) -> None:
        """Stop where the output would not be the target's.

        Raises:
            LossyEngineError: a lossy setting was seen.
        """
        if self.seen == "lossy":
            raise LossyEngineError(
                f"{engine} may emit tokens that its target would not: {'; '.join(self.findings)}. "
                "Start it with its exact acceptance; a lossy one is another model"
            )


def acceptance_rule(
    options: Mapping[str, Any] | Unknown, exact: Mapping[str, Exact], hidden: str | None = None
) -> AcceptanceRule:
    """Judge a server's options.

    Args:
        options: as the server shows them, or why it does not.
        exact: settings of this engine and which values keep the distribution.
        hidden: why the options shown are not all that decide, or None if they are.
    """
    if isinstance(options, Unknown):
        return AcceptanceRule("hidden", (options.reason,))
    known = {**_ANYWHERE, **exact}
    findings = []
    for path, name, value in _settings(options):
        part = any(each in name for each in _PARTS)
        allowed = known.get(name, _off_or_zero if part else None)
        if allowed is not None and not allowed(value):
            findings.append(f"{path} is {value!r}")
    if findings:
        return AcceptanceRule("lossy", tuple(findings))
    return AcceptanceRule("clean") if hidden is None else AcceptanceRule("hidden", (hidden,))


def _off_or_zero(value: object) -> bool:
    return OFF(value) or ZERO(value) or value in ("", [], {})


def _settings(options: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every setting with its path and its own name, however deep."""
    for key, value in options.items():
        path = f"{above}.{key}" if above else str(key)
        name = str(key).rsplit(".", 1)[-1].lower().replace("-", "_")
        yield path, name, value
        if isinstance(value, Mapping):
            yield from _settings(value, path)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Mapping):
                    yield from _settings(each, path)

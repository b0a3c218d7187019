"""What an engine can be set to."""

from __future__ import annotations

from specdecode.errors import ConfigError
from specdecode.verification import RULES

MAX_SPECULATIVE_TOKENS = 64
ADAPTIVE = "adaptive"
MAX_ADAPTIVE_TOKENS = 16
GREEDY_BLOCK = "greedy-block"


def most_speculative_tokens(verification: str, num_speculative_tokens: int | str) -> int:
    """The most draft tokens a step (γ, or γ_max).

    Args:
        verification: name of the rule.
        num_speculative_tokens: 1 to 64, or "adaptive".

    Raises:
        ConfigError: an unknown rule or a number out of range.
    """
    if not isinstance(verification, str) or verification not in RULES:
        raise ConfigError(
            f"unknown verification '{verification}': use token, block, greedy-block or match"
        )
    if num_speculative_tokens == ADAPTIVE:
        return MAX_ADAPTIVE_TOKENS
    if isinstance(num_speculative_tokens, bool) or not isinstance(num_speculative_tokens, int):
        raise ConfigError(
            f"num_speculative_tokens={num_speculative_tokens!r}: give a whole number from 1 to "
            f"{MAX_SPECULATIVE_TOKENS}, or '{ADAPTIVE}'"
        )
    if not 1 <= num_speculative_tokens <= MAX_SPECULATIVE_TOKENS:
        raise ConfigError(
            f"num_speculative_tokens={num_speculative_tokens}: "
            f"give a number from 1 to {MAX_SPECULATIVE_TOKENS}"
        )
    return num_speculative_tokens

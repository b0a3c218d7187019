"""What goes into a verification rule and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Coins:
    """Uniform draws in [0, 1) that decide a verification.

    Draw ``accept``, ``resample`` and the noise behind the draft tokens from independent streams: a
    coin shared between them changes the output law. Draw in float64, or in float32 as such; a
    double just below 1 becomes 1.0 when it is cast to float32, and 1.0 is refused.

    Attributes:
        accept: float [B, G], coin i - 1 judges draft token X_i.
        resample: float [B], picks the token after the kept ones by inverse CDF over token ids.
    """

    accept: Tensor
    resample: Tensor


@dataclass(frozen=True, eq=False)
class Verification:
    """Outcome of one verification; each row emits ``num_accepted + 1`` tokens.

    Attributes:
        num_accepted: int64 [B], draft tokens kept, 0 to the row's length.
        next_token: int64 [B], the resampled token, or the bonus token when all were kept.
    """

    num_accepted: Tensor
    next_token: Tensor


@dataclass(frozen=True, eq=False)
class DraftBlock:
    """Checked input of a rule, safe to index.

    Attributes:
        draft_tokens: int64 [B, G]; padding is replaced by 0 so that it can index a row.
        draft_probs: float [B, G, V].
        target_probs: float [B, G + 1, V].
        lengths: int64 [B], real draft tokens per row.
    """

    draft_tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    lengths: Tensor


@dataclass(frozen=True, eq=False)
class AcceptancePlan:
    """What the coins of a rule are compared with.

    Attributes:
        probability: float64 [B, G], h_i. Columns at or beyond a row's length mean nothing.
        scale: float64 [B, G + 1], factor of the target law in the residual after τ kept tokens.
    """

    probability: Tensor
    scale: Tensor


class VerificationRule(Protocol):
    """The signature that all rules share."""

    def __call__(
        self,
        draft_tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        coins: Coins,
        lengths: Tensor | None = None,
        *,
        validate: bool = True,
    ) -> Verification:
        """Judge a batch of draft blocks.

        Args:
            draft_tokens: int64 [B, G], the proposed tokens. Beyond ``lengths[b]`` anything may
                stand.
            draft_probs: float [B, G, V], the law each draft token was really drawn from, after
                temperature and every filter. A token chosen by argmax has a one-hot row.
            target_probs: float [B, G + 1, V], the target law after 0..G draft tokens.
            coins: independent uniform draws; ``accept`` [B, G] judges, ``resample`` [B] draws the
                next token.
            lengths: int64 [B], real draft lengths of padded rows, 0 to G; None means G for each.
                With 0 the next token is a plain sample of target row 0.
            validate: False skips the checks of values and shapes, for callers that made the rows
                themselves.

        Returns:
            The number of draft tokens kept and the token after them, per row.

        Raises:
            ValueError: an input is malformed; the message names the tensor, the row and the
            position.
        """

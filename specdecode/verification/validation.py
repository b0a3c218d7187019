"""Checks of a rule's input: every complaint names the tensor, the row and the position.

A row of probabilities may miss a sum of 1 by ``SUM_TOLERANCE``: 1e-4 in float32 and float64 (a
softmax over a quarter of a million tokens stays well inside), 1e-2 in the half precisions, whose
single rounding of a large probability can cost 4e-3. Rows are then used as they are.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.verification.types import Coins, DraftBlock

SUM_TOLERANCE = {
    torch.float64: 1e-4,
    torch.float32: 1e-4,
    torch.bfloat16: 1e-2,
    torch.float16: 1e-2,
}


Expected = tuple[str, Tensor, Literal["float", "int64", "bool"], tuple[int, ...]]
"""(name, tensor, kind of numbers and shape it must have)."""


def prepare(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None,
    *,
    validate: bool,
) -> DraftBlock:
    """Check the arguments of a rule and make its padding harmless.

    Returns:
        The block, with lengths filled in and padded tokens replaced by 0.

    Raises:
        ConfigError: (a ValueError) an argument is malformed; see ``VerificationRule``.
    """
    if validate:
        _check_shapes(draft_tokens, draft_probs, target_probs, coins, lengths)
    B, G = draft_tokens.shape
    if lengths is None:
        lengths = torch.full((B,), G, dtype=torch.int64, device=draft_tokens.device)
    elif validate:
        refuse("lengths", (lengths < 0) | (lengths > G), lengths, f"a length is 0 to {G}")
    real = real_positions(lengths, G)
    if validate:
        V = target_probs.shape[-1]
        refuse(
            "draft_tokens",
            real & ((draft_tokens < 0) | (draft_tokens >= V)),
            draft_tokens,
            f"a token id is 0 to {V - 1}; placeholders belong beyond the row's length",
        )
        check_coins(coins, real)
        check_rows("draft_probs", draft_probs, real)
        check_rows("target_probs", target_probs, real_positions(lengths + 1, G + 1))
    return DraftBlock(draft_tokens.masked_fill(~real, 0), draft_probs, target_probs, lengths)


def real_positions(lengths: Tensor, width: int) -> Tensor:
    """Mask, bool [B, width], of the positions below each row's length."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def check_rows(name: str, probs: Tensor, real: Tensor) -> None:
    """Refuse rows of ``probs`` [B, R, V] that are no probability law, where ``real`` [B, R] holds.

    Raises:
        ConfigError: a real row holds NaN, infinity or a negative value, or misses a sum of 1.
    """
    if probs.numel() == 0:
        return
    wide = probs.dtype if probs.dtype == torch.float64 else torch.float32
    sums = probs.sum(-1, dtype=wide)
    least = probs.amin(-1)
    # Written so that NaN fails: it makes every comparison false.
    good = (least >= 0) & ((sums - 1).abs() <= SUM_TOLERANCE[probs.dtype])
    bad = real & ~good
    if not bool(bad.any()):
        return
    row, position = bad.nonzero()[0].tolist()
    total, low = float(sums[row, position]), float(least[row, position])
    if not bool(probs[row, position].isfinite().all()):
        problem = "holds NaN or infinity; look for it in the logits that made this row"
    elif low < 0:
        problem = f"holds a negative probability ({low:.6g})"
    else:
        problem = f"sums to {total:.6g}, not 1; normalise after every filter"
    raise ConfigError(f"{name}, row {row}, position {position}: {problem}.")


def _check_shapes(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None,
) -> None:
    if draft_tokens.dim() != 2 or draft_tokens.dtype != torch.int64:
        raise ConfigError(
            f"draft_tokens: expected int64 [B, G], got {_describe(draft_tokens)}. "
            "Convert token ids with .long()."
        )
    B, G = draft_tokens.shape
    if target_probs.dim() != 3 or target_probs.shape[-1] == 0:
        raise ConfigError(
            f"target_probs: expected float [B, G + 1, V], got {_describe(target_probs)}."
        )
    V = target_probs.shape[-1]
    expected = [
        ("draft_probs", draft_probs, (B, G, V)),
        ("target_probs", target_probs, (B, G + 1, V)),
        ("coins.accept", coins.accept, (B, G)),
        ("coins.resample", coins.resample, (B,)),
    ]
    for name, tensor, shape in expected:
        if tuple(tensor.shape) != shape:
            rows = tensor.shape[0] if tensor.dim() else 0
            where = f" (first row without a partner: {min(rows, B)})" if rows != B else ""
            raise ConfigError(f"{name}: expected {list(shape)}, got {list(tensor.shape)}{where}.")
        if tensor.dtype not in SUM_TOLERANCE:
            raise ConfigError(f"{name}: expected a floating dtype, got {tensor.dtype}.")
    if lengths is not None and (tuple(lengths.shape) != (B,) or lengths.dtype != torch.int64):
        raise ConfigError(f"lengths: expected int64 [{B}], got {_describe(lengths)}.")
    others = [(name, tensor) for name, tensor, _ in expected]
    if lengths is not None:
        others.append(("lengths", lengths))
    for name, tensor in others:
        if tensor.device != draft_tokens.device:
            raise ConfigError(
                f"{name} is on {tensor.device}, draft_tokens on {draft_tokens.device}; "
                "move them to one device."
            )


def check_tensors(anchor: str, device: torch.device, expected: list[Expected]) -> None:
    """Refuse tensors of the wrong shape, dtype or device.

    Args:
        anchor: name of the tensor the shapes and the device were read from.
        device: its device.
        expected: what each tensor must be.

    Raises:
        ConfigError: with the name, what was expected and what was found.
    """
    for name, tensor, kind, shape in expected:
        dtypes = SUM_TOLERANCE if kind == "float" else (getattr(torch, kind),)
        if tuple(tensor.shape) != shape or tensor.dtype not in dtypes:
            raise ConfigError(f"{name}: expected {kind} {list(shape)}, got {_describe(tensor)}.")
        if tensor.device != device:
            raise ConfigError(
                f"{name} is on {tensor.device}, {anchor} on {device}; move them to one device."
            )


def check_coins(coins: Coins, real: Tensor) -> None:
    """Refuse coins outside [0, 1), accept coins only where ``real`` [B, G] holds.

    Raises:
        ConfigError: with the coin, its row and its position.
    """
    rule = "a coin is in [0, 1)"
    for name, coin, used in (
        ("coins.accept", coins.accept, real),
        ("coins.resample", coins.resample, torch.ones_like(coins.resample, dtype=torch.bool)),
    ):
        refuse(name, used & ~((coin >= 0) & (coin < 1)), coin, rule)


def refuse(name: str, bad: Tensor, values: Tensor, rule: str) -> None:
    """Raise for the first place where ``bad`` holds, with its value and the ``rule`` it breaks.

    Raises:
        ConfigError: naming tensor, row and position.
    """
    if not bool(bad.any()):
        return
    where = bad.nonzero()[0].tolist()
    place = f"row {where[0]}" + (f", position {where[1]}" if len(where) > 1 else "")
    raise ConfigError(f"{name}, {place}: got {values[tuple(where)].item()}, but {rule}.")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"

"""Ways to multiply by a weight matrix: as it is, packed for oneDNN, int4 or int8 weight-only.

A `Linear` here is a callable `x [.., K] -> [.., N]`; `x` and the result share dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear as dense_linear

Linear = Callable[[Tensor], Tensor]
LinearFactory = Callable[[Tensor], Linear]

INT4_GROUP = 32


def dense(weight: Tensor) -> Linear:
    """The plain product with `weight` `[N, K]`."""

    def apply(x: Tensor) -> Tensor:
        return dense_linear(x, weight)

    return apply


def packed(weight: Tensor) -> Linear:
    """The same product with the weight laid out once for oneDNN (CPU).

    Skipping the per-call re-ordering about halves the time of a step of few tokens.
    """
    laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    product = torch.ops.mkldnn._linear_pointwise.default

    def apply(x: Tensor) -> Tensor:
        y: Tensor = product(x, laid_out, None, "none", [], "")
        return y

    return apply


def fastest_exact(weight: Tensor) -> Linear:
    """`packed` where that exists, `dense` elsewhere: both give the weight's own product."""
    if weight.device.type == "cpu" and _has_layout(weight.dtype):
        return packed(weight)
    return dense(weight)


def _has_layout(dtype: torch.dtype) -> bool:
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32 and bool(torch.backends.mkldnn.is_available())


def int4_rounded(weight: Tensor) -> Linear:
    """`int4`'s values as an ordinary matrix: slower for one token, faster for hundreds."""
    return fastest_exact(_int4_levels(weight).rounded(weight.dtype))


def int8_rounded(weight: Tensor) -> Linear:
    """`int8`'s values as an ordinary matrix."""
    levels, scale = _int8_levels(weight)
    return fastest_exact((levels * scale[:, None]).to(weight.dtype))


def int4(weight: Tensor) -> Linear:
    """Weight-only int4 in groups of 32 along K, asymmetric, min/max rounding.

    On CPU through torch's packed kernel, in bfloat16: the one for float32 is no faster than a
    matrix, so float32 is rounded on its way in. Elsewhere, and where the shape does not fit the
    kernel (K % 32 or N % 16), as `int4_rounded`: the same values, without the saving.
    """
    rows, columns = weight.shape
    packable = columns % INT4_GROUP == 0 and rows % 16 == 0
    if weight.device.type != "cpu" or not packable:
        return int4_rounded(weight)
    groups = _int4_levels(weight)
    nibbles = groups.levels.to(torch.int32).reshape(rows, columns)
    stored = torch.ops.aten._convert_weight_to_int4pack_for_cpu(nibbles, 2)
    scales = torch.stack([groups.scale, groups.centre], dim=-1)
    scales = scales.transpose(0, 1).contiguous().to(torch.bfloat16)
    product = torch.ops.aten._weight_int4pack_mm_for_cpu.default

    def apply(x: Tensor) -> Tensor:
        y: Tensor = product(x.reshape(-1, columns).bfloat16(), stored, INT4_GROUP, scales)
        return y.view(*x.shape[:-1], rows).to(x.dtype)

    return apply


def int8(weight: Tensor) -> Linear:
    """Weight-only int8, one symmetric scale per output row; likewise, for any shape."""
    if weight.device.type != "cpu":
        return int8_rounded(weight)
    rows, columns = weight.shape
    levels, scale = _int8_levels(weight)
    stored, scales = levels.to(torch.int8), scale.to(torch.bfloat16)
    product = torch.ops.aten._weight_int8pack_mm.default

    def apply(x: Tensor) -> Tensor:
        y: Tensor = product(x.reshape(-1, columns).bfloat16(), stored, scales)
        return y.view(*x.shape[:-1], rows).to(x.dtype)

    return apply


def rescored(make_coarse: LinearFactory, best: int = 256) -> LinearFactory:
    """An output head that is coarse for all tokens and exact for those that lead.

    Rounding to int4 moves the logits of a head by a tenth of their spread, which costs a draft an
    eighth of its acceptance; where the leading tokens are computed again with the weights
    themselves, nothing measurable is lost, at half the time of an int8 head.

    Args:
        make_coarse: how all logits are computed first.
        best: how many of the largest are computed again.
    """

    def make(weight: Tensor) -> Linear:
        coarse, columns = make_coarse(weight), weight.shape[1]
        count = min(best, weight.shape[0])

        def apply(x: Tensor) -> Tensor:
            flat = x.reshape(-1, columns)
            logits = coarse(flat)
            leading = logits.topk(count, -1, sorted=False).indices
            rows = weight.index_select(0, leading.flatten()).view(-1, count, columns)
            exact = torch.bmm(rows, flat[:, :, None])[:, :, 0]
            return logits.scatter_(-1, leading, exact).view(*x.shape[:-1], -1)

        return apply

    return make


@dataclass(frozen=True, eq=False)
class _Int4Groups:
    """A weight in groups of 32: levels 0..15 `[N, K/32, 32]`, scale and centre `[N, K/32]`.

    A value is (level - 8) * scale + centre, which is what the kernel computes. Widths that 32 does
    not divide form one group a row.
    """

    levels: Tensor
    scale: Tensor
    centre: Tensor

    def rounded(self, dtype: torch.dtype) -> Tensor:
        """The matrix the levels stand for, `[N, K]`."""
        values = (self.levels - 8) * self.scale[..., None] + self.centre[..., None]
        return values.flatten(1).to(dtype)


def _int4_levels(weight: Tensor) -> _Int4Groups:
    rows, columns = weight.shape
    size = columns if columns % INT4_GROUP else INT4_GROUP
    grouped = weight.float().reshape(rows, columns // size, size)
    low, high = grouped.amin(-1), grouped.amax(-1)
    scale = ((high - low) / 15).clamp(min=1e-8)
    levels = ((grouped - low[..., None]) / scale[..., None]).round().clamp(0, 15)
    return _Int4Groups(levels, scale, low + 8 * scale)


def _int8_levels(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Levels -127..127 `[N, K]` and the scale of each row `[N]`, both float32."""
    scale = (weight.float().abs().amax(1) / 127).clamp(min=1e-12)
    return (weight.float() / scale[:, None]).round(), scale

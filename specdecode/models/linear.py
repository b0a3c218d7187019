"""Ways to multiply by a weight matrix: as it is, packed for oneDNN, int4 or int8 weight-only.

A `Linear` here is a callable `x [.., K] -> [.., N]`; `x` and the result share dtype.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """The same product with the weight laid out once for oneDNN (CPU bfloat16).

    Skipping the per-call re-ordering about halves the time of a one-token step.
    """
    laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)

    def apply(x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, laid_out, None, "none", [], "")
        return y

    return apply


def fastest_exact(weight: Tensor) -> Linear:
    """`packed` where that exists, `dense` elsewhere: both give the weight's own product."""
    on_cpu = weight.device.type == "cpu" and weight.dtype == torch.bfloat16
    if on_cpu and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return packed(weight)
    return dense(weight)


def int4(weight: Tensor) -> Linear:
    """Weight-only int4 in groups of 32 along K, asymmetric, min/max rounding.

    On CPU through torch's packed kernel. Elsewhere, and where the shape does not fit the kernel
    (K % 32 or N % 16), the same rounded values are multiplied as an ordinary matrix: the same
    draft distribution, without the memory saving.
    """
    rows, columns = weight.shape
    if columns % INT4_GROUP:
        return dense(weight)
    grouped = weight.float().reshape(rows, columns // INT4_GROUP, INT4_GROUP)
    low, high = grouped.amin(-1), grouped.amax(-1)
    scale = ((high - low) / 15).clamp(min=1e-8)
    centre = low + 8 * scale  # the kernel computes (q - 8) * scale + centre
    levels = ((grouped - low[..., None]) / scale[..., None]).round().clamp(0, 15)
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16 or rows % 16:
        rounded = (levels - 8) * scale[..., None] + centre[..., None]
        return dense(rounded.reshape(rows, columns).to(weight.dtype))
    nibbles = levels.to(torch.int32).reshape(rows, columns)
    stored = torch.ops.aten._convert_weight_to_int4pack_for_cpu(nibbles, 2)
    scales = torch.stack([scale, centre], dim=-1).transpose(0, 1).contiguous().to(weight.dtype)

    def apply(x: Tensor) -> Tensor:
        flat = x.reshape(-1, columns)
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(flat, stored, INT4_GROUP, scales)
        return y.reshape(*x.shape[:-1], rows)

    return apply


def int8(weight: Tensor) -> Linear:
    """Weight-only int8, one symmetric scale per output row; falls back like `int4`."""
    rows, columns = weight.shape
    scale = (weight.float().abs().amax(1) / 127).clamp(min=1e-12)
    levels = (weight.float() / scale[:, None]).round()
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16:
        return dense((levels * scale[:, None]).to(weight.dtype))
    stored, scales = levels.to(torch.int8), scale.to(weight.dtype)

    def apply(x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int8pack_mm(x.reshape(-1, columns), stored, scales)
        return y.reshape(*x.shape[:-1], rows)

    return apply

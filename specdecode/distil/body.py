"""The forward pass of a Llama's layers for training: few operators, products in one precision.

Same mathematics as transformers' module, whose parameters it reads (tested against it). That one
keeps states in float32 under autocast and rounds them again for every product; here they are
rounded once, as the engine does, and products that read the same states are one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu


def normed_states(body: Any, tokens: Tensor, precision: torch.dtype) -> Tensor:
    """Normed states after each token.

    Args:
        body: a transformers LlamaModel.
        tokens: int64 `[B, T]`, padded at the end if at all.
        precision: of states and products; gradients go to the parameters in theirs.

    Returns:
        `[B, T, H]` in `precision`.
    """
    config = body.config
    x = body.embed_tokens.weight[tokens].to(precision)
    positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
    cos, sin = (part.to(precision)[:, None] for part in body.rotary_emb(x, position_ids=positions))
    for layer in body.layers:
        attention, mlp = layer.self_attn, layer.mlp
        heads = (attention.q_proj, attention.k_proj, attention.v_proj)
        read = _normed(x, layer.input_layernorm, config)
        qkv = linear(read, torch.cat([part.weight for part in heads]).to(precision))
        x = x + linear(_attended(qkv, cos, sin, config), attention.o_proj.weight.to(precision))
        read = _normed(x, layer.post_attention_layernorm, config)
        both = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).to(precision)
        gate, up = linear(read, both).chunk(2, -1)
        x = x + linear(silu(gate) * up, mlp.down_proj.weight.to(precision))
    return _normed(x, body.norm, config)


def _normed(x: Tensor, norm: Any, config: Any) -> Tensor:
    return rms_norm(x, (x.shape[-1],), norm.weight.to(x.dtype), config.rms_norm_eps)


def _attended(qkv: Tensor, cos: Tensor, sin: Tensor, config: Any) -> Tensor:
    """Causal attention of `[B, T, heads of q, k and v · D]`, rotated; `[B, T, heads · D]`."""
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    parts = qkv.unflatten(-1, (heads + 2 * shared, -1)).transpose(1, 2)
    turning, values = parts.split([heads + shared, shared], 1)
    half = turning.shape[-1] // 2
    swapped = torch.cat([-turning[..., half:], turning[..., :half]], -1)
    queries, keys = (turning * cos + swapped * sin).split([heads, shared], 1)
    mixed = scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    return mixed.transpose(1, 2).flatten(2)

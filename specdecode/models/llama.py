"""Llama's forward pass with fused products, for the steps that decoding repeats.

Same mathematics as `transformers.models.llama` (tested against it), fewer operators: query, key and
value are one product, gate and up another, grouped heads share their keys without copying them, and
the rotary tables are computed once. At one token a step, operator overhead is a third of the time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention, silu

from specdecode.models.cache import KVCache
from specdecode.models.linear import Linear, LinearFactory
from specdecode.models.network import check_finite
from specdecode.models.norm import Norm, make_rms_norm
from specdecode.models.spans import row_spans

# What a call of attention costs a CPU by itself, in numbers of keys it reads in that time.
_CALL = 40_000
_FIXED_ROPE = ("default", "linear", "llama3")  # tables that don't change with the length seen


def is_fusable(config: Any) -> bool:
    """Whether this file covers a model of this transformers config."""
    rope = getattr(config, "rope_parameters", None) or {}
    return bool(
        config.model_type == "llama"
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and rope.get("rope_type", "default") in _FIXED_ROPE
    )


class LlamaNetwork:
    """A `CausalNetwork` over the weights of a transformers LlamaForCausalLM.

    Args:
        module: the loaded model; its embedding and norms are shared, its products re-laid.
        make_linear: how the decoder layers multiply (`fastest_exact`, `int4`, …).
        make_head: how the output head multiplies.
        layers: use only the first so many decoder layers (early exit); None for all.
    """

    def __init__(
        self,
        module: Any,
        make_linear: LinearFactory,
        make_head: LinearFactory,
        layers: int | None = None,
    ) -> None:
        config = module.config
        self.device: torch.device = module.device
        self.vocab_size: int = config.vocab_size
        self._head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        self._kv_heads: int = config.num_key_value_heads
        self._groups: int = config.num_attention_heads // config.num_key_value_heads
        self._heads = (config.num_attention_heads, self._kv_heads, self._kv_heads)
        per_slot = self._kv_heads * self._head_dim
        self._call_slots = _CALL / per_slot if self.device.type == "cpu" else float("inf")
        self._half: int = config.intermediate_size
        self._embedding: Tensor = module.model.embed_tokens.weight
        self._rotary = module.model.rotary_emb
        self._rope = (torch.empty(0), torch.empty(0))
        self._norm = make_rms_norm(module.model.norm.weight, config.rms_norm_eps)
        self._head = make_head(module.lm_head.weight)
        self._layers = [
            _Layer(layer, make_linear, config.rms_norm_eps)
            for layer in module.model.layers[:layers]
        ]

    def forward(
        self,
        tokens: Tensor,
        starts: list[int],
        cache: KVCache,
        select: list[list[int]] | None = None,
    ) -> Tensor:
        """See `CausalNetwork.forward`."""
        with torch.inference_mode():
            batch, width = tokens.shape
            attend = cache.aim(starts, width, self.device)
            cos, sin = self._rope_rows(starts, width, cache.capacity)
            spans = row_spans([start + width for start in starts], self._call_slots)
            masks = [None if attend is None else self._additive(attend[r, :, :s]) for r, s in spans]
            x, half = self._embedding[tokens], self._half
            for index, layer in enumerate(self._layers):
                qkv = layer.qkv(layer.input_norm(x)).view(batch, width, -1, self._head_dim)
                # x·cos + rotate_half(x)·sin; the minus sign of rotate_half is already in `sin`.
                rotated = torch.addcmul(qkv * cos, qkv.roll(self._head_dim // 2, dims=-1), sin)
                queries, keys, values = rotated.split(self._heads, 2)
                keys, values = cache.write(index, keys, values)
                mixed = [
                    self._attend(queries[r], keys[r, :s], values[r, :s], mask)
                    for (r, s), mask in zip(spans, masks, strict=True)
                ]
                x = layer.output(mixed[0] if len(mixed) == 1 else torch.cat(mixed)).add_(x)
                gate, up = layer.gate_up(layer.mlp_norm(x)).split(half, -1)
                x = layer.down(silu(gate).mul_(up)).add_(x)
            if select is not None:
                x = x[torch.arange(batch, device=self.device)[:, None], torch.tensor(select)]
            logits = self._head(self._norm(x)).float()
            return check_finite(logits, "the model")

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of `[B, T, heads, D]` queries over `[B, S, kv heads, D]`; `[B, T, heads·D]`."""
        batch, width, heads, dim = queries.shape
        kv, groups = self._kv_heads, self._groups
        # Heads of one group become extra rows of queries over their shared keys.
        if width > 1:
            queries = queries.view(batch, width, kv, groups, dim).permute(0, 2, 3, 1, 4)
        mixed = scaled_dot_product_attention(
            queries.reshape(batch, kv, groups * width, dim),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=mask,
        )
        if width > 1:
            mixed = mixed.view(batch, kv, groups, width, dim).permute(0, 3, 1, 2, 4)
        return mixed.reshape(batch, width, heads * dim)

    def _additive(self, attend: Tensor) -> Tensor:
        """Boolean `[B, T, S]` -> additive `[B, 1, groups·T, S]`, in the order of the queries."""
        mask = torch.zeros(attend.shape, dtype=self._embedding.dtype, device=self.device)
        mask.masked_fill_(~attend, float("-inf"))
        return mask.repeat(1, self._groups, 1)[:, None]

    def _rope_rows(self, starts: list[int], width: int, capacity: int) -> tuple[Tensor, Tensor]:
        """Rotary factors of the new positions, `[1 or B, T, heads of qkv, D]`; values stay."""
        if self._rope[0].shape[0] < capacity:
            positions = torch.arange(capacity, device=self.device)[None]
            cos, sin = self._rotary(self._embedding[:1], position_ids=positions)
            half = self._head_dim // 2
            signed = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
            self._rope = (cos[0], signed)
        cos, sin = self._rope
        if len(set(starts)) == 1:
            index = torch.arange(starts[0], starts[0] + width, device=self.device)[None]
        else:
            first = torch.tensor(starts, device=self.device)[:, None]
            index = first + torch.arange(width, device=self.device)
        rotating, still = sum(self._heads[:2]), self._heads[2]
        cos, sin = (f[index][:, :, None].expand(-1, -1, rotating, -1) for f in (cos, sin))
        values = (*index.shape, still, self._head_dim)
        return torch.cat([cos, cos.new_ones(values)], 2), torch.cat([sin, sin.new_zeros(values)], 2)


class _Layer:
    """One decoder layer's norms and products."""

    def __init__(self, layer: Any, make_linear: LinearFactory, eps: float) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.input_norm: Norm = make_rms_norm(layer.input_layernorm.weight, eps)
        self.mlp_norm: Norm = make_rms_norm(layer.post_attention_layernorm.weight, eps)
        self.qkv: Linear = make_linear(
            torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        )
        self.output: Linear = make_linear(attention.o_proj.weight)
        self.gate_up: Linear = make_linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
        self.down: Linear = make_linear(mlp.down_proj.weight)

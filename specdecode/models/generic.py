"""Any other causal model that transformers runs with an ordinary key/value cache."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from specdecode.errors import ModelMismatchError
from specdecode.models.cache import KVCache, TransformersCache
from specdecode.models.linear import LinearFactory
from specdecode.models.network import check_finite


def refuse_unsupported(config: Any) -> None:
    """Refuse architectures whose state cannot be rolled back slot by slot.

    Raises:
        ModelMismatchError: sliding-window, recurrent or hybrid layers, or an encoder-decoder.
    """
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    windowed = window is not None and getattr(config, "use_sliding_window", True)
    recurrent = any(hasattr(config, name) for name in ("ssm_cfg", "state_size", "conv_kernel"))
    if config.is_encoder_decoder or kinds != {"full_attention"} or windowed or recurrent:
        raise ModelMismatchError(
            f"architecture '{config.model_type}' keeps state that cannot be rolled back after a "
            "rejected token (sliding window, recurrent or encoder-decoder layers); "
            "use a model with full attention in every layer"
        )


class TransformersNetwork:
    """A `CausalNetwork` that calls a transformers module and keeps its state in a `KVCache`.

    Args:
        module: a loaded `AutoModelForCausalLM`.
        make_linear: replaces every linear layer but the head in a copy of the module; None for the
            module as it is.
        make_head: likewise for the output head.
        layers: use only the first so many decoder layers (early exit); None for all.
    """

    def __init__(
        self,
        module: Any,
        make_linear: LinearFactory | None = None,
        make_head: LinearFactory | None = None,
        layers: int | None = None,
    ) -> None:
        refuse_unsupported(module.config)
        if make_linear is not None or layers is not None:
            module = copy.deepcopy(module)
        if layers is not None:
            _cut(module, layers)
        if make_linear is not None:
            _replace_linear_layers(module, make_linear, make_head or make_linear)
        self._module = module
        self.device: torch.device = module.device
        self.vocab_size: int = module.config.vocab_size
        self._last_position: int = module.config.max_position_embeddings - 1

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
            if attend is None:
                attend = torch.ones(batch, 1, starts[0] + 1, dtype=torch.bool, device=self.device)
            offsets = torch.arange(width, device=self.device)
            positions = torch.tensor(starts, device=self.device)[:, None] + offsets
            # Padding may lie beyond the last learned position; its result is never looked at.
            positions = positions.clamp(max=self._last_position)
            output = self._module(
                input_ids=tokens,
                attention_mask=attend[:, None],
                position_ids=positions,
                cache=TransformersCache(cache),
                use_cache=True,
            )
            logits: Tensor = output.logits
            if select is not None:
                rows = torch.arange(batch, device=self.device)[:, None]
                logits = logits[rows, torch.tensor(select)]
            return check_finite(logits.float(), "the model")


class _Replaced(nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
    """A linear layer whose product was swapped for another implementation."""

    def __init__(self, layer: nn.Linear | Conv1D, make: LinearFactory) -> None:
        super().__init__()
        weight = layer.weight.data
        # GPT-2's Conv1D is a linear layer that stores its weight transposed.
        self._apply_weight = make(weight.T.contiguous() if isinstance(layer, Conv1D) else weight)
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        y = self._apply_weight(x)
        return y if self.bias is None else y + self.bias


def _replace_linear_layers(module: Any, make: LinearFactory, make_head: LinearFactory) -> None:
    head = module.get_output_embeddings()
    replaced = 0
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear | Conv1D):
                setattr(parent, name, _Replaced(child, make_head if child is head else make))
                replaced += child is not head
    if not replaced:
        raise ModelMismatchError(
            f"architecture '{module.config.model_type}' has no linear layers to quantise: "
            "use a draft model, 'early-exit:K' or 'prompt-lookup' instead"
        )


def _cut(module: Any, layers: int) -> None:
    """Keep the first `layers` blocks, wherever the architecture keeps its list of blocks."""
    base = module.base_model
    for name in ("layers", "h", "blocks"):
        blocks = getattr(base, name, None)
        if isinstance(blocks, nn.ModuleList):
            setattr(base, name, blocks[:layers])
            module.config.num_hidden_layers = layers
            return
    raise ModelMismatchError(
        f"architecture '{module.config.model_type}' keeps its layers in an unknown place, so it "
        "cannot exit early; use another drafter"
    )

"""The draft while it is trained: a Llama of few layers with the target's embedding."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaModel

from specdecode.distil.body import normed_states
from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models import LoadedModel
from specdecode.models.llama import is_fusable


class Student(nn.Module):  # type: ignore[misc] # torch is not followed, see pyproject.toml
    """Decoder layers, norm and head in float32; the embedding is shared with the target and stays.

    Where the target is in bfloat16, so are the products; the weights that learn are not rounded.

    Args:
        target: a Llama.
        layers: which of its layers the draft begins with, in order.
        head: float `[M, H]`, the rows of the output head.

    Raises:
        ModelMismatchError: the target is no Llama.
        ConfigError: it has fewer layers.
    """

    def __init__(self, target: LoadedModel, layers: Sequence[int], head: Tensor) -> None:
        super().__init__()
        if not is_fusable(target.config):
            raise ModelMismatchError(
                f"'{target.path}' is of type {target.config.model_type}: only Llama targets can be "
                "distilled; use 'self-int4', or a trained draft of its family"
            )
        depth = int(target.config.num_hidden_layers)
        if max(layers) >= depth:
            raise ConfigError(f"the target has {depth} layers, fewer than the draft: take fewer")
        source: Any = target.module.model
        self.config = draft_config(target, len(layers))
        with torch.device(target.device):
            self.body = LlamaModel(self.config).float()
        for mine, index in zip(self.body.layers, layers, strict=True):
            mine.load_state_dict(_floats(source.layers[index]))
        self.body.norm.load_state_dict(_floats(source.norm))
        self.body.embed_tokens.weight = nn.Parameter(
            source.embed_tokens.weight.detach().float(), requires_grad=False
        )
        self.head = nn.Parameter(head.detach().float().clone())
        self.precision = torch.bfloat16 if target.dtype == torch.bfloat16 else torch.float32

    def hidden(self, tokens: Tensor) -> Tensor:
        """Normed states `[B, T, H]` of tokens `[B, T]`, padded at the end if at all."""
        return normed_states(self.body, tokens, self.precision)

    def trained(self) -> dict[str, nn.Parameter]:
        """What is trained, by name: everything but the embedding."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}


def draft_config(target: LoadedModel, layers: int) -> Any:
    """The target's config with fewer layers and a head of its own."""
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = layers
    config.tie_word_embeddings = False
    config.use_cache = True
    return config


def _floats(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.float() for name, value in module.state_dict().items()}

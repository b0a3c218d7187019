"""Tiny random Llama models, so that the path from model to verdict is run without a download."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specdecode.models import LoadedModel, load_model

VOCAB = 48


def tiny_llama(folder: Path, *, layers: int = 2, seed: int = 0) -> LoadedModel:
    """A float32 model with laws peaked enough to have something to sample."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        model.lm_head.weight.data.normal_(std=0.4)
    model.save_pretrained(folder)
    return load_model(folder, device="cpu", dtype="float32")

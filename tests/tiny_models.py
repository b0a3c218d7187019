"""Random models of a few thousand parameters, of several architectures, made on the spot."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

WORDS = (
    *("the", "a", "cat", "dog", "sat", "ran", "on", "mat", "red", "blue"),
    *("and", "or", "not", "is", "was", ".", ",", "!", "?", "end"),
)
EOS = 1

_COMMON = {"vocab_size": 2 + len(WORDS), "eos_token_id": EOS, "bos_token_id": None}
CONFIGS = {
    "llama": lambda: LlamaConfig(
        **_COMMON,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    ),
    "qwen2": lambda: Qwen2Config(
        **_COMMON,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    ),
    "gpt2": lambda: GPT2Config(**_COMMON, n_embd=32, n_layer=3, n_head=4, n_positions=256),
}


def write_tiny_model(
    folder: Path, kind: str = "llama", seed: int = 0, words: tuple[str, ...] = WORDS
) -> Path:
    """Write a model folder whose laws are far from uniform, so that mistakes show."""
    vocabulary = {word: index for index, word in enumerate(("<unk>", "<eos>", *words))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a token
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",  # noqa: S106
        eos_token="<eos>",  # noqa: S106
    ).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(CONFIGS[kind]())
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.data.mul_(6)
    model.generation_config.eos_token_id = EOS
    model.save_pretrained(folder)
    return folder

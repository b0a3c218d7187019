"""The demonstration's models: a random target of a few thousand parameters, and a draft like it.

Nothing is fetched and nothing is learnt: weights come from a seed, the same on every machine. The
draft is the target with noise on its weights, so that it is right often and wrong often enough for
every branch of verification to be taken.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORDS = (
    *("the", "a", "this", "every", "no", "my", "your", "some", "one", "two", "three", "many"),
    *("cat", "dog", "river", "house", "letter", "engine", "garden", "number", "night", "road"),
    *("is", "was", "has", "sees", "finds", "moves", "opens", "reads", "writes", "counts"),
    *("red", "old", "small", "quiet", "open", "late", "new", "long", "warm", "empty"),
    *("and", "or", "but", "if", "when", "because", "on", "in", "under", "after", "before"),
    *("yes", "not", "now", "then", "here", "there", "again", "soon", ".", ",", "?", "!"),
)
"""The vocabulary, beside a token for unknown words and one that ends a reply."""

SEED = 20261130
_UNKNOWN, _END = "<unk>", "<eos>"
_SHARPNESS = 12.0
"""Random weights give nearly flat laws; times this, they are as uneven as those of real models."""
_NOISE = 0.1
"""Of the draft's weights, relative to each matrix's own spread."""
_CONTEXT = 256
_TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


@dataclass(frozen=True)
class Models:
    """Folders that `specdecode.Engine.load` reads.

    Attributes:
        target: the model whose replies count.
        draft: proposes tokens to it.
    """

    target: Path
    draft: Path


def make_models(folder: Path, seed: int = SEED) -> Models:
    """Both models, made unless they are there already.

    Args:
        folder: gets `target/` and `draft/`; each is whole or not there at all.
        seed: of the weights.
    """
    models = Models(folder / "target", folder / "draft")
    for path, noise in ((models.target, 0.0), (models.draft, _NOISE)):
        if not path.is_dir():
            _write(path, seed, noise)
    return models


def _write(path: Path, seed: int, noise: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        _tokenizer().save_pretrained(partial)
        _network(seed, noise).save_pretrained(partial)
        partial.chmod(0o755)
        partial.rename(path)
    except OSError:
        if not path.is_dir():  # else another process was faster, with the same bytes
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate((_UNKNOWN, _END, *WORDS))}
    words = Tokenizer(WordLevel(vocabulary, unk_token=_UNKNOWN))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token=_UNKNOWN, eos_token=_END, chat_template=_TEMPLATE
    )


def _network(seed: int, noise: float) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=2 + len(WORDS),
        bos_token_id=None,
        eos_token_id=1,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=_CONTEXT,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = LlamaForCausalLM(config)
        for weights in network.parameters():
            if weights.dim() > 1:
                weights.data.mul_(_SHARPNESS)
        for weights in network.parameters():  # after all were drawn: the draft begins as the target
            if noise and weights.dim() > 1:
                weights.data.add_(torch.randn_like(weights) * weights.std() * noise)
    network.generation_config.eos_token_id = config.eos_token_id
    return network

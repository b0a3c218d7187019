"""The study's models: a random Llama of a few thousand parameters and a draft like it.

The vocabulary is small enough to enumerate all draft blocks, so that the total variation of a fault
is known and not guessed; everything else is what larger models go through: attention over a cache,
sampling parameters, verification in one pass.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from specdecode.models import LoadedModel, load_model

VOCAB = 10
CONTEXT = 256
SEED = 20261201
_SHARPNESS = 16.0
"""Random weights give nearly flat laws; times this, they are as uneven as those of real models."""
_NOISE = 0.12
"""Of the draft's weights, relative to each matrix's own spread."""


def study_models(folder: Path) -> tuple[LoadedModel, LoadedModel]:
    """Target and draft in float32 on the CPU, made unless they are there.

    Args:
        folder: gets `target/` and `draft/`.
    """
    found = []
    for name, noise in (("target", 0.0), ("draft", _NOISE)):
        if not (folder / name).is_dir():
            _write(folder / name, noise)
        found.append(load_model(folder / name, device="cpu", dtype="float32"))
    return found[0], found[1]


def one_thread() -> None:
    """What a process of the study begins with: several that want all cores wait for each other."""
    import torch

    torch.set_num_threads(1)


def _write(path: Path, noise: float) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        bos_token_id=None,
        eos_token_id=0,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        network = LlamaForCausalLM(config)
        matrices = [weights for weights in network.parameters() if weights.dim() > 1]
        for weights in matrices:
            weights.data.mul_(_SHARPNESS)
        for weights in matrices:  # after all were drawn: the draft begins as the target
            weights.data.add_(torch.randn_like(weights) * weights.std() * noise)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=path.parent))
    try:
        network.save_pretrained(partial)
        partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)

"""A tiny target that can write conversations, and what one distillation of it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdecode.distil.run import distil
from specdecode.distil.settings import SynthesisSettings, TrainingSettings
from specdecode.distil.withheld import Withheld, digests_of
from tests.tiny_models import WORDS, write_tiny_model

VOCABULARY = 2 + len(WORDS)
TEMPLATE = (
    "{% for m in messages %}the {{ m['content'] }} . {% endfor %}"
    "{% if add_generation_prompt %}a {% endif %}"
)
FAR = ["every good boy deserves fruit and other things besides it today my friends"]
SYNTHESIS = SynthesisSettings(
    tokens=1500, held_out=24, shard=24, user_tokens=6, reply_tokens=24, kept=VOCABULARY
)
TRAINING = TrainingSettings(
    layers=1,
    head=None,
    passes=12,
    batch_tokens=256,
    learning_rate=5e-3,
    warm_up_steps=5,
    initial_positions=800,
)


def write_talking_model(folder: Path, seed: int = 0) -> Path:
    """A tiny model with a chat template."""
    from transformers import AutoTokenizer

    write_tiny_model(folder, seed=seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def target(tmp_path_factory):
    return write_talking_model(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="session")
def withheld():
    return Withheld((digests_of(FAR, salt=""),))


@pytest.fixture(scope="session")
def make(target, withheld):
    """Distil the tiny target into a folder; keyword arguments as `distil` has them."""
    import torch

    def run(out, **options):
        torch.set_num_threads(1)
        settings = {"synthesis": SYNTHESIS, "training": TRAINING, "withheld": withheld}
        return distil(target, out, device="cpu", dtype="float32", **{**settings, **options})

    return run


@pytest.fixture(scope="session")
def finished(make, tmp_path_factory):
    """Folder and report of a distillation that nothing disturbed."""
    out = tmp_path_factory.mktemp("finished") / "draft"
    return out, make(out)

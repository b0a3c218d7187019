"""The demonstration's models: the same everywhere, whole or not there."""

from __future__ import annotations

import hashlib
import multiprocessing
from pathlib import Path

import pytest
import torch

from pipelines.demo.model import WORDS, make_models
from specdecode.models import load_model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_seed_gives_the_same_bytes(models, tmp_path):
    before = torch.random.get_rng_state()
    again = make_models(tmp_path)

    assert digests(again.target) == digests(models.target)
    assert digests(again.draft) == digests(models.draft)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_another_seed_gives_others(models, tmp_path):
    other = make_models(tmp_path, seed=1)

    name = "model.safetensors"
    assert digests(other.target)[name] != digests(models.target)[name]


def test_models_that_are_there_are_left_alone(models):
    before = {path: path.stat().st_mtime_ns for path in models.target.iterdir()}

    make_models(models.target.parent)

    assert {path: path.stat().st_mtime_ns for path in models.target.iterdir()} == before


def test_draft_and_target_differ_and_speak_the_same_words(models):
    target, draft = load_model(models.target), load_model(models.draft)

    assert target.tokenizer.get_vocab() == draft.tokenizer.get_vocab()
    assert len(WORDS) == len(set(WORDS))
    name = "model.safetensors"
    assert digests(models.target)[name] != digests(models.draft)[name]


def test_several_makers_at_once_leave_one_whole_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    makers = [context.Process(target=make_models, args=(tmp_path,)) for _ in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(300)

    assert [maker.exitcode for maker in makers] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "target"]

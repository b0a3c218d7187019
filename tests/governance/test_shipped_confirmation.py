"""The confirmation set of this repository, as far as it may be known without opening it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from specdecode.governance.subjects import file_sha256
from specdecode.governance.vault import read_vault
from specdecode.governance.vault_key import read_share, share_id

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "eval_sets/confirmation"


@pytest.fixture(scope="module")
def page():
    return read_vault(FOLDER).manifest


def test_its_key_is_there_for_anyone_and_the_page_says_so(page):
    key = read_share(FOLDER / "demonstration.key", public=True)

    assert page.custody == "demonstration"
    assert page.cipher.key_ids == [share_id(key)]


def test_it_was_compared_with_every_public_prompt_as_it_is_now(page):
    """Whoever adds or changes a public prompt compares again: with a new set, as this one stays."""
    public = sorted((ROOT / "eval_sets/prompts").glob("*.jsonl"))

    assert page.compared is not None
    assert page.compared.files == {
        path.relative_to(ROOT).as_posix(): file_sha256(path) for path in public
    }
    assert page.compared.prompts == sum(len(path.read_text().splitlines()) for path in public)
    assert page.compared.largest_overlap == 0
    assert page.compared.largest_jaccard < 0.5


def test_it_has_every_stratum_that_the_public_prompts_must_have(page):
    limits = yaml.safe_load((ROOT / "params.yaml").read_text())["validate"]
    plural = {"category": "categories", "language": "languages", "difficulty": "difficulties"}

    for stratum, name in plural.items():
        counts = page.strata[stratum]
        assert set(counts) == set(limits[f"required_{name}"])
        assert min(counts.values()) >= limits[f"min_per_{stratum}"] or stratum == "difficulty"
    assert min(page.strata["difficulty"].values()) >= 12  # as the plan's strata rule asks


def test_it_fits_the_targets_context_with_the_longest_reply(page):
    params = yaml.safe_load((ROOT / "params.yaml").read_text())

    assert page.room is not None
    assert page.room.reply_tokens >= params["prompts"]["max_tokens"]
    assert page.room.longest_prompt_tokens <= params["validate"]["max_prompt_tokens"]


def test_its_plain_text_is_nowhere_in_the_repository():
    """Ids of locked prompts have a form of their own, which no public file has."""
    lines = [path.read_text() for path in (ROOT / "eval_sets").rglob("*.jsonl")]

    assert not any('-c01"' in text for text in lines)

"""Other prompts: which stay, that no half changes, and what stands before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.flip import population
from pipelines.flip.notes import with_notes
from pipelines.flip.population import COVERED, apply, kept_of
from specdecode.errors import ConfigError, PromptTooLongError
from specdecode.workload import load_prompts
from specdecode.workload.compile import PROMPTS_SCHEMA, ContextTokenizer, compile_prompts

ROOT = Path(__file__).resolve().parents[3]


class Letters:
    """A tokenizer whose tokens are letters."""

    chat_template = None

    def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    prompts = load_prompts(ROOT / "eval_sets/prompts")[:40]
    return compile_prompts(
        prompts, Letters(), context_tokens=99_999, max_tokens=64, split_seed=1, order_seed=2
    )


def keep(table: pa.Table, **more: Any) -> dict[str, Any]:
    names = table["prompt_id"].to_pylist()
    return {"keep": names[::2], "note_words": 0, "max_tokens": 64, **more}


def test_what_stays_keeps_its_half_and_is_numbered_anew(table: pa.Table) -> None:
    settings = keep(table)

    found = apply(table, settings, Path())

    assert found.schema == PROMPTS_SCHEMA
    assert sorted(found["prompt_id"].to_pylist()) == sorted(settings["keep"])
    before = {row["prompt_id"]: row for row in table.to_pylist()}
    for half in ("development", "reserve"):
        rows = [row for row in found.to_pylist() if row["split"] == half]
        assert [row["order_index"] for row in rows] == list(range(len(rows)))
        old = [before[row["prompt_id"]]["order_index"] for row in rows]
        assert old == sorted(old)
        assert {before[row["prompt_id"]]["split"] for row in rows} == {half}


def test_notes_make_every_prompt_longer_and_nothing_else(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(population, "load_tokenizer", lambda _: ContextTokenizer(Letters(), 99_999))
    settings = keep(table, keep=table["prompt_id"].to_pylist(), note_words=50)

    found = apply(table, settings, Path())

    for old, new in zip(table.to_pylist(), found.to_pylist(), strict=True):
        assert new["turns"][0].endswith(old["turns"][0])
        assert new["prompt_tokens"] == len(new["prompt_token_ids"]) > old["prompt_tokens"] + 200
        same = ("prompt_id", "split", "order_index", "category", "checker", "reference")
        assert {name: new[name] for name in same} == {name: old[name] for name in same}
        assert new["sha256_text"] != old["sha256_text"]
    assert max(found["leak_overlap"].drop_null().to_pylist()) <= 0.5
    assert not any(found["pii_hits"].to_pylist()) or any(table["pii_hits"].to_pylist())


def test_a_context_that_does_not_fit_is_told(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(population, "load_tokenizer", lambda _: ContextTokenizer(Letters(), 300))
    with pytest.raises(PromptTooLongError, match="context 300"):
        apply(table, keep(table, note_words=50), Path())


def test_a_prompt_that_is_not_there_is_told(table: pa.Table) -> None:
    with pytest.raises(ConfigError, match="nobody"):
        apply(table, keep(table, keep=["nobody"]), Path())


LABELS = st.fixed_dictionaries(
    {
        "split": st.sampled_from(["development", "reserve"]),
        "category": st.sampled_from("abc"),
        "language": st.sampled_from(["en", "ja"]),
        "difficulty": st.sampled_from(["normal", "hard"]),
    }
)


@given(st.lists(LABELS, max_size=12))
def test_every_label_that_stays_is_in_both_halves(listed: list[dict[str, str]]) -> None:
    labels = {str(number): found for number, found in enumerate(listed)}
    try:
        kept = kept_of(labels, lambda found: found["language"] != "en")
    except ConfigError:
        kept = {}

    assert all(found["language"] == "ja" for found in kept.values())
    for label in COVERED:
        halves = [
            {found[label] for found in kept.values() if found["split"] == half}
            for half in ("development", "reserve")
        ]
        assert halves[0] == halves[1]


def test_no_prompt_of_the_kind_is_an_error() -> None:
    labels = {"1": {"split": "reserve", "category": "a", "language": "ja", "difficulty": "hard"}}
    with pytest.raises(ConfigError, match="no prompt is left"):
        kept_of(labels, lambda found: True)


def test_notes_are_the_same_for_a_prompt_and_others_for_another() -> None:
    one = with_notes("Why?", "a", 100)

    assert one == with_notes("Why?", "a", 100) != with_notes("Why?", "b", 100)
    assert one.endswith("\n\nWhy?")
    assert len(one.split()) >= 100

"""The compiled table holds what the model will see and what the checks need to know."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from specdecode.errors import (
    ConfigError,
    ModelNotFoundError,
    PromptFileError,
    PromptTooLongError,
)
from specdecode.workload.compile import (
    PROMPTS_SCHEMA,
    compile_prompts,
    encode,
    leaks,
    load_tokenizer,
    read_prompts,
    reference_score,
    write_prompts,
)
from specdecode.workload.split import DEVELOPMENT, RESERVE
from tests.workload.examples import ByteTokenizer, compiled, prompt, prompt_set, scrambled


def test_prompts_are_encoded_through_the_chat_template() -> None:
    item = prompt("p", "Hi", system="Be brief.")

    ids = encode(item, ByteTokenizer())

    assert bytes(ids).decode() == "<system>Be brief.</><user>Hi</><assistant>"


def test_a_base_model_without_template_gets_the_plain_text() -> None:
    assert bytes(encode(prompt("p", "Hi"), ByteTokenizer(chat=False))).decode() == "Hi"


def test_each_half_has_its_own_order_from_zero() -> None:
    table = compiled()

    for half in (DEVELOPMENT, RESERVE):
        order = [r["order_index"] for r in table.to_pylist() if r["split"] == half]
        assert order == list(range(len(order)))
        assert order


def test_the_table_does_not_depend_on_the_order_of_prompts() -> None:
    prompts = prompt_set()
    shuffled = list(prompts)
    random.Random(0).shuffle(shuffled)  # noqa: S311 - an order, not a secret

    assert compiled(shuffled).equals(compiled(prompts))


def test_seeds_change_the_split_and_the_order() -> None:
    base = compiled()

    assert compiled(split_seed=9)["prompt_id"] != base["prompt_id"]
    assert compiled(order_seed=9)["prompt_id"] != base["prompt_id"]
    assert sorted(compiled(order_seed=9)["split"].to_pylist()) == sorted(base["split"].to_pylist())


def test_missing_things_are_null() -> None:
    (row,) = compiled([prompt("p", "Only this")], checkable_categories=()).to_pylist()

    assert row["system"] is None
    assert row["reference"] is None
    assert row["checker"] is None
    assert row["reference_score"] is None
    assert row["leak_overlap"] is None
    assert (row["checker_declared"], row["checker_present"]) == (False, False)


def test_the_checker_survives_the_trip_through_the_table() -> None:
    schema = {"type": "object", "required": ["a"]}
    item = prompt("p", checker={"type": "json_schema", "schema": schema}, reference=['{"a": 1}'])

    (row,) = compiled([item], checkable_categories=["chat"]).to_pylist()

    assert json.loads(row["checker"]) == {"type": "json_schema", "schema": schema}
    assert row["checker_type"] == "json_schema"
    assert row["checker_declared"]
    assert row["reference_score"] == 1.0


def test_the_worst_reference_counts() -> None:
    item = prompt("p", checker={"type": "numeric", "value": 4}, reference=["4", "four"])

    assert reference_score(item) == 0.0
    assert reference_score(prompt("q", reference=["4"])) is None


def test_leaks_count_the_other_half_only() -> None:
    passage = scrambled("a", 14)
    texts = {"a": passage, "b": passage + " why", "c": passage, "d": "short"}
    norm = {name: texts[name] for name in texts}
    split = {"a": DEVELOPMENT, "b": RESERVE, "c": RESERVE, "d": DEVELOPMENT}

    exact, overlap = leaks(texts, norm, split)

    assert exact == {"a": 1, "b": 0, "c": 1, "d": 0}
    assert overlap["a"] == 1.0
    assert overlap["b"] == pytest.approx(2 / 3)
    assert overlap["d"] is None


def test_personal_data_is_flagged_by_kind() -> None:
    (row,) = compiled([prompt("p", "Mail joe@gmail.com")], checkable_categories=()).to_pylist()

    assert row["pii_hits"] == ["email"]


def test_prompts_that_leave_no_room_are_named() -> None:
    prompts = [prompt("ok", "x"), prompt("long-1", "y" * 90), prompt("long-2", "z" * 95)]

    with pytest.raises(PromptTooLongError) as caught:
        compiled(prompts, context_tokens=128, max_tokens=32, checkable_categories=())

    assert "2 prompts exceed 96 tokens" in str(caught.value)
    assert "long-1 (110)" in str(caught.value)
    assert "ok (" not in str(caught.value)


def test_a_prompt_that_just_fits_is_taken() -> None:
    length = len(encode(prompt("p", "x"), ByteTokenizer()))

    table = compiled(
        [prompt("p", "x")],
        context_tokens=length + 8,
        max_tokens=8,
        checkable_categories=(),
    )

    assert table["prompt_tokens"].to_pylist() == [length]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_tokens must be at least 1"):
        compiled(max_tokens=0)
    with pytest.raises(ConfigError, match="without any prompt: typo"):
        compiled(checkable_categories=["typo"])


def test_no_prompts_compile_to_an_empty_table_for_validation_to_refuse() -> None:
    table = compile_prompts(
        [], ByteTokenizer(), context_tokens=99, max_tokens=1, split_seed=1, order_seed=1
    )

    assert table.num_rows == 0
    assert table.schema.equals(PROMPTS_SCHEMA)


def test_writing_twice_gives_the_same_bytes_and_reading_gives_the_table(tmp_path: Path) -> None:
    write_prompts(compiled(), tmp_path / "deep" / "a.parquet")
    write_prompts(compiled(), tmp_path / "b.parquet")

    assert (tmp_path / "deep" / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert read_prompts(tmp_path / "b.parquet").equals(compiled())


def test_unusable_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match="run the prompts stage first"):
        read_prompts(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_text("not parquet")
    with pytest.raises(PromptFileError, match="cannot be read as parquet"):
        read_prompts(tmp_path / "bad.parquet")
    write_prompts(compiled().drop_columns(["split"]), tmp_path / "few.parquet")
    with pytest.raises(PromptFileError, match="'split': column is missing"):
        read_prompts(tmp_path / "few.parquet")
    table = compiled()
    wrong = table.set_column(2, "order_index", table["order_index"].cast("string"))
    write_prompts(wrong, tmp_path / "type.parquet")
    with pytest.raises(PromptFileError, match="'order_index': is string"):
        read_prompts(tmp_path / "type.parquet")


@pytest.mark.parametrize("config", [None, "{", "{}", "[]"])
def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)

    with pytest.raises(ModelNotFoundError, match="max_position_embeddings"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_folder_gives_tokenizer_and_context(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "user": 1, "hello": 2}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=words)
    fast.chat_template = (
        "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + ' ' }}{% endfor %}"
    )
    fast.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 77}')

    tokenizer, context_tokens = load_tokenizer(tmp_path)

    assert context_tokens == 77
    assert encode(prompt("p", "hello hello"), tokenizer) == [1, 2, 2]


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 77}')

    with pytest.raises(ModelNotFoundError, match="tokenizer cannot be loaded"):
        load_tokenizer(tmp_path)

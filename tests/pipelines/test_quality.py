"""Each expectation passes on sound data, fails on its own planted fault, and names the prompts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pipelines.quality.expectations import expectations
from pipelines.quality.frame import frame_of
from pipelines.quality.settings import ValidateSettings
from pipelines.quality.suite import judge, validate
from specdecode.errors import ConfigError, DataValidationError
from specdecode.workload.compile import PROMPTS_SCHEMA
from tests.workload.examples import CATEGORIES, DIFFICULTIES, LANGUAGES, compiled, prompt_set

LIMITS: dict[str, Any] = {
    "min_prompts": 72,
    "min_prompt_tokens": 5,
    "max_prompt_tokens": 200,
    "required_categories": list(CATEGORIES),
    "required_languages": list(LANGUAGES),
    "required_difficulties": list(DIFFICULTIES),
    "min_per_category": 12,
    "min_per_language": 18,
    "min_per_difficulty": 12,
    "max_split_imbalance": 0.02,
    "max_ngram_overlap": 0.5,
}
SETTINGS = ValidateSettings.from_params(LIMITS)
TABLE = compiled(prompt_set())
ROWS: list[dict[str, Any]] = TABLE.to_pylist()
VICTIM = str(ROWS[3]["prompt_id"])

Fault = Callable[[list[dict[str, Any]]], None]


def planted(fault: Fault) -> pa.Table:
    rows = [dict(row) for row in ROWS]
    fault(rows)
    loose = pa.schema([pa.field(f.name, f.type) for f in PROMPTS_SCHEMA])
    return pa.Table.from_pylist(rows, schema=loose)


def put(**values: Any) -> Fault:
    """Change fields of the fourth row."""
    return lambda rows: rows[3].update(values)


def copy_of_first(*fields: str) -> Fault:
    return lambda rows: rows[3].update({field: rows[0][field] for field in fields})


def failures(table: pa.Table, only: str | None = None) -> dict[str, tuple[str, ...]]:
    """Offending ids by name of the failed expectation; with `only`, that one alone is run."""
    wanted = expectations(SETTINGS)
    outcomes = judge(table, wanted if only is None else {only: wanted[only]})
    return {o.name: o.ids for o in outcomes if not o.success}


def test_sound_data_passes_every_expectation() -> None:
    saved: list[dict[str, Any]] = []

    report = validate(TABLE, SETTINGS, save=saved.append)

    assert saved == [report]
    assert report["status"] == "passed"
    assert report["rows"] == 72
    assert {e["name"] for e in report["expectations"]} == set(expectations(SETTINGS))
    assert all(e["success"] for e in report["expectations"])
    assert json.loads(json.dumps(report, allow_nan=False)) == report


FAULTS: dict[str, Fault] = {
    **{
        f"{f.name} is never null": put(**{f.name: None})
        for f in PROMPTS_SCHEMA
        if not f.nullable and f.name not in ("prompt_id", "turns", "prompt_token_ids", "pii_hits")
    },
    "ids are unique": copy_of_first("prompt_id"),
    "texts are unique": copy_of_first("sha256_norm"),
    "sha256_text is a SHA-256": put(sha256_text="abc"),
    "sha256_norm is a SHA-256": put(sha256_norm="A" * 64),
    "prompt lengths are in range": put(prompt_tokens=201, prompt_token_ids=[1] * 201),
    "prompt_tokens counts the tokens": put(prompt_tokens=17),
    "each prompt has one turn": put(turns=["a", "b"]),
    "halves are development and reserve": put(split="test", order_index=0),
    "order_index is a permutation in each half": copy_of_first("order_index"),
    "categories are known ones": put(category="poetry"),
    "languages are known ones": put(language="la"),
    "difficulties are known ones": put(difficulty="easy"),
    "no text stands in both halves": put(leak_exact=1),
    "no passage is shared between the halves": put(leak_overlap=0.51),
    "no personal data": put(pii_hits=["email"]),
    "a checker is present where declared": put(
        checker=None, checker_type=None, checker_present=False, checker_declared=True
    ),
    "checker_present tells the truth": put(checker_present=False, checker_declared=False),
    "a single right answer is written down": put(reference=None),
    "references pass their own checker": put(reference_score=0.0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_named(name: str) -> None:
    found = failures(planted(FAULTS[name]), only=name)

    assert name in found
    assert VICTIM in found[name] or name == "ids are unique"
    if name == "ids are unique":
        assert str(ROWS[0]["prompt_id"]) in found[name]


def test_an_id_with_odd_characters_is_found() -> None:
    name = "ids are well formed"

    assert failures(planted(put(prompt_id="a/b")), only=name) == {name: ("a/b",)}


@pytest.mark.parametrize("field", ["turns", "prompt_token_ids", "pii_hits", "prompt_id"])
def test_nulls_in_lists_and_ids_are_found(field: str) -> None:
    name = f"{field} is never null"

    assert name in failures(planted(put(**{field: None})), only=name)


def test_faults_in_one_table_do_not_hide_one_another() -> None:
    faults = [f for name, f in FAULTS.items() if name.endswith("never null")]

    def all_of_them(rows: list[dict[str, Any]]) -> None:
        for i, fault in enumerate(faults):
            window = rows[i : i + 4]
            fault(window)

    found = failures(planted(all_of_them))

    assert {name for name in FAULTS if name.endswith("never null")} <= set(found)


def test_a_lost_stratum_is_found_with_the_half_that_lacks_it() -> None:
    def lose(rows: list[dict[str, Any]]) -> None:
        rows[:] = [
            row
            for row in rows
            if (row["split"], row["category"]) != ("reserve", "arithmetic")
            and (row["split"], row["language"]) != ("development", "de")
            and row["difficulty"] != "hard"
        ]

    saved: list[dict[str, Any]] = []
    with pytest.raises(DataValidationError) as caught:
        validate(planted(lose), SETTINGS, save=saved.append)

    found = {e["name"]: e["problem"] for e in saved[0]["expectations"] if not e["success"]}
    assert {
        "there are enough prompts",
        "halves are of like size",
        "every category is in both halves",
        "every language is in both halves",
        "every difficulty is in both halves",
        "order_index is a permutation in each half",
    } <= set(found)
    assert "more failed" in str(caught.value)
    assert "reserve/arithmetic" in found["every category is in both halves"]
    assert "development/de" in found["every language is in both halves"]


@pytest.mark.parametrize("stratum", ["category", "language", "difficulty"])
def test_a_thin_stratum_is_found_and_its_prompts_named(stratum: str) -> None:
    limits = ValidateSettings.from_params({**LIMITS, f"min_per_{stratum}": 30})
    name = f"every {stratum} has enough prompts in each half"

    (outcome,) = judge(TABLE, {name: expectations(limits)[name]})

    assert not outcome.success
    assert VICTIM in outcome.ids


def test_near_duplicates_in_both_halves_are_found() -> None:
    first = next(r for r in ROWS if r["split"] == "development")
    second = next(r for r in ROWS if r["split"] == "reserve")

    def straddle(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["prompt_id"] == second["prompt_id"]:
                row["cluster"] = first["cluster"]

    name = "near-duplicates share a half"
    found = failures(planted(straddle), only=name)[name]

    assert set(found) == {first["prompt_id"], second["prompt_id"]}


def test_another_set_of_columns_is_found() -> None:
    extra = TABLE.append_column("note", pa.array([""] * TABLE.num_rows))

    name = "columns are exactly the schema"
    (outcome,) = judge(extra, {name: expectations(SETTINGS)[name]})

    assert not outcome.success
    assert outcome.problem == "unexpected: note"


def test_a_check_that_cannot_run_counts_as_failed() -> None:
    dropped = ["split", "cluster", "leak_exact", "pii_hits", "checker_type", "prompt_tokens"]
    saved: list[dict[str, Any]] = []

    with pytest.raises(DataValidationError):
        validate(TABLE.drop_columns(dropped), SETTINGS, save=saved.append)

    broken = {
        e["name"]
        for e in saved[0]["expectations"]
        if not e["success"] and "could not run" in e["problem"]
    }
    assert {f"{c} is never null" for c in dropped if c != "checker_type"} <= broken
    assert {"no personal data", "no text stands in both halves"} <= broken
    assert "every category is in both halves" in broken


def test_a_result_that_is_dropped_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.quality.suite._run", lambda table, wanted: [])

    outcomes = judge(TABLE, expectations(SETTINGS))

    assert len(outcomes) == len(expectations(SETTINGS))
    assert not any(o.success for o in outcomes)


def test_an_empty_table_fails_before_any_expectation_could_call_it_a_success() -> None:
    saved: list[dict[str, Any]] = []

    with pytest.raises(DataValidationError, match="has no rows"):
        validate(TABLE.slice(0, 0), SETTINGS, save=saved.append)

    assert saved[0]["status"] == "failed"
    assert saved[0]["rows"] == 0


def test_no_expectations_never_mean_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.quality.suite.expectations", lambda settings: {})

    with pytest.raises(DataValidationError):
        validate(TABLE, SETTINGS)


def test_a_failure_is_saved_before_it_is_raised_and_names_check_and_prompt() -> None:
    saved: list[dict[str, Any]] = []

    with pytest.raises(DataValidationError) as caught:
        validate(planted(put(pii_hits=["email", "phone"])), SETTINGS, save=saved.append)

    assert caught.value.ids == (VICTIM,)
    assert "no personal data" in str(caught.value)
    assert "example.com" in str(caught.value)
    entry = next(e for e in saved[0]["expectations"] if e["name"] == "no personal data")
    assert (entry["success"], entry["ids"], entry["unexpected"]) == (False, [VICTIM], 1)
    assert saved[0]["status"] == "failed"


def test_a_warning_is_reported_but_stops_nothing() -> None:
    def uncheck(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row.update(checker=None, checker_type=None, checker_present=False)
            row.update(checker_declared=False, reference_score=None)

    report = validate(planted(uncheck), SETTINGS)

    warned = [e for e in report["expectations"] if not e["success"]]
    assert [(e["name"], e["severity"]) for e in warned] == [
        ("at least half of the prompts can be checked", "warning")
    ]
    assert report["status"] == "passed"


def test_no_prompt_text_reaches_the_checks() -> None:
    frame = frame_of(TABLE)

    assert set(frame["turns"]) == {1}
    assert set(frame["reference"]) == {1}
    assert set(frame["checker"]) == {True}
    assert set(frame["system"]) == {False}
    assert frame["prompt_token_ids"].tolist() == TABLE["prompt_tokens"].to_pylist()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"min_prompts": 0}, "validate.min_prompts"),
        ({"max_ngram_overlap": 2}, "validate.max_ngram_overlap"),
        ({"required_languages": []}, "validate.required_languages"),
        ({"min_promts": 1}, "validate.min_promts"),
    ],
)
def test_wrong_limits_are_refused_by_name(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        ValidateSettings.from_params({**LIMITS, **change})


def test_a_missing_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"validate\.min_prompts: Field required"):
        ValidateSettings.from_params({})


def test_great_expectations_is_imported_only_when_a_check_runs() -> None:
    code = (
        "import sys, pipelines.quality.suite, pipelines.stages.validate\n"
        "assert 'great_expectations' not in sys.modules\n"
        "assert 'pandas' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


@pytest.mark.slow
def test_a_hundred_thousand_prompts_are_checked_with_one_fault_among_them() -> None:
    copies = -(-100_000 // TABLE.num_rows)
    frame = pa.concat_tables([TABLE] * copies).to_pandas()
    frame["prompt_id"] = [f"p{i}" for i in range(len(frame))]
    frame["cluster"] = frame["prompt_id"]
    frame["sha256_norm"] = [f"{i:064x}" for i in range(len(frame))]
    frame["order_index"] = frame.groupby("split").cumcount().astype("int32")
    frame.loc[77_777, "leak_exact"] = 1

    with pytest.raises(DataValidationError) as caught:
        validate(pa.Table.from_pandas(frame, schema=PROMPTS_SCHEMA), SETTINGS)

    assert caught.value.ids == ("p77777",)

"""`specdecode audit`: recorded outputs in, findings out."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specdecode import Engine, SamplingParams
from specdecode.cli.audit import _evidence, _exit_code
from specdecode.models import load_model
from tests.cli.conftest import WORDS


@pytest.fixture(scope="module")
def rows(tiny_target, tmp_path_factory):
    """Greedy outputs of plain and of self-speculative decoding, as JSON lines."""
    model = load_model(str(tiny_target), "cpu", "float32")
    params = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    prompts = [" ".join(WORDS[index : index + 3]) for index in range(6)]
    lines = []
    for arm, draft in (("plain", None), ("block", "early-exit:1")):
        for index, result in enumerate(Engine.load(model, draft).generate(prompts, params)):
            row = {
                "prompt_id": f"p{index}",
                "arm": arm,
                "prompt_token_ids": list(result.prompt_token_ids),
                "output_token_ids": list(result.token_ids),
                "finish_reason": result.finish_reason,
                "sampling": params.model_dump(mode="json"),
            }
            lines.append(json.dumps(row))
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def audit(specdecode, tiny_target):
    def run(*arguments):
        return specdecode("audit", *arguments, "--target", tiny_target, "--dtype", "float32")

    return run


def test_each_arm_is_audited_and_few_tokens_decide_nothing(audit, rows):
    done = audit(rows, "--json")
    assert set(done.document["arms"]) == {"plain", "block"}
    assert done.document["arms"]["block"]["greedy"]["failures"] == 0
    assert done.document["arms"]["block"]["verdict"] == "undecided"
    assert done.code == 11
    assert done.err == ""


def test_outputs_of_another_model_are_called_biased(audit, rows, tmp_path):
    tampered = tmp_path / "tampered.jsonl"
    changed = []
    for line in rows.read_text().splitlines():
        row = json.loads(line)
        if row["arm"] == "block":
            row["output_token_ids"] = [token % 13 + 1 for token in row["output_token_ids"]]
        changed.append(json.dumps(row))
    tampered.write_text("\n".join(changed))
    done = audit(tampered)
    assert done.code == 10
    assert "biased" in done.out
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("none.jsonl", None, "no such file"),
        ("empty.jsonl", "\n", "no rows"),
        ("broken.jsonl", "\n{oops", "line 2"),
        ("list.jsonl", "[1]", "expected an object"),
        ("bad.parquet", "not parquet", "parquet"),
        ("sampling.jsonl", '{"sampling": "{"}', "sampling"),
    ],
)
def test_rows_that_cannot_be_read_are_named(audit, tmp_path, name, content, named):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    done = audit(path)
    assert done.code == 2
    assert name in done.err
    assert named in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("alpha", ["0", "1", "-3"])
def test_an_impossible_alpha_is_refused_before_any_work(audit, rows, alpha):
    done = audit(rows, "--alpha", alpha)
    assert done.code == 2
    assert "--alpha" in done.err


def test_biased_beats_undecided_beats_lossless_and_unknown_never_passes():
    assert _exit_code(["lossless", "lossless"]) == 0
    assert _exit_code(["lossless", "undecided"]) == 11
    assert _exit_code(["biased", "undecided"]) == 10
    assert _exit_code(["lossless", "splendid"]) == 11


def test_findings_with_brackets_are_printed_as_they_are(audit, rows, monkeypatch):
    report = {"verdict": "lossless", "reasons": ["[bold]no[/bold]"], "greedy": None}
    fake = SimpleNamespace(to_json=lambda: report)
    monkeypatch.setattr("specdecode.audit.audit_records", lambda *_, **__: {"[x]": fake})
    done = audit(rows)
    assert "[x]: [bold]no[/bold]" in done.out


def test_sampled_rows_that_drafted_are_undecided_until_the_draft_is_given(
    audit, rows, tmp_path, monkeypatch
):
    monkeypatch.setattr("specdecode.audit.report.min_sampled_tokens", lambda _: 1)
    path = tmp_path / "drafted.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    params = {"temperature": 50.0, "top_p": 1.0}  # close to uniform: nothing to find in 48 tokens
    drafted = [
        {**row, "sampling": {**row["sampling"], **params}, "drafted": 4}
        for row in lines
        if row["arm"] == "block"
    ]
    path.write_text("\n".join(json.dumps(row) for row in drafted))

    without = audit(path)
    assert without.code == 11
    assert "--draft" in without.out
    assert audit(path, "--draft", "early-exit:1").code == 0


@pytest.mark.parametrize(
    ("e_value", "shown"),
    [(None, "not measured"), (0.42, "0.420"), (2.5e300, "2.50e+300"), (float("inf"), "inf")],
)
def test_an_e_value_takes_a_few_characters_however_large(e_value, shown):
    assert _evidence(e_value) == shown


@pytest.fixture
def sampled(rows, tmp_path):
    """Replies that say one token over and over, from a target whose laws are close to uniform."""
    path = tmp_path / "sampled.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    for index, row in enumerate(lines):
        row["sampling"] = {**row["sampling"], "temperature": 3.0}
        row["output_token_ids"] = [7] * 8
        row |= {"category": "chat" if index % 2 else "code", "language": "en"}
    path.write_text("\n".join(json.dumps(row) for row in lines))
    return path


def test_a_bias_is_told_with_its_token_and_what_carries_it(audit, sampled):
    done = audit(sampled)

    assert done.code == 10
    assert "the evidence first sufficed at row" in done.out
    for told in ("towards 'latest'", "temperature=3.0", "category=c", "places", "positions"):
        assert told in done.out


def test_the_split_of_the_evidence_adds_up_to_it(audit, sampled):
    for report in audit(sampled, "--json").document["arms"].values():
        tables = report["carried_by"]
        strata = {k: v for k, v in tables["strata"].items() if k.startswith("category=")}
        assert len(strata) == 2
        for groups in (tables["positions"], tables["places"], tables["parameters"], strata):
            total = sum(group["log_e_value"] for group in groups.values())
            assert total == pytest.approx(report["log_e_value"], abs=1e-9)
            assert sum(group["tokens"] for group in groups.values()) == report["tokens_read"]


def test_the_picture_shows_every_arm_and_its_verdict(audit, sampled, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "evidence.svg"
    assert audit(sampled, "--picture", picture).code == 10
    drawn = picture.read_text()

    for told in ("plain: biased", "block: biased", "sampled tokens read", "log e-value"):
        assert told in drawn
    again = tmp_path / "again.svg"
    audit(sampled, "--picture", again)
    assert again.read_bytes() == picture.read_bytes()


@pytest.mark.parametrize(
    ("name", "named"), [("e.png", ".svg"), ("none/e.svg", "cannot be written")]
)
def test_a_picture_that_cannot_be_written_is_refused_before_any_work(
    audit, sampled, tmp_path, name, named
):
    pytest.importorskip("matplotlib")
    done = audit(sampled, "--picture", tmp_path / name)
    assert done.code == 2
    assert named in done.err


def test_rows_may_be_parquet_and_prompts_text_or_chat(audit, rows, tmp_path):
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in lines:
        row["sampling"] = json.dumps(row["sampling"])
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(lines), path)
    from_parquet = audit(path, "--json").document["arms"]
    assert from_parquet["block"]["greedy"]["exact"] == 48

    texts = tmp_path / "texts.jsonl"
    for index, row in enumerate(lines):
        row["prompt"] = " ".join(WORDS[index % 6 : index % 6 + 3])
        del row["prompt_token_ids"]
    texts.write_text("\n".join(json.dumps(row) for row in lines))
    assert audit(texts, "--json").document["arms"]["block"]["greedy"]["exact"] == 48

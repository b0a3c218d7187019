"""`specdecode explain` on a tiny random model: rows that are decoded again, and trace files."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from specdecode import Engine, SamplingParams
from specdecode.explaining.document import Explanation
from specdecode.measurement.records import Record, write_parquet
from specdecode.models import load_model

PROMPT = [5, 6, 7, 3]
SAMPLING = {
    "greedy": SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True),
    "sampled": SamplingParams(max_tokens=12, temperature=1.0, ignore_eos=True),
}
SEED = 11


def record(engine, arm, name, **changes):
    """The row that `measure` would have written."""
    params = SAMPLING[name].model_copy(update={"seed": SEED})
    result = engine.generate([PROMPT], params)[0]
    fields = {
        "request_id": f"p1/{name}/{arm}",
        "prompt_id": "p1",
        "arm": arm,
        "stage": "offline",
        "prompt_token_ids": PROMPT,
        "prompt_tokens": len(PROMPT),
        "output_token_ids": list(result.token_ids),
        "output_tokens": len(result.token_ids),
        "output_text": result.text,
        "finish_reason": result.finish_reason,
        "sampling": {"name": name, **SAMPLING[name].model_dump(mode="json", exclude={"seed"})},
        "seed": SEED,
        "ttft_s": result.timing.ttft_s,
        "tpot_s": result.timing.tpot_s,
        "e2e_s": result.timing.e2e_s,
        "steps": result.acceptance.steps,
        "drafted": result.acceptance.drafted,
        "accepted": result.acceptance.accepted,
        "acceptance_histogram": list(result.acceptance.histogram),
        "target_tokens": result.target_tokens,
        "started_at": datetime(2026, 11, 30, tzinfo=UTC),
        "manifest_sha256": "ab" * 32,
    }
    return Record(**{**fields, **changes})


@pytest.fixture(scope="module")
def rows(tiny_target, tmp_path_factory):
    model = load_model(str(tiny_target), "cpu", "float32")
    plain = Engine.load(model)
    block = Engine.load(model, "early-exit:1", verification="block", num_speculative_tokens=3)
    found = [
        record(engine, arm, name)
        for arm, engine in (("plain", plain), ("block", block))
        for name in SAMPLING
    ]
    other = [4 if token != 4 else 5 for token in found[3].output_token_ids]
    found += [
        record(
            block,
            "block",
            "sampled",
            request_id="p1/changed",
            prompt_id="c",
            output_token_ids=other,
        ),
        record(block, "block", "sampled", request_id="p1/seedless", prompt_id="s", seed=None),
        record(block, "mine", "sampled", request_id="p1/mine", prompt_id="m"),
        record(
            block,
            "block",
            "sampled",
            request_id="p1/failed",
            prompt_id="f",
            error="EngineError: out of luck",
            output_token_ids=None,
            output_tokens=None,
        ),
    ]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    write_parquet(found, path)
    return path


@pytest.fixture
def explain(specdecode, tiny_target, rows, tmp_path):
    def run(request, *arguments):
        return specdecode(
            "explain", request, "--rows", rows, "--target", tiny_target, "--dtype", "float32",
            "--device", "cpu", "--draft", "early-exit:1", "--params", tmp_path / "none.yaml",
            *arguments,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_a_row_is_decoded_again_and_comes_out_equal(explain, name):
    found = explain(f"p1/{name}/block", "--json").document

    assert found["reproduced"] is True
    assert found["num_speculative_tokens"] == 3  # from the row's histogram
    assert len(found["tokens"]) == 12
    assert found["tokens"][0]["origin"] == "plain"
    assert sum(step["emitted"] for step in found["steps"]) == 11
    assert [a["state"] for a in found["assumptions"] if "lossless" in a["name"]] == ["held"]
    assert found["speed_ratio"] > 0
    assert Explanation.model_validate(found).to_json() == found


def test_a_reply_that_does_not_come_out_again_is_said_to_differ(explain):
    found = explain("p1/changed", "--json").document

    assert found["reproduced"] is False
    assert "differ from token 1 of 12 on" in found["reproduction"]


def test_a_request_that_failed_is_decoded_again_with_nothing_to_compare(explain):
    found = explain("p1/failed", "--json").document

    assert found["reproduced"] is None
    assert "holds no reply" in found["reproduction"]
    assert found["summary"].startswith("The recorded request failed: EngineError: out of luck.")
    assert len(found["tokens"]) == 12


def test_a_plain_row_is_all_the_target_own(explain):
    found = explain("p1/sampled/plain", "--json").document

    assert found["reproduced"] is True
    assert {token["origin"] for token in found["tokens"]} == {"plain"}
    assert found["draft"] is None
    assert found["speed_ratio"] is None
    assert "Nothing was drafted" in found["summary"]


def test_the_terminal_shows_reply_steps_times_and_assumptions_without_colours(explain):
    done = explain("p1/sampled/block")

    assert done.code == 0
    assert "\x1b" not in done.out
    for expected in (
        *("the tokens came out equal", "Steps, the last one first", "prompt and first token"),
        *("‹resampled›", "(+bonus)", "{plain}", "the sampler is lossless", "slowest"),
    ):
        assert expected in done.out
    numbers = [int(n) for n in re.findall(r"^│?\s*(\d+)\s+│", done.out, re.MULTILINE)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) > 1


def test_the_page_fetches_nothing_and_says_in_words_what_colours_say(explain, tmp_path):
    page = tmp_path / "why.html"

    done = explain("p1/sampled/block", "--html", page)

    text = page.read_text(encoding="utf-8")
    assert str(page) in done.out
    assert "<script" not in text
    assert "http" not in re.sub(r"http-equiv", "", text)
    assert "prefers-color-scheme: dark" in text
    assert "<i>r</i>" in text or "<i>b</i>" in text
    assert text.count('class="t ') == 12 + 4  # the reply and the legend


def test_what_a_token_spells_is_text_on_the_page_and_never_markup():
    from specdecode.explaining.document import Token
    from specdecode.explaining.page import _token

    made = _token(Token(token_id=1, text="<script>&", origin="bonus", step=2))

    assert "&lt;script&gt;&amp;" in made
    assert "<script>" not in made


@pytest.fixture(scope="module")
def seed(tiny_target):
    """One with which the reply below has some length and a rejection."""
    model = load_model(str(tiny_target), "cpu", "float32")
    engine = Engine.load(model, "early-exit:1", verification="token", num_speculative_tokens=4)
    for number in range(200):
        params = SamplingParams(max_tokens=12, temperature=1.0, seed=number)
        result = engine.generate(["the old brick house"], params, trace=True)[0]
        rejected = [s for s in result.trace if s.num_accepted < len(s.draft_tokens)]
        if len(result.token_ids) >= 6 and rejected:
            return number
    raise AssertionError("no seed among 200 gives a rejection")


@pytest.fixture
def trace_file(specdecode, tiny_target, seed, tmp_path):
    """Write a trace file, and return it with its document."""

    def write(*arguments):
        document = generate(specdecode, tiny_target, seed, *arguments)
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path, document

    return write


def generate(specdecode, tiny_target, seed, *arguments):
    return specdecode(
        "generate", "the old brick house", "--target", tiny_target, "--dtype", "float32",
        "--device", "cpu", "--draft", "early-exit:1", "--max-tokens", 12, "--temperature", 1,
        "--seed", seed, "--verification", "token", "--trace", "--json", *arguments,
    ).document  # fmt: skip


def test_a_trace_file_is_read_as_it_is(specdecode, trace_file):
    path, document = trace_file("--compare")

    found = specdecode("explain", path, "--json").document

    reply = document["replies"]["speculative"]
    assert [token["token_id"] for token in found["tokens"]] == reply["token_ids"]
    assert [s["step"] for s in found["steps"]] == [s["step"] for s in reply["trace"]][::-1]
    assert (found["replayed"], found["reproduced"]) == (False, None)
    assert found["speed_ratio"] > 0
    assert any(a["state"] == "held" for a in found["assumptions"] if "lossless" in a["name"])


def test_without_a_plain_reply_it_is_not_known_whether_it_paid(specdecode, trace_file):
    path, _ = trace_file()

    found = specdecode("explain", path, "--json").document

    assert found["speed_ratio"] is None
    assert found["first_failed"] is None
    assert "not known" in found["summary"]


def test_a_trace_with_a_coin_changed_is_no_lossless_one(specdecode, trace_file):
    path, document = trace_file()
    steps = document["replies"]["speculative"]["trace"]
    step = next(s for s in steps if s["num_accepted"] < len(s["draft_tokens"]))
    step["accept_coins"][step["num_accepted"]] = 0.0  # which nothing but p = 0 withstands
    step["target_probs"][step["num_accepted"]] = 0.5
    path.write_text(json.dumps(document), encoding="utf-8")

    found = specdecode("explain", path, "--json").document

    assert found["first_failed"] == "the sampler is lossless"


@pytest.mark.parametrize(
    ("request_id", "arguments", "told"),
    [
        ("p1/greedy/mine", (), "for example: p1/greedy/plain"),
        ("p1/seedless", (), "no seed"),
        ("p1/mine", (), "--verification"),
        ("nowhere.json", (), "no such file"),
        ("p1/sampled/block", ("--verification", "hope"), "no verification rule"),
    ],
)
def test_what_cannot_be_explained_says_what_to_do(explain, request_id, arguments, told):
    done = explain(request_id, *arguments)

    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_after_a_short_run_alone_its_rows_are_named(specdecode, tmp_path, monkeypatch):
    """It used to say "run the measure stage first", as if nothing had been measured."""
    measured = tmp_path / ".workspaces/smoke/data/rows.parquet"
    measured.parent.mkdir(parents=True)
    measured.touch()
    monkeypatch.chdir(tmp_path)

    done = specdecode("explain", "p1/sampled/block")

    assert done.code == 2
    assert "data/rows.parquet: no such file" in done.err
    assert ".workspaces/smoke/data/rows.parquet" in done.err.split("another profile", 1)[1]


def test_the_rule_of_an_arm_with_a_name_of_its_own_can_be_told(explain):
    assert explain("p1/mine", "--verification", "block", "--json").document["reproduced"] is True


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.pop("replies"), "generate --trace --json"),
        (lambda d: d["replies"]["speculative"].update(trace=None), "has no trace"),
        (lambda d: d["replies"]["speculative"]["trace"][0]["draft_probs"].append(1), "add up"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(specdecode, trace_file, change, told):
    path, document = trace_file()
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")

    done = specdecode("explain", path)

    assert done.code == 2
    assert told in done.err

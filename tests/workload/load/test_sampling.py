"""How requests are sampled: what is asked, what is recorded, and what the audit makes of it."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.audit import audit
from specdecode.audit.rows import read_rows
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, PromptFileError
from specdecode.measurement.records import read_parquet, read_records
from specdecode.models import load_model
from specdecode.workload.load import EngineSide, LoadSpec, run_load
from specdecode.workload.load.journal import ROWS
from specdecode.workload.load.plan import make_plan
from specdecode.workload.load.sampling import read_mix
from tests.serving.servers import NAME, serving, tiny_engine
from tests.tiny_models import WORDS

BASE = {"url": "http://x", "model": "m", "concurrency": 1, "input_tokens": 3}
MIX = (
    {"name": "plain", "weight": 3},
    {"name": "cool", "temperature": 0.7, "top_p": 0.9},
    {"name": "hot", "temperature": 1.3, "top_k": 8},
    {"name": "greedy", "temperature": 0, "repetition_penalty": 1.1, "weight": 2},
    {"name": "floor", "min_p": 0.05, "repetition_penalty": 1.2},
    {"name": "varied", "temperature": 0.9, "presence_penalty": 0.6, "frequency_penalty": 0.3},
    {"name": "biased", "logit_bias": {"4": 1.5, "9": -2}},
    {"name": "stopped", "stop": ["cat", "dog ran"]},
    {"name": "short", "max_tokens": 5, "ignore_eos": False},
)


def names(n=400, **changes):
    plan = make_plan(LoadSpec(**BASE | {"requests": n, "mix": MIX} | changes))
    return [request.sampling.name for request in plan.requests]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**40))
def test_settings_are_drawn_by_weight_from_the_seed_alone(seed):
    found = names(seed=seed)

    assert found == names(seed=seed)
    assert found[:50] == names(50, seed=seed)
    # The same whenever requests come.
    assert found == names(seed=seed, concurrency=None, arrivals="poisson", rate=5.0)
    # 400 draws of 3 / 12 and of 2 / 12: within 6 standard deviations.
    counts = Counter(found)
    assert abs(counts["plain"] / 400 - 3 / 12) < 0.13
    assert abs(counts["greedy"] / 400 - 2 / 12) < 0.112


def test_body_and_row_say_the_same(load, fake):
    found = load(mix=MIX, requests=60, extra_body={}, api="completions")
    rows = {r.order_index: r for r in read_records(found.folder / ROWS)}
    plan = make_plan(LoadSpec(**BASE | {"requests": 60, "mix": MIX, "input_tokens": 8}))
    asked = {body["prompt"]: body for body in fake.bodies}

    for request in plan.requests:
        body, row = asked[request.prompt.text()], rows[request.index]
        record = dict(row.sampling)
        assert record.pop("name") == request.sampling.name
        assert record["max_tokens"] == body["max_tokens"]
        assert record.get("seed") == body.get("seed") == row.seed
        assert ("seed" in body) == (body["temperature"] > 0)
        for name in set(body) & set(record):
            assert body[name] == record[name]
        given = next(m for m in MIX if m["name"] == request.sampling.name)
        assert set(given) - {"name", "weight"} <= set(body) & set(record)
        assert row.request_id == f"{row.prompt_id}/{request.sampling.name}/load"
    seeds = [r.seed for r in rows.values() if r.seed is not None]
    assert len(set(seeds)) == len(seeds)
    assert sum(found.summary["sampling"].values()) == 60


def test_servers_with_values_of_their_own_are_sent_the_neutral_ones(load, fake):
    load(requests=1, extra_body={}, neutral_fields=True)
    (body,) = fake.bodies

    assert (body["top_k"], body["min_p"], body["repetition_penalty"]) == (-1, 0.0, 1.0)
    assert (body["top_p"], body["presence_penalty"], body["frequency_penalty"]) == (1.0, 0.0, 0.0)


def test_other_fields_that_sample_are_recorded_as_they_are_sent(load, fake):
    found = load(
        requests=1, max_tokens=7, extra_body={"top_k": -1, "temperature": 0.5, "max_tokens": 3}
    )
    (body,), (row,) = fake.bodies, read_records(found.folder / ROWS)

    assert (body["top_k"], body["temperature"], body["max_tokens"]) == (-1, 0.5, 3)
    assert body["seed"] == row.seed
    assert (row.sampling["name"], row.sampling["temperature"]) == ("sampled", 0.5)
    assert (row.sampling["top_k"], row.sampling["max_tokens"]) == (0, 3)


def test_a_field_that_the_audit_cannot_apply_is_recorded_so_that_it_refuses_the_row(load):
    found = load(requests=1, extra_body={"min_tokens": 3, "user": "me"})
    (row,) = read_parquet(found.folder / ROWS).to_pylist()

    assert json.loads(row["sampling"])["min_tokens"] == 3
    assert "user" not in json.loads(row["sampling"])
    with pytest.raises(ValueError, match=r"unknown keys \['min_tokens'\]"):
        read_rows([row], None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mix": ({"min_tokens": 2},)}, "'min_tokens' cannot be asked for here: the audit"),
        ({"mix": ({"seed": 2},)}, "follow from --seed"),
        ({"mix": ({"n": 2},)}, "one reply"),
        ({"mix": ({"temperature": -1},)}, "'temperature'"),
        ({"mix": ({"weight": 0},)}, "above 0"),
        ({"mix": ({"weight": float("inf")},)}, "finite"),
        ({"mix": ({"weight": "much"},)}, "above 0"),
        ({"mix": ({"name": "a/b"},)}, "without '/'"),
        ({"mix": ({"name": "a"}, {"name": "a"})}, "have the name 'a'"),
        ({"mix": ({},), "temperature": 0.5}, "each setting of the mix"),
        ({"mix": ({},), "extra_body": {"top_k": 3}}, "not beside it"),
        ({"extra_body": {"seed": 3}}, "follow from --seed"),
        ({"extra_body": {"n": 3}}, "one reply"),
        ({"extra_body": {"top_p": 3}}, "'top_p'"),
    ],
)
def test_what_could_not_be_recorded_truthfully_is_refused(load, changes, message):
    with pytest.raises(ConfigError, match=message):
        load(**changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no sampling setting"),
        ("{}\n[1]\n", "line 2.*JSON object"),
        ("{}\n{", "line 2.*not valid JSON"),
        ('{}\n\n{"bad_words": ["x"]}\n', "line 3.*'bad_words'"),
    ],
)
def test_a_file_is_checked_line_by_line(tmp_path, text, message):
    path = tmp_path / "mix.jsonl"
    path.write_text(text)
    with pytest.raises(PromptFileError, match=message):
        read_mix(path)


def test_null_is_not_given_and_names_follow_the_place(tmp_path):
    path = tmp_path / "mix.jsonl"
    path.write_text('{"stop": null, "top_k": -1}\n{"temperature": 0}\n')
    first, second = LoadSpec(**BASE, requests=1, mix=tuple(read_mix(path))).settings

    assert (first.name, second.name) == ("setting-1", "setting-2")
    assert first.body(in_full=False) == {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
    assert second.body(in_full=False) == {"temperature": 0.0}


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return tmp_path_factory.mktemp("judged")


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    pairs = itertools.islice(itertools.permutations(WORDS, 2), 160)
    path.write_text(
        "".join(
            json.dumps({"question_id": f"q{n}", "category": "c", "turns": [f"{a} {b}"]}) + "\n"
            for n, (a, b) in enumerate(pairs)
        )
    )
    return path


def rows_under_load(server, folder, prompts, api):
    """Rows of a run with 16 clients and every sampling parameter, as `specdecode load` does it."""
    spec = LoadSpec(
        url=server.url, model=NAME, api=api, concurrency=16, requests=160, prompts=prompts,
        max_tokens=40, mix=tuple({"ignore_eos": True, **given} for given in MIX), token_ids=True,
        cancel_share=0.1, seed=3,
    )  # fmt: skip
    found = run_load(spec, folder, engine=EngineSide.find(server.url, "auto", None))
    assert found.complete, found.summary["verdict"]["line"]
    return found


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_the_audit_reads_the_rows_of_a_load_run_and_finds_our_server_lossless(
    tmp_path, judge, prompts, api
):
    with serving(tiny_engine(judge), slots=6) as server:
        found = rows_under_load(server, tmp_path / "run", prompts, api)
    rows = read_parquet(found.folder / ROWS).to_pylist()
    whole = [row for row in rows if row["error"] is None]

    report = audit(rows, load_model(judge, device="cpu", dtype="float32"), "self-int8")

    assert all(row["prompt_token_ids"] and row["output_token_ids"] for row in whole)
    assert found.summary["tokens"]["replies_without_token_ids"] == 0
    assert {json.loads(row["sampling"])["name"] for row in whole} == {m["name"] for m in MIX}
    assert report.verdict == "lossless", report.reasons


class Dishonest(SelfDrafter):
    """Planted fault: states a flatter law than it draws from."""

    def propose(self, contexts, wanted, sample):
        proposal = super().propose(contexts, wanted, sample)
        flat = proposal.probs.sqrt()
        flat /= flat.sum(-1, keepdim=True)
        return type(proposal)(proposal.tokens, flat, proposal.lengths)


def test_the_audit_of_a_load_run_finds_a_biased_server(tmp_path, judge, prompts):
    engine = tiny_engine(judge)
    engine.drafter = Dishonest("self-int8", tiny_engine(judge, "early-exit:1").drafter.network)
    with serving(engine, slots=6, guard=False) as server:
        found = rows_under_load(server, tmp_path / "run", prompts, "completions")

    rows = read_parquet(found.folder / ROWS).to_pylist()
    report = audit(rows, load_model(judge, device="cpu", dtype="float32"), "self-int8")

    assert report.verdict == "biased"

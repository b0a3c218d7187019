"""`specdecode load`: options that make sense together, output, exit codes."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from specdecode.cli.load_live import progress_table, show_progress
from specdecode.cli.load_options import json_object, objectives, ramp_time, which_arrivals
from specdecode.cli.load_show import engine_remarks
from specdecode.errors import ConfigError
from specdecode.workload.load.progress import Progress
from tests.workload.load.fake_server import Running

SHORT = ("--concurrency", 2, "--requests", 4, "--input-tokens", 5, "--warm-up", 0)


@pytest.fixture
def fake():
    server = Running()
    yield server.fake
    server.close()


@pytest.fixture
def load(specdecode, fake, tmp_path):
    def run(*options, url=None):
        out = () if "--out" in options else ("--out", tmp_path / "run")
        return specdecode("load", url or fake.url, *SHORT, *options, *out)

    return run


def test_a_complete_run_exits_with_0_and_says_so_last(load, tmp_path):
    done = load("--slo", "ttft=30", "--slo", "tpot=30", "--price-per-hour", 2)

    assert done.code == 0
    assert done.out.splitlines()[-1] == "complete: 4 sent = 4 ok"
    assert "goodput (ttft ≤ 30 s, tpot ≤ 30 s): 4 of 4" in done.out
    assert "USD per million useful tokens" in done.out
    assert "GPU" in done.out
    assert "\x1b" not in done.out + done.err
    assert (tmp_path / "run" / "rows.parquet").is_file()


def test_json_is_one_document(load):
    document = load("--json", "--body", '{"min_p": 0.25}').document

    assert document["verdict"]["status"] == "complete"
    assert document["schema"] == "specdecode.load/1"
    assert document["latency"]["ttft_s"]["n"] == 4
    assert document["engine"]["engine"] == "generic"


def test_a_mix_of_sampling_settings_is_read_from_a_file(load, fake, tmp_path):
    path = tmp_path / "mix.jsonl"
    path.write_text('{"name": "k", "top_k": 5}\n{"name": "greedy", "temperature": 0}\n')
    done = load("--json", "--sampling", path, "--requests", 20)

    assert done.code == 0
    assert sum(done.document["sampling"].values()) == 20
    assert set(done.document["sampling"]) == {"k", "greedy"}
    assert {body.get("top_k") for body in fake.bodies} == {5, None}


def test_a_mix_that_the_audit_could_not_read_is_refused_at_once(load, fake, tmp_path):
    path = tmp_path / "mix.jsonl"
    path.write_text('{"bad_words": ["x"]}\n')
    done = load("--sampling", path)

    assert done.code == 2
    assert f"{path}, line 1: sampling setting 'setting-1': 'bad_words'" in done.err
    assert fake.bodies == []


def test_a_partial_run_exits_with_1_and_keeps_its_rows(load, fake, tmp_path):
    fake.fault_of = {2: "error-event"}
    done = load()

    assert done.code == 1
    assert done.out.splitlines()[-1] == "partial: 4 sent = 3 ok + 1 stream-error"
    assert "1 x stream-error, such as: stream-error: " in done.out
    assert (tmp_path / "run" / "rows.parquet").is_file()


def test_a_server_that_is_not_there_is_told_at_once(load):
    done = load(url="http://127.0.0.1:9")
    assert done.code == 1
    assert "check that it runs" in done.err


def test_several_models_have_to_be_chosen_from(load, fake):
    fake.models = ["a", "b"]
    assert load().code == 2
    assert "choose with --model" in load().err
    assert load("--model", "b").code == 0
    assert {body["model"] for body in fake.bodies} == {"b"}


def test_the_key_comes_from_the_environment(load, fake, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret-value")
    done = load("--api-key-env", "MY_KEY")

    assert done.code == 0
    assert all(h["authorization"] == "Bearer secret-value" for h in fake.headers)
    assert "secret-value" not in done.out + done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("load",), "give the address"),
        (("load", "http://h", "--input-tokens", 5, "--requests", 1), "say when to send"),
        (("load", "http://h", *SHORT, "--rate", 3), "give one of them"),
        (("load", "http://h", *SHORT, "--api", "grpc"), "--api is one of"),
        (("load", "http://h", *SHORT, "--slo", "ttft"), "such as ttft=0.5"),
        (("load", "http://h", *SHORT, "--slo", "fast=1"), "unknown SLO"),
        (("load", "http://h", *SHORT, "--body", "[]"), "write an object"),
        (("load", "http://h", *SHORT, "--body", "{"), "not JSON"),
        (("load", "http://h/v1/completions", *SHORT, "--api", "chat"), "completions API"),
        (("load", "http://h", *SHORT, "--repeats", "maybe"), "repeats"),
        (("load", "--recover", "/nowhere"), "holds no load run"),
    ],
)
def test_wrong_usage_is_told_in_one_message_before_a_server_is_asked(specdecode, options, message):
    done = specdecode(*options)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


def test_repeats_are_refused_with_the_way_out_and_salted_on_request(specdecode, fake, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"question_id": "a", "category": "c", "turns": ["same"]}\n')
    command = (
        "load", fake.url, "--prompts", path, "--concurrency", 1, "--requests", 3, "--warm-up", 0,
    )  # fmt: skip

    refused = specdecode(*command, "--out", tmp_path / "a")
    assert refused.code == 2
    assert "--repeats salt" in refused.err
    assert fake.bodies == []
    assert specdecode(*command, "--out", tmp_path / "b", "--repeats", "salt").code == 0


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"rate": 1.0}, "poisson"),
        ({"rate": 1.0, "burstiness": 0.5}, "gamma"),
        ({"rate": 1.0, "ramp_to": 5.0}, "ramp"),
        ({"trace": "t.csv"}, "trace"),
        ({"trace": "t.csv", "rate": 1.0}, "poisson"),
        ({"concurrency": 3}, "closed"),
        ({"named": "constant", "rate": 1.0}, "constant"),
    ],
)
def test_arrivals_follow_from_the_other_options(given, kind):
    values = {
        "named": None, "rate": None, "burstiness": 1.0, "ramp_to": None, "trace": None,
        "concurrency": None,
    } | given  # fmt: skip
    named = values.pop("named")
    assert which_arrivals(named, **values) == kind


def test_remarks_name_a_lossy_engine_and_what_does_not_add_up():
    engine = {
        "engine": "vllm", "version": None, "could_not_be_asked": ["it was gone"],
        "acceptance_rule": {"seen": "lossy", "findings": ["a is 1"]},
        "requests_and_counters_differ": ["steps: 4 in 1 requests, 8 on the server",
                                         "drafted cannot be compared: no counter"],
    }  # fmt: skip
    assert engine_remarks(engine) == [
        "engine: vllm of unknown version",
        "its output is NOT its target's: a is 1",
        "could not be asked: it was gone",
        "requests and server: steps: 4 in 1 requests, 8 on the server",
    ]
    assert engine_remarks(None) == []


def test_small_options():
    assert objectives(["ttft=0.5", "e2e=3"]) == {"ttft": 0.5, "e2e": 3.0}
    assert ramp_time(None, 60.0, 5.0) == 60.0
    assert ramp_time(10.0, 60.0, 5.0) == 10.0
    assert ramp_time(10.0, 60.0, None) is None
    assert json_object("--body", None) == {}
    with pytest.raises(ConfigError, match="twice"):
        objectives(["ttft=1", "ttft=2"])


def test_progress_is_drawn_on_a_terminal_and_not_in_a_pipe():
    progress = Progress(total=9, phase="load", now_s=3.0, sent=5, ok=2)
    progress.failed["http-429"] = 1
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=100)
        with show_progress(console)(progress):
            pass
        assert bool(stream.getvalue()) is terminal
    stream = io.StringIO()
    Console(file=stream, width=100).print(progress_table(progress))
    assert "5 of 9, 2 in flight" in stream.getvalue()
    assert "1 http-429" in stream.getvalue()
    assert "not measured" in stream.getvalue()


def test_a_summary_can_be_read_again_after_the_run(load, specdecode, tmp_path):
    load()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    done = specdecode("load", "--recover", tmp_path / "run")

    assert summary["verdict"]["status"] == "complete"
    assert done.code == 2
    assert "ended by itself" in done.err

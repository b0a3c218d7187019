"""`specdecode load`: options that make sense together, output, exit codes."""

from __future__ import annotations

import io
import json
import os

import pytest
from rich.console import Console

from specdecode.cli import load_show
from specdecode.cli.load_live import progress_table, show_progress
from specdecode.cli.load_options import json_object, objectives, ramp_time, which_arrivals
from specdecode.cli.load_show import engine_remarks
from specdecode.errors import ConfigError
from specdecode.workload.load.cost import cost_of
from specdecode.workload.load.progress import Progress
from tests.wire import engines as wire
from tests.wire.replies import json_reply
from tests.wire.server import WireServer, in_turn
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


@pytest.mark.parametrize("key", ["a-secret\nkey", "a-secret-schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(load, fake, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    done = load()

    assert done.code == 2
    assert "the API key has characters" in done.err
    assert "secret" not in done.out + done.err
    assert fake.bodies == []


def test_a_line_end_behind_a_key_is_no_part_of_it(load, fake, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key\n")
    assert load().code == 0
    assert {headers["authorization"] for headers in fake.headers} == {"Bearer key"}


def test_a_process_number_that_is_none_is_wrong_usage(load):
    done = load("--server-pid", -1)
    assert done.code == 2
    assert "no such process" in done.err


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
        (("load", "http://h:99999", *SHORT), "Port out of range"),
        (("load", "http://h/?key=1", *SHORT), "give the bare address"),
        (("load", "http://h", *SHORT, "--body", '{"x": NaN}'), "not JSON compliant"),
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
    engine["acceptance_rule"] = {"seen": "hidden", "findings": ["no options"]}
    assert "whether its acceptance is exact is not shown: no options" in engine_remarks(engine)


LOSSY = {"vllm_config": {"speculative_config": {"rejection_sample_method": "synthetic"}}}


@pytest.fixture
def lossy():
    routes = wire.VLLM.routes(**{"/server_info?config_format=json": LOSSY})
    with WireServer(routes) as server:
        yield server


def test_a_lossy_server_is_refused_before_anything_is_sent(load, lossy, tmp_path):
    done = load("--token-ids", url=lossy.url)

    assert done.code == 2
    assert "rejection_sample_method is 'synthetic'" in done.err
    assert "--allow-lossy measures it all the same" in done.err
    assert not [request for request in lossy.requests if request.method == "POST"]
    assert not (tmp_path / "run").exists()


def test_a_lossy_server_may_be_measured_and_is_marked(load, lossy, tmp_path):
    done = load("--allow-lossy", url=lossy.url)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())

    assert done.code == 0
    assert "its output is NOT its target's" in done.out
    assert "no evidence for a release" in done.out
    assert summary["engine"]["acceptance_rule"]["seen"] == "lossy"

    (tmp_path / "run" / "summary.json").unlink()  # as if the client had been killed before it
    again = load("--recover", tmp_path / "run")
    assert "no evidence for a release" in again.out


def test_a_server_that_turns_lossy_in_the_middle_is_marked(load, tmp_path):
    exact = {"vllm_config": {"speculative_config": {"rejection_sample_method": "block"}}}
    path = "/server_info?config_format=json"
    turning = in_turn(json_reply(exact), json_reply(exact), json_reply(LOSSY))
    with WireServer(wire.VLLM.routes(**{path: turning})) as server:
        done = load(url=server.url)

    assert done.code == 0
    assert "no evidence for a release" in done.out


def test_cost_and_energy_are_lines_of_their_own_whether_measured_or_not():
    cost = cost_of(
        price_per_hour=None, currency="EUR", duration_s=10.0, useful_tokens=5, good_requests=2,
        joules=None,
    )  # fmt: skip
    resources = {"scope": "this machine", "gpus": "not measured"}
    summary = {"resources": resources, "cost": cost, "energy": "not measured"}
    assert load_show._cost(cost) == "not measured (state a price with --price-per-hour)"
    assert load_show._machine(summary)[-1] == ("energy", "not measured")

    summary["cost"] = cost_of(
        price_per_hour=3.6, currency="EUR", duration_s=10.0, useful_tokens=5_000_000,
        good_requests=None, joules=20.0,
    )  # fmt: skip
    summary["energy"] = {"scope": "this whole machine"}
    gpu = {"n": 2, "mean": 40.0, "max": 95.0}
    resources["gpus"] = [{"utilisation_percent": gpu, "memory_bytes": "not measured"}]
    assert load_show._cost(summary["cost"]) == (
        "0.01 EUR in all, 0.002 EUR per million useful tokens, "
        "not measured per request within the objectives"
    )
    *_, gpu_0, energy = load_show._machine(summary)
    assert gpu_0 == ("GPU 0", "mean 40, max 95 %, memory not measured")
    assert energy[1].startswith("20.0 J of this whole machine, 4e-06 J per useful token")


def test_small_options():
    assert objectives(["ttft=0.5", "e2e=3"]) == {"ttft": 0.5, "e2e": 3.0}
    assert ramp_time(None, 60.0, 5.0) == 60.0
    assert ramp_time(10.0, 60.0, 5.0) == 10.0
    assert ramp_time(10.0, 60.0, None) is None
    assert json_object("--body", None) == {}
    with pytest.raises(ConfigError, match="twice"):
        objectives(["ttft=1", "ttft=2"])


def test_progress_is_drawn_on_a_terminal_and_told_in_lines_in_a_pipe():
    progress = Progress(total=9, phase="load", now_s=3.0, sent=5, ok=2)
    progress.failed["http-429"] = 1
    shown = {}
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=terminal, width=100, soft_wrap=True)
        with show_progress(console, "of something")(progress):
            progress.ok = 4
        shown[terminal] = stream.getvalue()
    assert "\x1b" in shown[True]
    assert shown[False].splitlines() == [
        "load: begins, of something",
        "load: over, 3 s, load: sent 5 of 9, 0 in flight; 4 ok, 0 cancelled, 1 http-429 failed, "
        "0 tokens",
    ]
    stream = io.StringIO()
    Console(file=stream, width=100).print(progress_table(progress))
    assert "5 of 9, 0 in flight" in stream.getvalue()
    assert "1 http-429" in stream.getvalue()
    assert "not measured" in stream.getvalue()


def test_a_run_in_a_pipe_tells_a_log_where_it_goes_and_how_it_went(load, fake, tmp_path):
    done = load("--json")
    lines = done.err.splitlines()

    assert json.loads(done.out)["verdict"]["status"] == "complete"
    assert lines[0] == (f"load: begins, on {fake.url}, model toy, rows in {tmp_path / 'run'}")
    assert "sent 4 of 4, 0 in flight; 4 ok, 0 cancelled, 0 failed" in lines[-1]
    assert len(lines) == 2


@pytest.mark.parametrize("slo", [(), ("--slo", "ttft=30")], ids=["bare", "slo"])
def test_no_line_for_people_is_too_long_to_read(load, slo):
    done = load("--server-pid", os.getpid(), "--price-per-hour", 1, *slo)

    assert done.code == 0
    assert "server memory: mean" in done.out
    assert max(map(len, done.out.splitlines())) <= 160


def test_a_model_that_the_server_does_not_have_is_told_with_those_it_has(load, fake, tmp_path):
    done = load("--model", "boy")

    assert done.code == 2
    assert f"{fake.url} has no model 'boy'; it lists toy" in done.err
    assert not fake.bodies
    assert not (tmp_path / "run").exists()


def test_a_server_that_lists_no_models_is_taken_at_its_users_word(load, fake):
    fake.models = []

    assert load("--model", "boy").code == 0
    assert {body["model"] for body in fake.bodies} == {"boy"}


@pytest.mark.parametrize("listed", [["openai/*", "x"], ["*"]], ids=["prefix", "any"])
def test_a_pattern_stands_for_many_models(load, fake, listed):
    fake.models = listed

    assert load("--model", "openai/boy").code == 0
    assert {body["model"] for body in fake.bodies} == {"openai/boy"}


def test_a_summary_can_be_read_again_after_the_run(load, specdecode, tmp_path):
    load()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    done = specdecode("load", "--recover", tmp_path / "run")

    assert summary["verdict"]["status"] == "complete"
    assert done.code == 2
    assert "ended by itself" in done.err

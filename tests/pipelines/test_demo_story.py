"""What is told of a demonstration: what is new, once, and how it ended."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pipelines.demo import drive as module
from pipelines.demo.drive import FLOWS, WATCH, drive, watch
from pipelines.demo.replay import Counts
from pipelines.demo.story import Moment, is_stuck, look, news, outcome, summary
from specdecode.errors import EngineError
from specdecode.rollout.state import RolloutState

MANIFEST = "a" * 64
SENDING = Counts(sent=9, replied=9).document(running=True)
SILENT = Counts(sent=9, replied=9).document(running=False)
HEALTH = {"recording": True, "why": None, "spool": {"begun": 4, "recorded": 4}}


def state(version=0, mode="off", share=0.0, reason="nothing was decided yet"):
    manifest = None if mode == "off" else MANIFEST
    found = RolloutState(
        version=version, mode=mode, share=share, manifest_sha256=manifest, reason=reason
    )
    return found.model_dump(mode="json", by_alias=True)


def verdict(status, stage="shadow", step=None, rows=10):
    return {"status": status, "stage": stage, "step": step, "rows": rows, "reasons": ["why so"]}


OFF = Moment(state(), HEALTH, None, SENDING)
SHADOW = Moment(state(1, "shadow", 1.0, "it begins"), HEALTH, None, SENDING)
GO = replace(SHADOW, verdict=verdict("GO"), judged_at=1)
HELD = replace(SHADOW, verdict=verdict("INCONCLUSIVE"), judged_at=1)
CANARY = Moment(state(2, "canary", 0.05), HEALTH, verdict("GO", "canary", "0.05"), SENDING, 2)
FULL = Moment(state(3, "full", 1.0), HEALTH, verdict("GO", "canary", "0.5"), SENDING, 3)
BACK = Moment(state(2, "off", 0.0, "harm"), HEALTH, verdict("NO_GO"), SENDING, 2)


def test_a_change_of_the_router_is_told_with_its_reason():
    assert "it begins" in news(OFF, SHADOW)[0]
    assert "shadow 100%" in news(OFF, SHADOW)[0]
    assert "canary 5%" in news(GO, CANARY)[0]
    assert news(SHADOW, SHADOW) == []


def test_a_verdict_is_told_when_its_word_changes():
    told = news(HELD, GO)

    assert told == ["verdict of shadow: GO\n    why so"]
    assert news(GO, replace(GO, verdict=verdict("GO", rows=99))) == []
    assert "verdict of canary 0.05: GO" in news(GO, CANARY)[1]


def test_a_router_that_is_gone_or_records_nothing_is_told():
    broken = replace(SHADOW, health={**HEALTH, "recording": False, "why": "disk full"})

    assert news(SHADOW, replace(SHADOW, state=None, health=None)) == ["the router does not answer"]
    assert news(SHADOW, broken) == ["the router does not record: disk full"]
    assert news(broken, broken) == []


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(OFF, None, id="not begun"),
        pytest.param(CANARY, None, id="under way"),
        pytest.param(FULL, "promoted", id="full"),
        pytest.param(BACK, "taken back", id="back"),
        pytest.param(Moment(), None, id="unknown"),
    ],
)
def test_the_router_says_how_it_ended(now, expected):
    assert outcome(OFF, now) == expected


def test_it_is_stuck_when_a_second_look_at_the_same_rows_decides_nothing():
    before = replace(HELD, traffic=SILENT)
    later = replace(before, judged_at=2)

    assert is_stuck(before, later)
    assert not is_stuck(before, before)  # one look only
    assert not is_stuck(HELD, later)  # requests came after the first
    assert not is_stuck(before, replace(later, verdict=verdict("INCONCLUSIVE", rows=11)))
    assert not is_stuck(before, replace(later, verdict=verdict("GO")))


def test_the_summary_has_what_users_got():
    counts = Counts(sent=5, replied=4, retried=1)
    counts.arms["plain"] = 4
    counts.failed["http_500"] = 1
    counts.seconds.extend([0.1, 0.2, 0.3])

    told = "\n".join(summary(replace(SHADOW, traffic=counts.document(running=True))))

    assert "5 requests; 1 failed; answered: 4 by plain" in told
    assert "1 times the candidate failed" in told
    assert "200 ms at the median" in told
    assert "begun 4" in told


def test_looking_reads_router_and_files(tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"state": state(), "health": HEALTH}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    gate, traffic = tmp_path / "gate.json", tmp_path / "traffic.json"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        empty = look(url, gate, traffic)
        gate.write_text(json.dumps(verdict("GO")))
        traffic.write_text(json.dumps(SENDING))
        full = look(url, gate, traffic)
        server.shutdown()

    assert (empty.mode, empty.verdict, empty.traffic, empty.judged_at) == ("off", None, None, 0)
    assert (full.place, full.traffic) == ("shadow", SENDING)
    assert full.judged_at > 0
    assert look(url, gate, traffic).mode is None


class Script:
    """Flows and moments that were written down before: each look takes the next moment."""

    def __init__(self, *acts):
        self.acts, self.started = list(acts), []
        self.ended = {}

    def look(self):
        moment, ended = self.acts[0]
        if len(self.acts) > 1:
            self.acts.pop(0)
        self.how = ended
        return moment

    def start(self, deployment, for_s):
        assert for_s >= 0
        self.started.append(deployment)
        return deployment

    def state(self, _run):
        return self.how is not None, self.how or "Running"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_S", 0.0)


def driven(*acts):
    script, told = Script(*acts), []
    return drive(script, script.look, told.append), script, told


def test_a_good_release_goes_from_flow_to_flow_to_the_end():
    found, script, told = driven(
        (OFF, None), (SHADOW, None), (GO, "Completed"), (GO, None), (CANARY, None), (FULL, None)
    )

    assert found == "promoted"
    assert script.started == [name for name, _ in FLOWS]
    assert [line.split(":")[0] for line in told if line.startswith("verdict")] == [
        "verdict of shadow",
        "verdict of canary 0.05",
        "verdict of canary 0.5",
    ]


def test_a_release_that_is_taken_back_starts_no_other_flow():
    found, script, _ = driven((OFF, None), (SHADOW, None), (BACK, None))

    assert found == "taken back"
    assert script.started == ["shadow/shadow"]


def test_a_flow_that_ends_without_go_holds_it():
    found, script, _ = driven((OFF, None), (HELD, "Completed"))

    assert found == "held"
    assert script.started == ["shadow/shadow"]


def test_too_little_traffic_holds_it():
    silent = replace(HELD, traffic=SILENT)
    found, _, told = driven(
        (OFF, None), (HELD, None), (silent, None), (replace(silent, judged_at=2), None)
    )

    assert found == "held"
    assert "verdict of shadow: INCONCLUSIVE\n    why so" in told


def test_a_flow_that_fails_is_an_error():
    with pytest.raises(EngineError, match="shadow/shadow did not end well: Crashed"):
        driven((OFF, None), (SHADOW, "Crashed: killed"))


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(replace(FULL, verdict=verdict("GO", "watch")), "promoted", id="no alarm"),
        pytest.param(replace(BACK, verdict=verdict("NO_GO", "watch")), "taken back", id="alarm"),
    ],
)
def test_the_watch_has_the_last_word(last, expected):
    script = Script((FULL, None), (FULL, "Completed"), (last, "Completed"))

    assert watch(script, script.look, lambda _: None) == expected
    assert set(script.started) == {WATCH}

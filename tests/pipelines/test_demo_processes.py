"""Programs of the demonstration: started, known again, and all of them gone at the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from pipelines.demo.processes import MARK, Card, Family, Program
from pipelines.demo.ready import answers, says, says_its_address
from specdecode.errors import ConfigError, EngineError

WAIT = "import signal, sys; print('{}', flush=True); signal.pause()"


@pytest.fixture
def family(tmp_path):
    found = Family(tmp_path)
    yield found
    found.end()


def program(name: str, code: str = WAIT.format("ready"), **fields) -> Program:
    return Program(name, (sys.executable, "-c", code), **{"ready": says("ready"), **fields})


def once_written(log: Path, word: str):
    """`says("ready")`, asked only after the program has written a word, however late it begins."""

    def ready(text: str) -> str | None:
        until = time.monotonic() + 120
        while word not in log.read_text():
            assert time.monotonic() < until, f"{word} was never written"
            time.sleep(0.01)
        return says("ready")(text)

    return ready


def test_what_is_started_is_known_to_whoever_comes_later(family, tmp_path):
    card = family.start(
        program("one", WAIT.format("at http://127.0.0.1:9"), ready=says(r"at (\S+)"))
    )

    assert card.url == "http://127.0.0.1:9"
    assert Family(tmp_path).cards() == [card]
    assert card.process() is not None


def test_end_ends_all_of_them_and_their_children(family):
    child = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " start_new_session=True)\n"
        "print('child', p.pid, flush=True); p.wait()"
    )
    one, two = (
        family.start(program("one")),
        family.start(program("two", child, ready=says("child (.*)"))),
    )
    pids = [one.pid, two.pid, int(two.url)]
    assert all(psutil.pid_exists(pid) for pid in pids)

    assert family.end() == ["two", "one"]

    assert [pid for pid in pids if runs(pid)] == []
    assert family.cards() == []
    assert family.end() == []


def test_what_ignores_a_request_to_end_is_killed(family, monkeypatch):
    monkeypatch.setattr("pipelines.demo.ending.STOP_S", 0.3)
    deaf = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n"
    )
    card = family.start(program("deaf", deaf + "while True: signal.pause()"))

    family.end()

    assert not runs(card.pid)


def test_a_process_without_a_card_is_found_by_its_mark(family, tmp_path):
    card = family.start(program("one"))
    (tmp_path / "run/one.json").unlink()  # as if its starter had been killed before it wrote it
    assert family.strays() == [card.pid]

    assert family.end() == [f"process {card.pid}"]
    assert not runs(card.pid)


def test_another_process_that_has_the_number_now_is_left_alone(family, tmp_path):
    card = family.start(program("one"))
    with subprocess.Popen([sys.executable, "-c", WAIT.format("x")]) as stranger:
        try:
            stolen = replace(card, pid=stranger.pid, began=card.began - 3600)
            (tmp_path / "run/one.json").write_text(json.dumps(asdict(stolen)))

            assert stolen.process() is None
            assert family.end() == [f"process {card.pid}"]
            assert stranger.poll() is None
        finally:
            stranger.terminate()


def test_what_has_ended_is_not_taken_for_running(family):
    card = family.start(program("one"))
    os.kill(card.pid, signal.SIGKILL)
    os.waitpid(card.pid, 0)

    assert card.process() is None
    assert family.start(program("one")).pid != card.pid


def test_a_name_that_runs_is_not_started_again(family):
    family.start(program("one"))

    with pytest.raises(ConfigError, match="one runs already"):
        family.start(program("one"))


def test_a_program_that_ends_says_why(family):
    with pytest.raises(EngineError, match=r"(?s)one ended with 3; its log .* no model here"):
        family.start(program("one", "import sys; print('no model here'); sys.exit(3)"))
    assert family.strays() == []


def test_a_program_that_gets_never_ready_is_ended(family, tmp_path):
    ready = once_written(tmp_path / "logs/one.log", "thinking")
    with pytest.raises(EngineError, match=r"(?s)one was not ready within 0\.3 s; .*thinking"):
        family.start(program("one", WAIT.format("thinking"), ready=ready, ready_s=0.3))
    assert family.strays() == []


def test_what_an_earlier_one_wrote_makes_nobody_ready(family):
    card = family.start(program("one"))
    os.kill(card.pid, signal.SIGKILL)
    os.waitpid(card.pid, 0)

    ready = once_written(Path(card.log), "silent")
    with pytest.raises(EngineError, match="not ready"):
        family.start(program("one", WAIT.format("silent"), ready=ready, ready_s=0.3))
    assert "ready\nsilent" in Path(card.log).read_text()


def test_a_program_that_is_not_there_is_an_error(family):
    with pytest.raises(EngineError, match="cannot start one"):
        family.start(Program("one", ("/no/such/program",), says("")))


def test_two_commands_do_not_meet(family, tmp_path):
    with (
        family.alone(),
        pytest.raises(ConfigError, match="another command"),
        Family(tmp_path).alone(),
    ):
        pass
    with family.alone():
        pass


def test_children_carry_the_mark_and_this_process_does_not(family, tmp_path):
    card = family.start(program("one"))

    assert psutil.Process(card.pid).environ()[MARK] == (tmp_path / "run/mark").read_text()
    assert MARK not in os.environ


def test_an_address_is_read_from_a_line_of_json():
    assert says_its_address('INFO x\n{"url": "http://127.0.0.1:1"}\n') == "http://127.0.0.1:1"
    assert says_its_address('{"url"') is None
    assert says_its_address("[1]\n") is None


def test_answering_means_200(monkeypatch):
    monkeypatch.setattr("pipelines.demo.ready._ANSWER_S", 60.0)
    codes = iter((503, 200))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(next(codes))
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert answers(url, "/health")("") is None
        assert answers(url, "/health")("") == url
        server.shutdown()
    assert answers(url, "/health")("") is None


def test_a_card_of_a_number_that_nobody_has_is_of_nothing_that_runs():
    assert Card("one", 2**22 + 1, 0.0, "", "").process() is None


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_down_ends_a_command_that_is_still_starting(family, tmp_path):
    code = (
        "import sys, signal\n"
        "from pathlib import Path\n"
        "from pipelines.demo.processes import Family\n"
        "from specdecode.workload.interrupts import terminated_as_interrupted\n"
        "with terminated_as_interrupted(), Family(Path(sys.argv[1])).alone():\n"
        "    print('holds it', flush=True)\n"
        "    signal.pause()\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"holds it\n"
        with pytest.raises(ConfigError, match="another command"), family.alone():
            pass

        with family.alone(instead=True):
            assert other.wait(120) != 0

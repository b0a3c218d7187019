from __future__ import annotations

import os
import signal
import sys
import time

import httpx
import pytest

from specdecode.errors import ConfigError, EngineError
from specdecode.workload.server_process import ServerCommand, ServerProcess

SERVER = """
import http.server, sys
{before}
http.server.test(Answer, port=int(sys.argv[1]), bind='127.0.0.1')
"""
ANSWER = """
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
"""


def command(before=ANSWER, **more):
    return ServerCommand([sys.executable, "-c", SERVER.format(before=before), "{port}"], **more)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_answers_inside_and_is_gone_outside(tmp_path):
    with ServerProcess(command(), tmp_path / "logs" / "server.log") as server:
        assert httpx.get(server.url + "/health").status_code == 200
        pid = server.pid
    assert not is_running(pid)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health")


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path):
    with (
        pytest.raises(EngineError, match=r"ended with 3.*no such model"),
        ServerProcess(command("print('no such model', flush=True); sys.exit(3)"), tmp_path / "log"),
    ):
        pass


def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    waits = "import time, os; print(os.getpid(), flush=True); time.sleep(600)"
    with (
        pytest.raises(EngineError, match="not ready within 2 s"),
        ServerProcess(command(waits, ready_s=2), tmp_path / "log"),
    ):
        pass
    assert not is_running(int((tmp_path / "log").read_text().split()[0]))


def test_what_ignores_the_signal_and_its_children_are_killed(tmp_path):
    stubborn = ANSWER + (
        "import signal, subprocess\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)"
    )
    with ServerProcess(command(stubborn, stop_s=0.2), tmp_path / "log") as server:
        child = int((tmp_path / "log").read_text().split()[0])
        assert is_running(child)
        pid = server.pid
    assert not is_running(pid)
    for _ in range(100):
        if not is_running(child) or _is_zombie(child):
            return
        time.sleep(0.05)
    pytest.fail("its child is still there")


def _is_zombie(pid):
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rsplit(")", 1)[1].split()[0] == "Z"


def test_variables_are_added_and_an_empty_value_removes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECDECODE_GONE", "here")
    shows = "import os\nprint(os.environ.get('SPECDECODE_GONE'), os.environ['NEW'], flush=True)\n"
    made = command(shows + ANSWER, env={"SPECDECODE_GONE": "", "NEW": "1"})
    with ServerProcess(made, tmp_path / "log"):
        assert "None 1" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("argv", [[], ["server", "--port", "8000"]])
def test_a_command_without_a_place_for_the_port_is_refused(argv):
    with pytest.raises(ConfigError):
        ServerCommand(argv)


def test_a_program_that_does_not_exist(tmp_path):
    with (
        pytest.raises(EngineError, match="cannot start"),
        ServerProcess(ServerCommand(["no-such-program", "{port}"]), tmp_path / "log"),
    ):
        pass


def test_it_has_no_pid_before_it_is_started(tmp_path):
    server = ServerProcess(command(), tmp_path / "log")
    assert server.stop() is None
    with pytest.raises(ConfigError):
        _ = server.pid


def test_an_interrupted_wait_for_its_end_leaves_no_server(tmp_path):
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ANSWER

    def interrupted(*_):
        raise KeyboardInterrupt

    server = ServerProcess(command(stubborn, stop_s=500), tmp_path / "log").__enter__()
    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            server.stop()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert os.waitpid(server.pid, 0)[1] == signal.SIGKILL  # at once, and not after 500 s

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from specdecode.errors import ConfigError, EngineError
from specdecode.workload.server_process import ServerCommand, ServerProcess, own_server
from tests.serving.servers import eventually

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
        assert httpx.get(server.url + "/health", timeout=60).status_code == 200
        pid = server.pid
    assert not is_running(pid)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", timeout=60)


def test_a_server_that_ends_at_once_is_told_with_its_last_words(tmp_path):
    with (
        pytest.raises(EngineError, match=r"ended with 3.*no such model"),
        ServerProcess(command("print('no such model', flush=True); sys.exit(3)"), tmp_path / "log"),
    ):
        pass


def test_a_server_that_is_never_ready_is_stopped(tmp_path):
    server = ServerProcess(command("import time; time.sleep(600)", ready_s=1), tmp_path / "log")
    with pytest.raises(EngineError, match="not ready within 1 s"):
        server.__enter__()
    assert not is_running(server.pid)


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
    eventually(lambda: not is_running(child) or _is_zombie(child))


def _is_zombie(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # gone since it was looked at
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


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


TELLS = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Answer)
print({line!r}.format(server.server_port), flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize(
    "line",
    [
        "listening on http://127.0.0.1:{}",
        "Serving 'my model' at http://127.0.0.1:{} (Ctrl-C stops)",
        '  "url": "http://127.0.0.1:{}",',
    ],
    ids=["listening", "serving", "json"],
)
def test_a_program_that_tells_its_address_takes_a_port_of_its_own(tmp_path, line):
    log = tmp_path / "log"
    log.write_text("listening on http://127.0.0.1:1\n")  # of an earlier start
    code = "import sys\nassert sys.argv[1] == '0'\n" + TELLS.format(line=line)
    made = ServerCommand([sys.executable, "-c", code, "{port}"], tells_address=True)
    with ServerProcess(made, log) as server:
        assert server.is_running
        assert httpx.get(server.url + "/health", timeout=60).status_code == 200
    assert not server.is_running


@pytest.mark.parametrize("says", ["Address already in use", "cannot bind"], ids=["said", "seen"])
def test_a_port_that_somebody_else_took_is_given_up_for_another_one(tmp_path, says):
    """The first time the port is taken, as told by the server, or seen by who listens there."""
    first, pid = tmp_path / "first", tmp_path / "pid"
    taking = f"""
import os, pathlib, socket, time
first = pathlib.Path({str(first)!r})
if not first.exists():
    first.write_text(sys.argv[1])
    if {says == "cannot bind"} and not os.fork():
        os.setsid()
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(('127.0.0.1', int(sys.argv[1])))
        other.listen()
        pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))
        time.sleep(600)
    while {says == "cannot bind"} and not pathlib.Path({str(pid)!r}).exists():
        time.sleep(0.01)
    print({says!r}, flush=True)
    os._exit(1)
"""
    try:
        with ServerProcess(command(taking + ANSWER), tmp_path / "log") as server:
            assert httpx.get(server.url + "/health", timeout=60).status_code == 200
            assert server.url != f"http://127.0.0.1:{first.read_text()}"
    finally:
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_server_that_never_finds_a_free_port_is_given_up(tmp_path):
    ends = "print('bind: Address already in use', flush=True); sys.exit(1)"
    with (
        pytest.raises(EngineError, match=r"ended with 1.*already in use"),
        ServerProcess(command(ends), tmp_path / "log"),
    ):
        pass
    assert (tmp_path / "log").read_text().count("already in use") == 3


def test_its_port_is_kept_for_it_until_it_listens(tmp_path):
    """Nobody who asks for any port is given it, and it can take it nevertheless."""
    waits = f"""
import pathlib, time
pathlib.Path({str(tmp_path / "port")!r}).write_text(sys.argv[1])
while not pathlib.Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.01)
"""
    server = ServerProcess(command(waits + ANSWER), tmp_path / "log")
    tried = []

    def try_it():
        while not (port := tmp_path / "port").exists() or not port.read_text():
            time.sleep(0.01)
        with socket.socket() as other:
            tried.append(other.connect_ex(("127.0.0.1", int(port.read_text()))))
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", int(port.read_text())))
        (tmp_path / "go").touch()

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(try_it)
        with server:
            other.result()
            assert httpx.get(server.url + "/health", timeout=60).status_code == 200
    assert tried == [errno.ECONNREFUSED]


def test_a_server_that_cannot_do_with_a_kept_port_gets_one_that_is_not(tmp_path):
    plain = f"""
import socketserver
http.server.HTTPServer.allow_reuse_address = http.server.ThreadingHTTPServer.allow_reuse_address = 0
socketserver.TCPServer.allow_reuse_port = False
{ANSWER}
"""
    with ServerProcess(command(plain), tmp_path / "log") as server:
        assert httpx.get(server.url + "/health", timeout=60).status_code == 200
    assert "Address already in use" in (tmp_path / "log").read_text()


def test_our_own_server_is_open_to_clients_without_a_key():
    made = own_server("--slots", "2", program=["specdecode"])
    assert made.argv == (
        *("specdecode", "serve", "--host", "127.0.0.1", "--port", "{port}", "--slots", "2"),
    )
    assert made.env == {"SPECDECODE_API_KEY": ""}
    assert made.tells_address

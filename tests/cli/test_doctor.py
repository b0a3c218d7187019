"""`specdecode doctor`: what is installed, which server answers, and what to do."""

from __future__ import annotations

import pytest

from specdecode.cli import checks
from specdecode.workload.engines import all_paths
from tests.wire.engines import LLAMA_CPP, VLLM
from tests.wire.replies import error_reply, json_reply
from tests.wire.server import WireServer

WANTED = [
    "numpy",
    "torch>=2.13",
    "no-such-library",
    "scipy>=900.1",
    'dvc==3.67.1; extra == "pipelines"',
    'no-such-extra>=1; extra == "ray"',
    'numpy>=900; extra == "ray"',
]


@pytest.fixture
def found(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "requires", lambda _name: WANTED)
    return {check.name: check for check in checks.run_checks(tmp_path)}


def test_what_the_installation_asks_for_is_what_is_looked_at(specdecode, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    done = specdecode("doctor", "--target", tmp_path, "--json")
    names = {check["name"] for check in done.document["checks"]}
    assert {"torch", "cryptography", "uvicorn", "mlflow", "git", "python"} <= names


def test_a_package_of_the_library_that_is_missing_stops_commands(found):
    assert found["torch"].status == "ok"
    assert found["no-such-library"].status == "missing"
    assert "make install" in found["no-such-library"].fix


def test_a_version_that_is_too_old_is_missing(found):
    assert found["scipy"].status == "missing"
    assert "900.1 or later" in found["scipy"].detail


def test_a_package_of_an_extra_is_named_with_it_and_stops_nothing(found):
    assert found["no-such-extra"].status == "note"
    assert found["no-such-extra"].detail == "not installed; only for: ray"
    assert ".[ray]" in found["no-such-extra"].fix


def test_what_the_library_needs_anyway_is_not_asked_again_for_an_extra(found):
    assert found["numpy"].status == "ok"


@pytest.mark.parametrize(
    ("older", "newer"), [("2.9", "2.13"), ("2.13.0rc1", "2.13.1"), ("2.13.0+cpu", "3")]
)
def test_versions_compare_by_their_numbers(older, newer):
    assert checks._numbers(older) < checks._numbers(newer)


def test_zeros_at_the_end_are_no_difference():
    assert checks._numbers("2.13.0+cpu") == checks._numbers("2.13")


def test_a_folder_that_is_not_installed_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "DISTRIBUTION", "no-such-distribution")
    by_name = {check.name: check for check in checks.run_checks(tmp_path)}
    assert by_name["no-such-distribution"].status == "missing"
    assert "pip install ." in by_name["no-such-distribution"].fix


def doctor(specdecode, tmp_path, *options):
    (tmp_path / "config.json").write_text("{}")
    done = specdecode("doctor", "--target", tmp_path, *options, "--json")
    return done, {check["name"]: check for check in done.document["checks"]}


def test_nobody_there_is_exit_code_1(specdecode, tmp_path):
    done, by_name = doctor(specdecode, tmp_path, "--server", "http://127.0.0.1:9")
    assert done.code == 1
    assert by_name["server http://127.0.0.1:9"]["status"] == "missing"
    assert by_name["server http://127.0.0.1:9"]["fix"]


def test_an_address_that_is_none_is_wrong_usage(specdecode, tmp_path):
    assert specdecode("doctor", "--target", tmp_path, "--server", "nowhere").code == 2


@pytest.mark.parametrize("wire", [VLLM, LLAMA_CPP], ids=lambda wire: wire.name)
def test_an_engine_is_named_with_its_version(specdecode, tmp_path, wire):
    with WireServer(wire.routes()) as server:
        done, by_name = doctor(specdecode, tmp_path, "--server", server.url)
    check = by_name[f"server {server.url}"]
    assert done.code == 0
    assert check["detail"].startswith(wire.name)
    assert check["status"] in ("ok", "note")


def test_a_server_of_no_known_engine_is_a_note_with_the_doubts(specdecode, tmp_path):
    with WireServer({("GET", "/v1/models"): json_reply({"object": "list", "data": []})}) as server:
        done, by_name = doctor(specdecode, tmp_path, "--server", server.url)
    assert done.code == 0
    assert "no engine known here" in by_name[f"server {server.url}"]["detail"]


def test_a_server_that_wants_a_key_says_where_to_put_it(specdecode, tmp_path):
    refused = error_reply(401, "no")
    with WireServer({("GET", path): refused for path in all_paths()}) as server:
        done, by_name = doctor(specdecode, tmp_path, "--server", server.url)
    assert done.code == 1
    assert "--api-key-env" in by_name[f"server {server.url}"]["fix"]


def test_the_key_of_the_environment_is_sent(specdecode, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cret")
    with WireServer(VLLM.routes()) as server:
        done, _ = doctor(specdecode, tmp_path, "--server", server.url, "--api-key-env", "MY_KEY")
    sent = {request.headers.get("authorization") for request in server.requests}
    assert sent == {"Bearer s3cret"}
    assert "s3cret" not in done.out + done.err

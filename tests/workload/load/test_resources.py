"""Use of the machine: what is measured is named, what is not is said."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from specdecode.errors import ConfigError
from specdecode.workload.load.resources import Sampler, is_local, parse_smi
from specdecode.workload.load.summary import _gpus


def test_a_machine_is_sampled_and_a_server_only_if_its_process_is_known():
    sample = Sampler("http://127.0.0.1:1").sample()
    assert sample["machine_memory_bytes"] > 0
    assert sample["client_rss_bytes"] > 0
    assert sample["server_cpu_percent"] is sample["server_rss_bytes"] is None


def test_use_of_the_processor_is_unknown_until_time_has_passed(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("specdecode.workload.load.resources.time.monotonic", lambda: now[0])
    sampler = Sampler("http://127.0.0.1:1", os.getpid())
    names = ("machine_cpu_percent", "server_cpu_percent", "client_cpu_percent")
    now[0] += 0.01  # a tick of the kernel's clock: 0 or 100 %
    first = sampler.sample()
    now[0] += 1.0
    second = sampler.sample()
    assert [first[name] for name in names] == [None, None, None]
    assert None not in [second[name] for name in names[1:]]


def test_use_of_the_machine_is_the_same_in_a_thread_that_never_asked_before():
    sampler = Sampler("http://127.0.0.1:1")
    sampler._machine = (sampler._machine[0] - 3.0, sampler._machine[1] - 4.0)
    sampler._read_at -= 4.0
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(sampler.sample).result()
    assert found["machine_cpu_percent"] > 20


def test_a_server_is_sampled_with_its_children_until_it_is_gone():
    child = "import time; print(1, flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        sampler = Sampler("http://127.0.0.1:1", process.pid)
        assert sampler.sample()["server_rss_bytes"] > 0
        assert len(sampler._family) == 2
        for member in sampler._family.values():
            member.kill()
        process.wait()
        assert sampler.sample()["server_rss_bytes"] is None


def test_a_process_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="no such process"):
        Sampler("http://127.0.0.1:1", 2**22 + 1)


@pytest.mark.parametrize(
    ("url", "pid", "words"),
    [
        ("http://localhost:1", None, "share processor"),
        ("http://10.1.2.3", None, "elsewhere and is not measured"),
        ("http://10.1.2.3", os.getpid(), "with its children"),
    ],
    ids=["local", "elsewhere", "of a process"],  # a process id would differ between workers
)
def test_the_scope_says_whose_load_it_is(url, pid, words):
    assert words in Sampler(url, pid).scope


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8", True),
        ("http://[::1]:8", True),
        ("http://localhost", True),
        ("http://192.168.0.9", False),
        ("http://example.org", False),
    ],
)
def test_loopback_is_known(url, local):
    assert is_local(url) is local


def test_what_a_gpu_does_not_tell_is_null():
    found = parse_smi("35, 1024, 143771, 120.5\n[N/A], 10, 20, [N/A]\n")
    assert found[0] == {
        "utilisation_percent": 35.0,
        "memory_bytes": 1024 * 2**20,
        "memory_total_bytes": 143771 * 2**20,
        "power_w": 120.5,
    }
    assert found[1]["utilisation_percent"] is None
    assert parse_smi("") is None
    assert parse_smi("No devices were found\n") is None


def test_gpu_samples_are_summed_up_by_gpu():
    one, two = parse_smi("10, 1, 2, [N/A]\n"), parse_smi("30, 1, 2, [N/A]\n")
    (found,) = _gpus([one, two])
    assert found["utilisation_percent"] == {"n": 2, "mean": 20.0, "max": 30.0}
    assert found["power_w"] == "not measured"
    assert _gpus([]) == "not measured"

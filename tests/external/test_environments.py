"""Installing an engine, with a stand-in for the programs that would be started."""

from __future__ import annotations

import sys

import pytest

from pipelines.external import environments
from pipelines.external.__main__ import main
from pipelines.external.environments import EXTERNALS, environment, find_environment, install
from specdecode.errors import ConfigError, MissingPrerequisiteError


class Programs:
    """Starts nothing; makes the interpreter where a venv would be, and writes down what was asked.

    Args:
        broken: what a command that fails has in it.
    """

    def __init__(self, broken: str | None = None) -> None:
        self.broken, self.asked = broken, []

    def __call__(self, argv) -> int:
        line = " ".join(argv)
        self.asked.append(line)
        if self.broken is not None and self.broken in line:
            return 1
        if "-m venv" in line:
            python = environments.interpreter(environments.Path(argv[-1]))
            python.parent.mkdir(parents=True)
            python.touch()
        return 0


def test_the_lock_is_installed_without_what_it_does_not_name(tmp_path):
    programs = Programs()

    folder = install("vllm", tmp_path, programs)

    venv, torch, everything, check = programs.asked
    assert venv == f"{sys.executable} -m venv {tmp_path / 'vllm'}"
    assert torch.endswith("--disable-pip-version-check torch==2.13.0")
    assert everything.endswith(f"--no-deps --requirement {EXTERNALS['vllm'].lock_path}")
    assert check.endswith("-c import vllm")
    assert find_environment("vllm", tmp_path) == folder


def test_what_is_there_is_not_installed_again(tmp_path):
    install("llama.cpp", tmp_path, Programs())
    again = Programs()

    install("llama.cpp", tmp_path, again)

    assert again.asked == []


@pytest.mark.parametrize("at", ["-m venv", "--requirement", "-c import"])
def test_an_installation_that_ended_anywhere_is_no_environment_and_starts_over(tmp_path, at):
    with pytest.raises(MissingPrerequisiteError):
        install("llama.cpp", tmp_path, Programs(broken=at))
    assert find_environment("llama.cpp", tmp_path) is None
    (tmp_path / "llama.cpp").mkdir(exist_ok=True)
    (tmp_path / "llama.cpp" / "half").touch()

    install("llama.cpp", tmp_path, Programs())

    assert not (tmp_path / "llama.cpp" / "half").exists()
    assert find_environment("llama.cpp", tmp_path) is not None


def test_other_versions_are_another_environment(tmp_path, monkeypatch):
    install("llama.cpp", tmp_path, Programs())
    lock = tmp_path / "other.txt"
    lock.write_text("xllamacpp==1.0\n")
    other = environments.External("llama.cpp", str(lock), "xllamacpp", "xllamacpp")
    monkeypatch.setitem(EXTERNALS, "llama.cpp", other)

    assert find_environment("llama.cpp", tmp_path) is None


def test_an_environment_that_lost_its_interpreter_is_none(tmp_path):
    folder = install("llama.cpp", tmp_path, Programs())
    environments.interpreter(folder).unlink()

    assert find_environment("llama.cpp", tmp_path) is None


@pytest.mark.parametrize(
    ("engine", "broken", "says"),
    [
        ("vllm", "torch==", r"could not install torch==2\.13\.0.*make external ENGINES=vllm"),
        ("vllm", "--requirement", r"all of vllm\.txt"),
        ("llama.cpp", "-c import", "does not load on this machine"),
    ],
)
def test_what_cannot_be_had_is_named_with_what_to_do(tmp_path, engine, broken, says):
    with pytest.raises(MissingPrerequisiteError, match=says):
        install(engine, tmp_path, Programs(broken))


def test_who_needs_an_engine_that_is_missing_is_told_the_command(tmp_path):
    with pytest.raises(MissingPrerequisiteError, match=r"make external ENGINES=llama\.cpp"):
        environment("llama.cpp", tmp_path)


def test_an_unknown_engine_is_refused_with_the_known_ones(tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"vllm, llama\.cpp"):
        install("tgi", tmp_path, Programs())
    assert main(["install", "tgi"]) == 2
    assert "no external engine 'tgi'" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXTERNALS)
def test_locks_pin_every_package_and_name_no_index(name):
    lines = EXTERNALS[name].lock_path.read_text().splitlines()

    assert all(line.count("==") == 1 and "/" not in line for line in lines)
    assert any(line.startswith(f"{EXTERNALS[name].package}==") for line in lines)
    # They would be loaded, and fail, beside the CPU build of torch.
    assert not any(line.startswith(("torchvision", "torchaudio", "torchcodec")) for line in lines)

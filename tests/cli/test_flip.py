"""`specdecode flip` hands over to the program in the repository."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from specdecode.cli import flip


@pytest.fixture
def became(monkeypatch):
    """What the command would go on as."""
    commands = []
    monkeypatch.setattr(flip, "_become", commands.append)
    return commands


def test_every_option_is_handed_over(specdecode, became):
    specdecode("flip", "--profile", "smoke", "--only", "a", "--only", "b", "--list", "--json")

    assert became == [
        [
            *(sys.executable, "-m", "pipelines.flip", "--profile", "smoke"),
            *("--only", "a", "--only", "b", "--list", "--json"),
        ]
    ]


def test_without_the_pipelines_it_says_where_to_run_it(specdecode, became, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    done = specdecode("flip")

    assert done.code == 2
    assert "clone of the repository" in done.err
    assert became == []

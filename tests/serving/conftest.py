"""Servers that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.serving.servers import SlowNetwork, serving, tiny_engine


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module")
def server(engine_folder):
    with serving(tiny_engine(engine_folder), slots=4, guard=False) as running:
        yield running


@pytest.fixture
def slow(engine_folder):
    """Makes a server whose replies take a while."""
    import contextlib

    with contextlib.ExitStack() as stack:

        def make(seconds=0.02, draft=None, **settings):
            engine = tiny_engine(engine_folder, draft)
            object.__setattr__(
                engine.target, "network", SlowNetwork(engine.target.network, seconds)
            )
            return stack.enter_context(serving(engine, **settings))

        yield make

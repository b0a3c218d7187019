"""The champion in a real MLflow registry: moved once, by one of many, and put back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow import MlflowClient

from pipelines.flows.registry import MlflowRegistry, registered
from pipelines.flows.release import Bundle, LostPromotionError
from specdecode.errors import ConfigError

BUNDLE = Bundle(Path("b.zip"), "1" * 64, "2" * 64, "3" * 64, "4" * 64)
MODEL = "draft"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A database that is set up; that takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/mlflow.db"
    MlflowClient(tracking_uri=uri, registry_uri=uri).search_registered_models()
    return folder / "mlflow.db"


@pytest.fixture
def uri(database, tmp_path):
    copy = tmp_path / "mlflow.db"
    copy.write_bytes(database.read_bytes())
    return f"sqlite:///{copy}"


@pytest.fixture
def make(uri, tmp_path):
    """A registry of the version with that manifest."""

    def made(letter):
        lock = tmp_path / "registry.lock"
        version = registered(uri, MODEL, letter * 64, "models/draft", lock)
        return MlflowRegistry(uri, MODEL, version, lock)

    return made


def tags(registry):
    client = MlflowClient(tracking_uri=registry.uri, registry_uri=registry.uri)
    return client.get_model_version(MODEL, registry.version).tags


def test_a_manifest_has_one_version_however_often_it_is_registered(make):
    assert [make(letter).version for letter in "abab"] == ["1", "2", "1", "2"]
    assert make("a").champion() is None


def test_the_champion_says_by_which_evidence(make):
    first = make("a")
    first.promote(BUNDLE, replaces=None)

    assert first.champion() == "1"
    found = tags(first)
    assert (found["gate.verdict"], found["gate.plan_sha256"]) == ("GO", "2" * 64)
    assert found["gate.bundle_sha256"] == "1" * 64
    first.promote(BUNDLE, replaces=None)  # twice is once
    assert first.champion() == "1"


def test_whoever_expects_another_champion_is_told_and_changes_nothing(make):
    first, second, third = make("a"), make("b"), make("c")
    first.promote(BUNDLE, replaces=None)
    second.promote(BUNDLE, replaces="1")

    with pytest.raises(LostPromotionError, match="version 2 of draft was made champion meanwhile"):
        third.promote(BUNDLE, replaces="1")
    assert first.champion() == "2"
    assert "gate.verdict" not in tags(third)


def test_of_ten_at_once_exactly_one_wins_and_there_is_always_a_champion(make):
    make("a").promote(BUNDLE, replaces=None)
    rivals = [make(letter) for letter in "bcdef0123456"[:10]]

    def one(registry):
        try:
            registry.promote(BUNDLE, replaces="1")
        except LostPromotionError:
            return None
        return registry.version

    with ThreadPoolExecutor(10) as pool:
        won = [version for version in pool.map(one, rivals) if version]
    assert len(won) == 1
    assert rivals[0].champion() == won[0]


def test_taking_back_puts_back_what_was_there_and_only_if_it_is_ours(make):
    first, second = make("a"), make("b")
    first.promote(BUNDLE, replaces=None)
    second.promote(BUNDLE, replaces="1")
    first.demote("a mistake")
    assert first.champion() == "2"

    second.demote("an alarm")
    second.demote("an alarm")
    assert first.champion() == "1"
    assert tags(second)["gate.taken_back"] == "an alarm"
    first.demote("an alarm")
    assert first.champion() is None


def test_a_name_that_mlflow_does_not_take_is_told(uri, tmp_path):
    with pytest.raises(ConfigError, match="model ''"):
        registered(uri, "", "a" * 64, "models/draft", tmp_path / "lock")

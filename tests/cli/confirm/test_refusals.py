"""What is refused before anything is opened, with which exit code, and what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from specdecode.governance import PLAN_ENTRY
from specdecode.governance.amendments import amend
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import Deviation, make_predicate
from tests.cli.confirm.sealed_repository import edit, git, opened


def test_changed_code_is_refused_with_exit_code_3_and_named(specdecode, repository):
    edit(repository, "code/program.py", "pass", "pass  # one more thing")
    done = specdecode("confirm", *repository.options)

    assert done.code == 3
    assert "tree:code" in done.err
    assert not opened(repository)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("requirements.lock", "nothing", "something"),
        ("plans/signers.yaml", "owner", "reviewer"),
        ("vault/confirmation.json", '"normal":4', '"normal":5'),
        ("plans/plan.seal.json", '"sig":"', '"sig":"A'),
        ("plans/ledger.jsonl", '"none"', '"nine"'),
        ("reports/manifest.json", '"params": "', '"params": "0'),
        ("plans/plan.anchor.json", '"head":"', '"head":"0'),
    ],
)
def test_any_changed_file_is_refused_with_exit_code_3(specdecode, repository, name, old, new):
    edit(repository, name, old, new)
    done = specdecode("confirm", *repository.options)

    assert done.code == 3
    assert not opened(repository)


def test_another_target_under_the_same_manifest_is_refused(specdecode, repository):
    config = repository.root / "models/target/generation_config.json"
    config.write_text(config.read_text() + " ")
    done = specdecode("confirm", *repository.options)

    assert done.code == 3
    assert "candidate" in done.err
    assert not opened(repository)


def test_other_parameters_under_the_same_manifest_are_refused(specdecode, repository):
    edit(repository, "params.yaml", "max_tokens: 6", "max_tokens: 7")
    done = specdecode("confirm", *repository.options)

    assert done.code == 3
    assert "candidate" in done.err
    assert not opened(repository)


def test_a_second_candidate_is_refused_with_exit_code_2_and_told_what_to_do(specdecode, repository):
    specdecode("confirm", *repository.options)
    edit(repository, "params.yaml", "sampling: 11", "sampling: 12")
    repository.write_manifest()
    other = (*repository.options[:-2], "elsewhere/manifest.json", "--json")
    (repository.root / "elsewhere").mkdir()
    shutil.move(repository.root / "reports/manifest.json", repository.root / "elsewhere")
    git(repository.root, "checkout", "-q", "--", "reports/manifest.json")
    done = specdecode("confirm", *other)

    assert done.code == 2
    assert "opened on" in done.err
    assert "differ now: candidate" in done.err
    assert done.document["error"]["type"] == "ConfirmationConsumed"


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--key", "../absent.key", "no such key file"),
        ("--vault", "plans", "cannot be read"),
        ("--seal", "absent.json", "cannot be read"),
        ("--anchor", "absent.json", "cannot be read"),
        ("--manifest", "absent.json", "cannot be read"),
        ("--params", "absent.yaml", "absent.yaml"),
        ("--params", "plans/signers.yaml", "not the parameters of a run"),
        ("--target", "plans", "plans"),
        ("--signers", "other.yaml", "the plan names plans/signers.yaml"),
        ("--plan", "absent.yaml", "absent.yaml"),
    ],
)
def test_a_wrong_option_is_wrong_usage_and_consumes_nothing(
    specdecode, repository, option, value, problem
):
    options = list(repository.options)
    if option in options:
        options[options.index(option) + 1] = value
    else:
        options += [option, value]
    done = specdecode("confirm", *options)

    assert done.code == 2
    assert problem in done.err
    assert not opened(repository)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({PLAN_ENTRY: "0" * 64}, "made for another plan"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(specdecode, repository, changes, problem):
    repository.write_manifest(**changes)
    done = specdecode("confirm", *repository.options)

    assert done.code == 2
    assert problem in done.err
    assert not opened(repository)


def test_settings_other_than_the_plans_are_refused(specdecode, repository):
    edit(repository, "params.yaml", "name: sampled", "name: warm")
    done = specdecode("confirm", *repository.options)

    assert done.code == 2
    assert "samples greedy, warm, the plan greedy, sampled" in done.err
    assert not opened(repository)


def test_an_amendment_that_nobody_listed_signed_is_told_before_the_opening(specdecode, repository):
    seal = repository.ledger.entries()[-1]
    said = make_predicate(
        Deviation,
        plan_sha256=seal.body["plan_sha256"],
        when=seal.at,
        stage="confirmation",
        what="a looser bar",
        why="it looked better",
        data_seen="none",
        impact="unknown",
        author="Ada",
    )
    amend(said, SigningKey.generate(), repository.ledger, ())
    done = specdecode("confirm", *repository.options)

    assert done.code == 3
    assert "an amendment: signed by key" in done.err
    assert [entry.kind for entry in repository.ledger.entries()] == ["seal", "amendment"]


def test_a_folder_that_takes_no_rows_is_told_before_the_opening(specdecode, repository):
    taken = Path("taken")
    taken.write_text("")
    done = specdecode("confirm", *repository.options, "--out", taken)

    assert done.code == 2
    assert "taken: cannot be made" in done.err
    assert [entry.kind for entry in repository.ledger.entries()] == ["seal"]

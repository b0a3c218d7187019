"""A set to try the procedure with, whose key is public; and a plan that has no set."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.confirm.sealed_repository import COUNT, edit, git, opened


@pytest.fixture
def open_to_all(specdecode, repository):
    """The same repository with its key in it, as a set to try the procedure with."""
    shutil.rmtree(repository.root / "vault")
    key = repository.root / "vault.key"
    shutil.copy(repository.root.parent / "holder.key", key)
    key.chmod(0o644)  # as a clone has it
    lock = ("vault", "lock", "../prompts.jsonl", "--out", "vault", "--order-seed", 1, "--no-plain")
    assert specdecode(*lock, "--key", key, "--demonstration").code == 0
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-qm", "open to all")
    return repository


def seal_again(specdecode, *options):
    done = specdecode(
        *("plan", "seal", "plans/plan.yaml", "--key", "../ada.pem", "--code", "code"),
        *("--manifest", "reports/manifest.json", "--power", 0.9, *options),
    )
    assert done.code == 0, done.err
    return done


def test_a_set_whose_key_is_public_says_so_wherever_it_is_read(specdecode, open_to_all):
    sealed = seal_again(specdecode, "--confirmation", "vault/confirmation.json")
    options = [option.replace("../holder.key", "vault.key") for option in open_to_all.options]
    done = specdecode("confirm", *options[:-1])
    lines = open_to_all.ledger.entries()

    for said in (sealed.out, done.out):
        assert "held out by agreement only" in said.replace("\n", " ")
    assert f"{COUNT} prompts, 0 of them lost" in done.out
    assert {e.kind: e.body["custody"] for e in lines if "custody" in e.body} == {
        "opened": "demonstration",
        "verdict": "demonstration",
    }
    assert json.loads((open_to_all.root / "vault/OPENED").read_text())["custody"] == "demonstration"


def test_a_page_that_hides_that_its_key_is_public_is_refused(specdecode, open_to_all):
    seal_again(specdecode, "--confirmation", "vault/confirmation.json")
    edit(open_to_all, "vault/confirmation.json", '"demonstration"', '"held"')
    done = specdecode("confirm", *open_to_all.options)

    assert done.code == 3
    assert "not about this confirmation set" in done.err
    assert not opened(open_to_all)


def test_a_plan_sealed_without_a_confirmation_set_opens_none_and_says_how_to(
    specdecode, repository
):
    seal_again(specdecode)
    done = specdecode("confirm", *repository.options)

    assert done.code == 2
    assert "names no confirmation set" in done.err
    assert "--confirmation vault/confirmation.json" in done.err
    assert not opened(repository)

"""A seal in the pipeline: true, absent, or a reason to stop before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pipelines.sealed import ANCHOR, LEDGER, SEAL, SIGNERS, sealed_plan
from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.anchor import NoAnchor
from specdecode.governance.ledger import Ledger
from specdecode.governance.sealing import seal_plan
from specdecode.governance.subjects import file_sha256
from tests.governance.keys import ADA, ENTRIES, NOW
from tests.governance.plans import small_plan

PLAN = small_plan()
FILES = ("requirements.lock", "params.yaml", str(SIGNERS))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A folder with a sealed plan, its ledger, and the files sealed beside it."""
    (tmp_path / "plans").mkdir()
    (tmp_path / SIGNERS).write_text(yaml.safe_dump(ENTRIES))
    for name in FILES[:2]:
        (tmp_path / name).write_text(f"content of {name}\n")
    subjects = {name: file_sha256(tmp_path / name) for name in FILES} | {
        "tree:specdecode": "d" * 64
    }
    envelope = seal_plan(
        PLAN,
        subjects,
        ADA,
        Ledger(tmp_path / LEDGER),
        NoAnchor(),
        at=NOW,
        tree_clean=True,
        confirmation_opened=False,
        power=None,
        power_wanted=None,
    )
    (tmp_path / SEAL).write_bytes(envelope.to_bytes())
    return tmp_path


def test_a_seal_that_fits_is_given_with_its_ledger(sealed: Path) -> None:
    found = sealed_plan(PLAN, sealed)

    assert found is not None
    assert [signer.name for signer in found.seal.signers] == ["Ada"]
    assert found.ledger == (sealed / LEDGER).read_bytes()
    assert [entry.kind for entry in found.entries] == ["seal"]
    assert found.signers == sealed / SIGNERS


def test_no_seal_is_none_whatever_else_is_there(sealed: Path) -> None:
    (sealed / SEAL).unlink()

    assert sealed_plan(PLAN, sealed) is None


def test_a_plan_changed_after_its_seal_is_refused(sealed: Path) -> None:
    changed = small_plan(bootstrap_seed=PLAN.bootstrap_seed + 1)

    with pytest.raises(TamperedError, match=r"not what was sealed on .*: plan\."):
        sealed_plan(changed, sealed)


@pytest.mark.parametrize("name", FILES)
def test_a_file_changed_after_the_seal_is_named(sealed: Path, name: str) -> None:
    with (sealed / name).open("a") as file:
        file.write("# one more line\n")

    with pytest.raises(TamperedError, match=name):
        sealed_plan(PLAN, sealed)


def test_a_profile_with_parameters_of_its_own_is_held_to_the_plan_only(sealed: Path) -> None:
    (sealed / "params.yaml").write_text("of the smoke profile\n")

    assert sealed_plan(PLAN, sealed, files=False) is not None


def _cut(path: Path) -> None:
    path.write_bytes(b"")


def _edit(path: Path) -> None:
    document = json.loads(path.read_bytes())
    document["at"] = "2026-01-01T00:00:00Z"
    path.write_text(json.dumps(document) + "\n")


@pytest.mark.parametrize("change", [_cut, _edit])
def test_a_ledger_that_does_not_have_the_seal_is_refused(
    sealed: Path, change: Callable[[Path], None]
) -> None:
    change(sealed / LEDGER)

    with pytest.raises(TamperedError):
        sealed_plan(PLAN, sealed)


def test_a_seal_without_its_ledger_says_what_to_restore(sealed: Path) -> None:
    (sealed / LEDGER).unlink()

    with pytest.raises(ConfigError, match=r"ledger\.jsonl.*restore"):
        sealed_plan(PLAN, sealed)


def test_the_paths_are_those_that_sealing_writes() -> None:
    plan = Path("plans/default.yaml")

    assert plan.with_suffix(".seal.json") == SEAL
    assert plan.with_suffix(".anchor.json") == ANCHOR

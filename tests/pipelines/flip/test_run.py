"""The table of flips: what turns, what is kept, what a failure or an interruption leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from pipelines import repro
from pipelines.flip import __main__ as command
from pipelines.flip.result import Flips
from pipelines.flip.run import PAGE, RESULT, STEP, InterruptedRunError, copy_of, run_flips
from pipelines.flip.show import conclusion, markdown
from specdecode.errors import ConfigError
from tests.pipelines.flip.project import Evaluations, change, flips, small_repository, verdict

USELESS = ("unchanged", "useless-draft")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_repository(tmp_path / "repository")


def read(root: Path, profile: str = "full") -> Flips:
    home = root if profile == "full" else root / ".workspaces" / profile
    return Flips.model_validate(json.loads((home / RESULT).read_text(encoding="utf-8")))


def test_the_verdict_turns_where_it_is_another_than_the_unchanged_one(root: Path) -> None:
    slow = verdict("NO_GO", 0.6, 0.7)
    evaluations = Evaluations({"useless-draft": slow})

    table = run_flips(root, "full", flips(*USELESS, "one-thread"), evaluations)

    assert evaluations.asked == [*USELESS, "one-thread"]
    assert [row.status for row in table.rows] == ["GO", "NO_GO", "GO"]
    assert [row.turned for row in table.rows] == [False, True, False]
    found = table.rows[1].deciding
    assert found is not None
    assert (found.rule, found.low, found.high, found.threshold) == ("block-faster", 0.6, 0.7, 1.1)
    assert (found.side, found.position) == ("at least", "below")
    assert "turns with: useless-draft." in conclusion(table)
    assert read(root) == table
    page = (root / PAGE).read_text(encoding="utf-8")
    assert page == markdown(table)
    assert "| useless-draft | the draft is 'early-exit:1'" in page
    assert "NO_GO, turned | block-faster: 0.65 (0.6 to 0.7), at least 1.1 asked: lies below" in page


def test_too_few_prompts_turn_no_verdict_and_the_interval_still_tells(root: Path) -> None:
    few = {"unchanged": (1.2, 1.3), "useless-draft": (0.6, 0.7)}
    made = Evaluations({name: verdict("INCONCLUSIVE", *ends) for name, ends in few.items()})

    table = run_flips(root, "smoke", flips(*USELESS), made)

    assert [row.turned for row in table.rows] == [False, False]
    assert "moves to another side of its threshold with: useless-draft" in conclusion(table)
    assert read(root, "smoke") == table
    assert not (root / RESULT).exists()  # a short run does not overwrite a full one


def test_a_copy_has_one_assumption_changed_and_no_seal(root: Path) -> None:
    made = Evaluations({})

    run_flips(root, "full", flips("unchanged", "useless-draft", "adversarial-prompts"), made)

    assert (root / "plans/default.seal.json").exists()
    for flip in flips("unchanged", "useless-draft", "adversarial-prompts"):
        copy = copy_of(root, "full", flip)
        assert not (copy / "plans/default.seal.json").exists()
        steps = yaml.safe_load((copy / "dvc.yaml").read_text())["stages"]["prompts"]
        other = flip.population is not None
        assert (STEP in steps["cmd"]) is other
        assert (copy / "flip.json").exists() is other
        assert ("flip.json" in steps["deps"]) is other
    params = yaml.safe_load(
        (copy_of(root, "full", flip).parent / "useless-draft/params.yaml").read_text()
    )
    assert params["draft"]["source"] == "early-exit:1"
    assert params["profile"] == "full"
    assert (root / "plans/default.yaml").read_text() != (copy / "plans/default.yaml").read_text()


def test_rows_of_other_flips_stay_as_long_as_nothing_they_share_has_changed(root: Path) -> None:
    run_flips(root, "full", flips(*USELESS), Evaluations({}))

    table = run_flips(root, "full", flips("unchanged", "one-thread"), Evaluations({}))
    assert [row.name for row in table.rows] == [*USELESS, "one-thread"]

    change(root, "params.yaml", lambda p: p["seeds"].update(sampling=7))
    table = run_flips(root, "full", flips("unchanged", "one-thread"), Evaluations({}))
    assert [row.name for row in table.rows] == ["unchanged", "one-thread"]


def test_a_flip_that_fails_is_told_and_the_others_go_on(root: Path) -> None:
    table = run_flips(
        root, "full", flips(*USELESS, "one-thread"), Evaluations({"useless-draft": 1})
    )

    failed = table.rows[1]
    assert (failed.status, failed.turned, failed.deciding) == (None, None, None)
    assert "did not finish (exit status 1)" in (failed.note or "")
    assert table.rows[2].status == "GO"
    assert "No verdict: useless-draft." in conclusion(table)


def test_without_the_unchanged_verdict_nothing_is_said_to_turn(root: Path) -> None:
    table = run_flips(root, "full", flips(*USELESS), Evaluations({"unchanged": 1}))

    assert [row.turned for row in table.rows] == [None, None]
    assert "nothing can be said to turn" in conclusion(table)


def test_an_interruption_keeps_what_is_done(root: Path) -> None:
    with pytest.raises(InterruptedRunError):
        run_flips(root, "full", flips(*USELESS), Evaluations({"useless-draft": repro.INTERRUPTED}))

    assert [row.name for row in read(root).rows] == ["unchanged"]


def test_what_is_so_already_is_left_out_with_a_reason(root: Path) -> None:
    change(root, "params.yaml", lambda p: p["decoding"].update(threads=1))
    made = Evaluations({})

    table = run_flips(root, "full", flips("unchanged", "one-thread"), made)

    assert made.asked == ["unchanged"]
    assert table.rows[1].note == "nothing to flip: decoding.threads is 1 already"


def test_a_profile_that_there_is_not_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="no profile 'huge'"):
        run_flips(root, "huge", flips("unchanged"), Evaluations({}))


def test_a_row_needs_a_status_or_a_reason_and_the_unchanged_one_is_first(root: Path) -> None:
    run_flips(root, "full", flips(*USELESS), Evaluations({}))
    document = json.loads((root / RESULT).read_text(encoding="utf-8"))

    for edit in (
        lambda d: d["rows"].reverse(),
        lambda d: d["rows"][1].update(status=None),
        lambda d: d.update(rows=[]),
        lambda d: d.update(base_sha256="x"),
    ):
        changed = json.loads(json.dumps(document))
        edit(changed)
        with pytest.raises(ValueError, match="validation error"):
            Flips.model_validate(changed)


def test_the_command_lists_refuses_and_reports(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(["--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["flips"]) == 8

    assert command.main(["--only", "warp", "--json"], root) == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "ConfigError"

    made = Evaluations({"useless-draft": 1})
    monkeypatch.setattr(command, "reproducing", lambda *_: made)
    assert command.main(["--only", "useless-draft"], root) == 1
    out = capsys.readouterr().out
    assert "no verdict" in out
    assert str(root / RESULT) in out

    made.verdicts["useless-draft"] = repro.INTERRUPTED
    assert command.main(["--only", "useless-draft", "--json"], root) == 130
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "Interrupted"

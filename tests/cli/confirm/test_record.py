"""From the locked prompts to the verdict, the exit code and what is on record."""

from __future__ import annotations

import json

import pytest

from specdecode import governance
from specdecode.governance import EXIT_CODES, Status, load_plan, plan_sha256
from tests.cli.confirm.sealed_repository import COUNT, prompt_lines


def test_it_opens_measures_audits_decides_and_puts_all_of_it_on_record(specdecode, repository):
    done = specdecode("confirm", *repository.options)
    document, rows = done.document, repository.rows()
    verdict = json.loads((repository.root / "out/verdict.json").read_text())

    assert done.code == EXIT_CODES[Status(verdict["status"])]
    assert (document["prompts"], document["lost"], document["exploratory"]) == (COUNT, 0, [])
    assert len(rows) == COUNT * 3 * 2
    assert {row.stage for row in rows} == {"confirmation"}
    assert all(row.error is None for row in rows)
    audit = json.loads((repository.root / "out/audit.json").read_text())
    assert audit["arms"]["block"]["verdict"] in ("lossless", "undecided")
    assert verdict["plan_sha256"] == plan_sha256(load_plan("plans/plan.yaml"))
    assert [r["outcome"] for r in verdict["rules"] if r["kind"] == "integrity"] == ["pass"] * 14
    kinds = [entry.kind for entry in repository.ledger.entries()]
    assert kinds == ["seal", "opened", *["progress"] * (2 * COUNT + 1), "verdict"]
    assert repository.ledger.entries()[-1].body["status"] == verdict["status"]
    assert repository.ledger.entries()[-1].body["custody"] == document["custody"] == "held"
    assert document["head"] == repository.ledger.head


def test_again_it_comes_to_the_same_and_writes_nothing_more(specdecode, repository):
    first = specdecode("confirm", *repository.options)
    ledger, rows = repository.ledger.path.read_bytes(), repository.rows()
    again = specdecode("confirm", *repository.options)

    assert again.code == first.code
    assert again.document == first.document
    assert repository.ledger.path.read_bytes() == ledger
    assert repository.rows() == rows


@pytest.mark.parametrize("status", list(Status))
def test_the_exit_code_is_the_verdicts(specdecode, repository, monkeypatch, status):
    real = governance.decide

    def decide(*arguments):
        return real(*arguments).model_copy(update={"status": status})

    monkeypatch.setattr(governance, "decide", decide)
    done = specdecode("confirm", *repository.options)

    assert done.code == EXIT_CODES[status]
    assert done.document["status"] == status.value


def test_after_a_deviation_made_with_the_set_open_a_go_is_none(specdecode, repository, monkeypatch):
    specdecode("confirm", *repository.options)
    amended = specdecode(
        *("plan", "amend", "plans/plan.yaml", "--key", "../ada.pem", "--stage", "confirmation"),
        *("--what", "a looser bar", "--why", "it looked better", "--data-seen", "full"),
        *("--impact", "unknown", "--json"),
    )
    assert amended.code == 0, amended.err
    real = governance.decide
    monkeypatch.setattr(
        governance, "decide", lambda *a: real(*a).model_copy(update={"status": Status.GO})
    )
    done = specdecode("confirm", *repository.options)

    assert done.code == EXIT_CODES[Status.INCONCLUSIVE]
    assert "a looser bar" in done.document["exploratory"][0]


def test_people_are_shown_the_verdict_and_what_to_do_with_the_head(specdecode, repository):
    done = specdecode("confirm", *repository.options[:-1])

    assert repository.ledger.head in done.out
    assert "specdecode ledger anchor" in done.out
    assert f"{COUNT} prompts, 0 of them lost" in done.out


def test_no_prompt_is_shown_in_what_it_prints_and_puts_on_record(specdecode, repository):
    done = specdecode("confirm", *repository.options)
    texts = [json.loads(line)["turns"][0] for line in prompt_lines()]
    ledger = repository.ledger.path.read_text()

    assert not any(text in part for text in texts for part in (done.out, done.err, ledger))

"""Rows that went through a spool are judged as any others: by the real gate, with a small plan."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from specdecode.cli.app import app
from specdecode.errors import ConfigError, EvidenceError
from specdecode.governance import decide
from specdecode.governance.stage_of_rows import of_spool, view_for
from specdecode.governance.verdict import Status
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record, write_parquet
from specdecode.rollout.rows import conclude
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_reader import read_spool
from tests.governance.live.streams import (
    CANARY,
    SHADOW,
    WATCH,
    canary,
    failing,
    live_plan,
    shadow,
    slow,
    watch,
)
from tests.rollout.factories import DONE, USAGE, asked, delta, event, watched
from tests.rollout.factories import SHADOW as SHADOW_STATE

PLAIN = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})
LOOSE = [each | {"metrics": ["error_rate"]} for each in (SHADOW, CANARY, WATCH)]
STAGES = [each | {"metrics": ["error_rate", "e2e_s"]} for each in (SHADOW, CANARY, WATCH)]
PLAN = live_plan(*STAGES)


def spooled(folder, rows, **options):
    """The rows as a router would have written them, in its own time."""
    with Spool(folder, **options) as spool:
        for row in rows:
            record = Record.model_validate(row)
            fields = record.model_dump(include=set(row), exclude={"error"})
            known = ("request_id", "prompt_id", "arm", "stage", "profile", "category", "sampling",
                     "started_at", "manifest_sha256")  # fmt: skip
            spool.begin({name: fields[name] for name in known})
            spool.append(record)
    return folder


@pytest.mark.parametrize(
    ("rows", "stage", "status"),
    [
        (shadow(300), "shadow", Status.GO),
        (shadow(300, slow(0.6)), "shadow", Status.NO_GO),
        (shadow(300, failing(0.5)), "shadow", Status.NO_GO),
        (shadow(10), "shadow", Status.INCONCLUSIVE),
        (canary(900, share=0.2) + canary(900, first=900), "canary", Status.GO),
        (canary(600, slow(0.6), share=0.2), "canary", Status.NO_GO),
        (canary(20, share=0.2), "canary", Status.INCONCLUSIVE),
        (canary(900, share=0.5, step=0.2), "canary", Status.INVALID),
        (watch(300), "watch", Status.GO),
    ],
    ids=["good shadow", "slow shadow", "failing shadow", "little shadow", "good canary",
         "slow canary", "little canary", "wrong share", "good watch"],
)  # fmt: skip
def test_a_spool_gets_the_verdict_of_its_rows(tmp_path, rows, stage, status):
    folder = spooled(tmp_path, rows, segment_rows=250)

    view, source = of_spool(PLAN, folder)
    verdict = decide(view, source)

    assert view.stage == stage
    assert verdict.status is status, verdict.reasons
    plain = decide(PLAN.at(stage), rows)
    assert verdict.to_json() == plain.to_json()
    assert verdict.rows_sha256 == rows_sha256(Record.model_validate(row) for row in rows)
    assert decide(view_for(PLAN, folder), folder).to_json() == plain.to_json()


def test_no_rows_are_never_a_go(tmp_path):
    with Spool(tmp_path):
        pass

    view, source = of_spool(PLAN, tmp_path)
    verdict = decide(view, source)
    assert verdict.status is Status.INCONCLUSIVE
    assert "shadow has no rows yet" in verdict.reasons[0]
    for stage in ("canary", "watch"):
        assert decide(*of_spool(PLAN, tmp_path, stage)).status is Status.INCONCLUSIVE
    assert decide(PLAN.at("shadow"), read_spool(tmp_path)).status is Status.INCONCLUSIVE


def test_pairs_whose_copy_was_shed_are_no_missing_data(tmp_path):
    rows = shadow(300)
    with Spool(tmp_path) as spool:
        for row in rows:
            record = Record.model_validate(row)
            if record.arm == "block" and record.prompt_id < "r00100":
                partner = record.request_id.replace("/block", "/plain")
                spool.without_row("shed", record.request_id, "full", retract=[partner])
            else:
                spool.append(record)

    verdict = decide(*of_spool(PLAN, tmp_path))
    assert verdict.rows == 400
    assert verdict.status is Status.GO


def mirrored(folder, rows, replies, **of):
    """A shadow whose mirror sent so many copies and shed the rest, as a router writes it."""
    with Spool(folder) as spool:
        for row in rows:
            record = Record.model_validate(row)
            if record.arm == "block" and int(record.prompt_id[1:]) >= replies:
                partner = record.request_id.replace("/block", "/plain")
                spool.without_row("shed", record.request_id, "full", retract=[partner], **of)
            else:
                spool.append(record)
    return folder


@pytest.mark.parametrize(
    ("replies", "status"),
    [(200, Status.GO), (150, Status.GO), (149, Status.INCONCLUSIVE), (0, Status.INCONCLUSIVE)],
)
def test_a_shadow_most_of_whose_copies_have_no_reply_is_held(tmp_path, replies, status):
    """The rows that are left were GO, though they were those of a part of the traffic."""
    verdict = decide(*of_spool(PLAN, mirrored(tmp_path, shadow(300), replies), "shadow"))

    assert verdict.status is status
    if status is not Status.GO:
        said = f"of 300 requests that were to be copied, only {replies} have a reply"
        assert verdict.reasons[0].startswith(f"integrity/copies: {said}")
        assert f"({300 - replies}: full)" in verdict.reasons[0]
        assert "health.mirror" in verdict.to_change[0]


def test_harm_that_few_copies_show_is_harm(tmp_path):
    folder = mirrored(tmp_path, shadow(300, failing(0.5)), 100)
    assert decide(*of_spool(PLAN, folder)).status is Status.NO_GO


@pytest.mark.parametrize(
    ("of", "status"),
    [
        ({"stage": "shadow", "manifest_sha256": "b" * 64}, Status.GO),
        ({"stage": "shadow", "manifest_sha256": "a" * 64}, Status.INCONCLUSIVE),
        ({}, Status.INCONCLUSIVE),  # as routers wrote them before: nobody knows whose they were
    ],
    ids=["another", "this", "unknown"],
)
def test_copies_of_another_release_are_another_matter(tmp_path, of, status):
    with Spool(tmp_path) as spool:
        for row in shadow(300):
            spool.append(Record.model_validate(row))
        for number in range(400):
            spool.without_row("shed", f"copy {number}", "full", **of)

    assert decide(*of_spool(PLAN, tmp_path, "shadow", "a" * 64)).status is status
    assert decide(*of_spool(PLAN, tmp_path, "shadow")).status is Status.INCONCLUSIVE


def test_copies_of_a_shadow_hold_no_canary(tmp_path):
    folder = mirrored(tmp_path, shadow(300), 0)
    spooled(folder, canary(900, share=0.2, first=1000) + canary(900, first=1900))

    assert decide(*of_spool(PLAN, folder, "canary")).status is Status.GO
    assert decide(view_for(PLAN, folder), folder).status is Status.GO


def test_a_mirror_that_silently_never_fires_makes_the_shadow_invalid(tmp_path):
    only = [row for row in shadow(300) if row["arm"] == "plain"]

    assert decide(*of_spool(PLAN, spooled(tmp_path, only))).status is Status.INVALID


def test_failures_of_the_candidate_that_the_router_saw_count(tmp_path):
    rng = np.random.default_rng(5)
    with Spool(tmp_path) as spool:
        for row in shadow(300):
            known = {k: v for k, v in row.items() if k in Record.model_fields}
            if row["arm"] == "block" and rng.random() < 0.4:
                spool.begin({k: known[k] for k in ("request_id", "prompt_id", "arm", "stage",
                             "sampling", "started_at", "manifest_sha256", "category")})  # fmt: skip
            else:
                spool.append(Record.model_validate(row))

    verdict = decide(*of_spool(PLAN, tmp_path))  # the router ended before these replies did
    assert verdict.status is Status.NO_GO
    assert any("error_rate" in reason for reason in verdict.reasons)


def test_a_spool_of_several_stages_asks_which(tmp_path):
    folder = spooled(tmp_path, [*shadow(60), *canary(60, share=0.2, first=60)])

    with pytest.raises(ConfigError, match="rows of canary and shadow; say which with --stage"):
        of_spool(PLAN, folder)
    view, source = of_spool(PLAN, folder, "shadow")
    assert (view.stage, source.rows) == ("shadow", 120)


def test_only_rows_of_the_manifest_are_judged(tmp_path):
    old = [row | {"manifest_sha256": "b" * 64} for row in canary(60, failing(1.0), share=0.2)]
    folder = spooled(tmp_path, [*old, *shadow(300)])

    view, source = of_spool(PLAN, folder, manifest_sha256="a" * 64)
    assert view.stage == "shadow"
    assert decide(view, source).status is Status.GO


def test_a_damaged_spool_is_no_evidence(tmp_path):
    folder = spooled(tmp_path, shadow(60))
    path = folder / "rows-00000001.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"e2e_s": 2.0', b'"e2e_s": 0.5'))
    (folder / "rows-00000001.jsonl.sha256").write_text("0" * 64 + "  rows-00000001.jsonl\n")

    with pytest.raises(EvidenceError, match="changed after it was closed"):
        decide(PLAN.at("shadow"), folder)


class TestCommand:
    @pytest.fixture
    def plan(self, tmp_path):
        path = tmp_path / "plan.yaml"
        path.write_text(yaml.safe_dump(json.loads(PLAN.model_dump_json(by_alias=True))))
        return path

    def run(self, *arguments):
        result = CliRunner().invoke(app, ["decide", "--json", *map(str, arguments)])
        return result.exit_code, result

    def test_decide_says_that_the_mirror_was_mute(self, tmp_path, plan):
        folder = mirrored(tmp_path / "spool", shadow(300), 0)
        code, result = self.run("--plan", plan, "--rows", folder, "--stage", "shadow")

        assert code == 11, result.output
        reason = json.loads(result.stdout)["reasons"][0]
        assert "only 0 have a reply of the copy (300: full)" in reason

    def test_decide_takes_a_spool(self, tmp_path, plan):
        folder = spooled(tmp_path / "spool", [*shadow(300), *canary(20, share=0.2, first=300)])

        code, result = self.run("--plan", plan, "--rows", folder, "--stage", "shadow")
        assert code == 0
        assert json.loads(result.stdout)["status"] == "GO"
        of_the_router = folder.parent  # its --state-dir will do
        code, _ = self.run("--plan", plan, "--rows", of_the_router, "--stage", "canary")
        assert code == 11
        code, result = self.run("--plan", plan, "--rows", folder)
        assert isinstance(result.exception, ConfigError)

    def test_the_manifest_chooses(self, tmp_path, plan):
        folder = spooled(tmp_path / "spool", shadow(300))
        manifest = tmp_path / "manifest.json"
        manifest.write_text(json.dumps({"manifest_sha256": "b" * 64}))

        code, result = self.run("--plan", plan, "--rows", folder, "--manifest", manifest)
        assert code == 11
        assert json.loads(result.stdout)["rows"] == 0

    def test_stage_of_other_rows(self, tmp_path, plan):
        write_parquet([Record.model_validate(row) for row in shadow(20)], tmp_path / "r.parquet")

        code, _ = self.run("--plan", plan, "--rows", tmp_path / "r.parquet", "--stage", "shadow")
        assert code == 11
        code, _ = self.run("--plan", plan, "--rows", tmp_path / "r.parquet", "--stage", "canary")
        assert code == 12


def test_users_who_each_ask_for_something_else_are_judged_together(tmp_path):
    rng = np.random.default_rng(1)
    with Spool(tmp_path) as spool:
        for number in range(200):
            limit = int(rng.integers(5, 400))
            body = {"max_tokens": limit, "temperature": float(rng.choice([0, 0.3, 1])),
                    "seed": number, "stop": ["x"] * int(rng.integers(0, 3))}  # fmt: skip
            if number % 5 == 0:
                body |= {"tools": [{"number": number}]}
            cut = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            for arm in ("plain", "block"):
                found = asked(number, arm, SHADOW_STATE, body)
                spool.begin(found)
                reply = watched(delta("hello"), cut, USAGE if arm == "block" else PLAIN, DONE)
                conclude(spool, found, reply)

    verdict = decide(*of_spool(live_plan(*LOOSE), tmp_path))
    assert verdict.status is Status.GO, verdict.reasons
    assert verdict.rows == 400

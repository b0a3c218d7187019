"""The demonstration's papers are the real ones: sealed, signed for, and hashed."""

from __future__ import annotations

import json
import stat

import pytest

from pipelines.demo import papers as module
from pipelines.demo.model import make_models
from pipelines.demo.papers import APPROVER, PROPOSER, SIGNERS_LINE, TEMPLATE, make_papers, papers_in
from pipelines.demo.traffic import TRACE
from specdecode.errors import ConfigError
from specdecode.governance import PLAN_ENTRY, load_plan, plan_sha256, sealed_sha256
from specdecode.governance.dsse import parse_envelope
from specdecode.governance.ledger import Ledger
from specdecode.governance.lint import lint
from specdecode.governance.plan_stages import LIVE
from specdecode.governance.sealing import read_seal
from specdecode.governance.signers import load_signers


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def made(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return make_papers(folder, models, TRACE, "run 1", folder.parent)


def test_the_plan_is_sealed_by_the_one_who_proposes_it(made):
    plan, signers = load_plan(made.plan), load_signers(made.signers)
    envelope = parse_envelope(made.plan.with_suffix(".seal.json").read_bytes())

    seal = read_seal(envelope, signers, Ledger(made.ledger).entries())

    assert [signer.name for signer in seal.signers] == [PROPOSER]
    assert seal.predicate.plan_sha256 == plan_sha256(plan)
    assert seal.predicate.power >= plan.power.wanted
    assert {signer.name: signer.role for signer in signers}[
        APPROVER
    ] in plan.approvals.required_roles


def test_the_plan_names_the_signers_from_where_flows_run(made):
    named = load_plan(made.plan).approvals.signers_file

    assert (made.signers.parents[2] / named).samefile(made.signers)


def test_the_manifest_names_the_plan_and_hashes_to_its_own_number(made):
    manifest = json.loads(made.manifest.read_bytes())

    assert manifest["manifest_sha256"] == made.manifest_sha256 == sealed_sha256(manifest["entries"])
    assert manifest["entries"][PLAN_ENTRY] == plan_sha256(load_plan(made.plan))


def test_another_run_is_another_release_of_the_same_models(made, models, tmp_path):
    other = make_papers(tmp_path, models, TRACE, "run 2", tmp_path)

    ours, theirs = (json.loads(p.manifest.read_bytes())["entries"] for p in (made, other))
    assert other.manifest_sha256 != made.manifest_sha256
    assert {name for name in ours if ours[name] != theirs[name]} >= {"run"}
    assert ours["target.weights"] == theirs["target.weights"]


def test_keys_are_for_their_owner_only(made):
    for path in made.approver.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_papers_are_found_again(made):
    assert papers_in(made.manifest.parent) == made


def test_a_plan_that_rarely_answers_go_is_not_sealed(models, tmp_path, monkeypatch):
    plan = tmp_path / "plan.yaml"
    text = TEMPLATE.read_text("utf-8")
    plan.write_text(text.replace("{ttft_s: 0.99, e2e_s: 0.99}", "{ttft_s: 0.7, e2e_s: 0.7}"))
    monkeypatch.setattr(module, "TEMPLATE", plan)
    folder = tmp_path / "run"
    folder.mkdir()

    with pytest.raises(ConfigError, match="the chance of GO is 0 and the plan asks"):
        make_papers(folder, models, TRACE, "run", tmp_path)


def test_the_template_has_the_line_that_is_filled_in():
    assert TEMPLATE.read_text("utf-8").count(SIGNERS_LINE) == 1


def test_what_the_plan_check_says_is_what_the_plan_admits(made):
    """The demonstration measures neither crossover nor caches nor cold starts, and says so."""
    found = {finding.code for finding in lint(load_plan(made.plan)) if finding.severity == "error"}

    assert found <= {
        "no-crossover",
        "no-kv-capacity",
        "no-prefix-cache",
        "no-cold-start",
        "recovery-untested",
    }


def test_every_live_stage_can_be_judged_and_every_metric_has_an_owner():
    plan = load_plan(TEMPLATE)

    for stage in plan.stages:
        if stage.name in LIVE:
            assert plan.at(stage.name).sequential_stage is stage
    assert all(metric.owner for metric in plan.metrics)
    assert all(condition.owner for condition in plan.stop_conditions)

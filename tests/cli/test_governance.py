"""From a key to an approved verdict by the command line, in a repository of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from specdecode.governance.plan import canonical_json, plan_sha256
from specdecode.governance.vault import lock
from tests.governance.live_plans import SHADOW, live_plan
from tests.governance.plans import small_plan
from tests.governance.repositories import commit, git, repository

USAGE, TAMPERED = 2, 3
PLAN, SIGNERS, LEDGER = "plans/small.yaml", "plans/signers.yaml", "plans/ledger.jsonl"
APPROVALS = {
    "required_roles": ["owner", "reviewer"],
    "distinct_persons": True,
    "expires_days": 30,
    "signers_file": SIGNERS,
}
CONTINGENCY = {"name": "power-cut", "trigger": "the power fails", "action": "resume"}


@pytest.fixture
def plan():
    return small_plan(approvals=APPROVALS, contingencies=[CONTINGENCY])


@pytest.fixture
def root(tmp_path, monkeypatch, specdecode, plan):
    """A committed plan, with the keys of Ada (owner), Grace (reviewer) and Linus (planner)."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    roles = {"Ada": "owner", "Grace": "reviewer", "Linus": "planner"}
    made = {name: specdecode("keys", "new", name, "--role", role) for name, role in roles.items()}
    entries = "".join(done.out[done.out.index("- name") :] for done in made.values())
    document = plan.model_dump(mode="json", by_alias=True)
    files = {
        PLAN: yaml.safe_dump(document),
        SIGNERS: entries,
        "code/a.py": "a = 1\n",
        "requirements.lock": "numpy==2\n",
    }
    root = repository(tmp_path / "repository", monkeypatch, files)
    lock([{"question_id": "q"}], root / "confirmation", [b"s" * 32])
    commit(root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def seal(specdecode, root):
    """Seal the plan: seal("--power", "0.9", …) -> Outcome."""

    def run(*options):
        return specdecode("plan", "seal", PLAN, "--key", "Linus", *(options or ["--power", "0.9"]))

    return run


@pytest.fixture
def verdict(root, plan):
    """A GO under the plan, as a file."""
    path = root / "verdict.json"
    path.write_text(json.dumps({"status": "GO", "plan_sha256": plan_sha256(plan)}))
    commit(root)
    return path


@pytest.fixture
def sealed_verdict(verdict, seal):
    """That verdict, after its plan was sealed."""
    assert seal().code == 0
    return verdict


def test_a_key_is_made_once_private_and_shown(specdecode, root, tmp_path):
    path = tmp_path / "config/specdecode/keys/Ada.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    shown = specdecode("keys", "show", "Ada", "--json").document
    assert shown["signer"] in yaml.safe_load(Path(SIGNERS).read_text())
    assert specdecode("keys", "show", path, "--json").document == shown
    again = specdecode("keys", "new", "Ada")
    assert again.code == USAGE
    assert "`specdecode keys show` prints its entry" in again.err
    assert '"owner" is what --role says' in specdecode("keys", "show", "Ada").err
    assert specdecode("keys", "new", "../Ada").code == USAGE
    assert specdecode("keys", "show", "Nobody").code == USAGE


def test_no_command_prints_the_private_key(specdecode, root, tmp_path, seal):
    secret = (tmp_path / "config/specdecode/keys/Linus.pem").read_text().splitlines()[1]
    done = [specdecode("keys", "show", "Linus"), specdecode("keys", "show", "Linus", "--json")]
    done += [seal("--power", "0.9", "--json")]
    assert not any(secret in outcome.out + outcome.err for outcome in done)
    written = [path for path in root.rglob("*") if path.is_file()]
    assert not any(secret.encode() in path.read_bytes() for path in written)


def test_a_sealed_plan_is_on_record_with_all_it_will_be_judged_by(specdecode, seal, plan):
    done = seal(
        "--power",
        "0.9",
        "--code",
        "code",
        "--manifest",
        "confirmation/confirmation.json",
        "--confirmation",
        "confirmation/confirmation.json",
        "--json",
    )
    assert done.code == 0, done.err
    found = done.document
    assert set(found["subjects"]) == {
        "plan",
        "tree:code",
        "requirements.lock",
        SIGNERS,
        "confirmation",
        "confirmation/confirmation.json",
    }
    assert found["subjects"]["plan"] == found["plan_sha256"] == plan_sha256(plan)
    assert (found["signer"], found["line"]) == ("Linus", 1)
    assert found["anchor"] == {"name": "none", "head": found["head"], "proof": None}
    checked = specdecode("ledger", "verify", "--json").document
    assert (checked["valid"], checked["head"]) == (True, found["head"])


def test_what_a_plan_took_is_in_the_ledgers_document(specdecode, seal, plan):
    seal()
    seal()
    [(digest, took)] = specdecode("ledger", "verify", "--json").document["effort"].items()
    assert digest == plan_sha256(plan)
    assert (took["seals"], took["holds"], took["amendments"]) == (2, 0, 0)
    assert took["verdicts"] == took["decisions"] == []


def test_a_seal_can_be_renewed_without_committing_it_first(seal):
    assert seal().code == 0
    assert seal().code == 0


def _dirty(root):
    (root / "code/a.py").write_text("a = 2\n")


def _new_file(root):
    (root / "code/b.py").write_text("")


def _open(root):
    (root / "confirmation/OPENED").write_text("{}")
    commit(root)


def _no_lock(root):
    (root / "requirements.lock").unlink()
    commit(root)


def _unlisted(root):
    entries = yaml.safe_load((root / SIGNERS).read_text())
    (root / SIGNERS).write_text(yaml.safe_dump(entries[:2]))
    commit(root)


@pytest.mark.parametrize(
    ("spoil", "options", "advice"),
    [
        (_dirty, [], "commit or remove"),
        (_new_file, [], "commit or remove"),
        (_open, [], "Lock and seal a new set"),
        (_no_lock, [], "requirements.lock"),
        (_unlisted, [], "does not list key"),
        (None, ["--power", "0.01"], "raise the number of prompts"),
        (None, ["--anchor", "notary"], "no anchor is called"),
        (None, ["--signers", "other.yaml"], "only that counts"),
        (None, ["--code", "none"], "git tracks no file"),
        (None, ["--manifest", "/etc/hostname"], "outside the repository"),
    ],
)
def test_a_refused_seal_says_what_to_do_and_leaves_nothing(seal, root, spoil, options, advice):
    if spoil is not None:
        spoil(root)
    confirmation = ["--confirmation", "confirmation/confirmation.json"]
    done = seal(*confirmation, *(options if "--power" in options else ["--power", "0.9", *options]))
    assert done.code == USAGE
    assert advice in done.err
    assert not (root / LEDGER).exists() or (root / LEDGER).read_bytes() == b""
    assert not (root / "plans/small.seal.json").exists()


def test_a_vault_whose_files_do_not_fit_is_not_sealed(seal, root):
    (root / "confirmation/confirmation.enc").write_text("{}\n")
    commit(root)
    done = seal("--power", "0.9", "--confirmation", "confirmation/confirmation.json")
    assert done.code == TAMPERED
    assert "not the file its manifest names" in done.err
    assert not (root / "plans/small.seal.json").exists()


def test_a_seal_says_who_has_the_key_of_the_prompts(seal, root):
    page = ["--power", "0.9", "--confirmation", "confirmation/confirmation.json"]
    assert "confirmation set: custody held:" in seal(*page).out.replace("\n", " ")
    assert seal(*page, "--json").document["custody"] == "held"
    assert seal("--power", "0.9", "--json").document["custody"] is None


def test_a_power_that_is_not_stated_is_simulated(specdecode, seal, root):
    done = seal("--runs", "3", "--seed", "7", "--json")  # 14 prompts, and rules that ask for 20
    assert done.code == USAGE
    assert "the chance of GO is 0 and the plan asks for 0.8" in done.document["error"]["message"]
    easy = yaml.safe_load((root / PLAN).read_text()) | {"prompts_expected": {"full": 60}}
    (root / PLAN).write_text(yaml.safe_dump(easy))
    commit(root)
    found = seal("--runs", "3", "--seed", "7", "--json").document
    assert (found["power"], found["power_basis"]) == (1.0, "simulated: 3 runs, seed 7")


def test_every_stage_needs_the_power_and_the_way_through_them_is_on_record(seal, root, plan):
    fields = {"approvals": APPROVALS, "contingencies": [CONTINGENCY]}
    hopeless = live_plan(SHADOW | {"n_min": 150}, block={"kept": {"e2e_s": 0.8}}, **fields)
    (root / PLAN).write_text(canonical_json(hopeless))
    commit(root)
    done = seal("--runs", "5", "--json")
    assert done.code == USAGE
    assert "smallest at shadow, " in done.document["error"]["message"]
    (root / PLAN).write_text(canonical_json(live_plan(SHADOW, **fields)))
    commit(root)
    found = seal("--runs", "5", "--json").document
    assert found["power"] >= 0.8
    assert " for offline, shadow in turn" in found["power_basis"]


def test_a_git_tag_vouches_for_the_head(specdecode, seal, root):
    found = seal("--power", "0.9", "--anchor", "git-tag", "--json").document
    assert found["anchor"]["name"] == "git-tag"
    assert found["head"] in git(root, "cat-file", "tag", found["anchor"]["proof"]["tag"])
    evidence = ["--anchor", "plans/small.anchor.json"]
    assert specdecode("ledger", "verify", *evidence, "--json").document["anchor"] == "git-tag"

    (root / LEDGER).write_bytes(b"")

    assert specdecode("ledger", "verify").code == 0
    done = specdecode("ledger", "verify", *evidence)
    assert done.code == TAMPERED
    assert "cut off" in done.out


def test_evidence_that_was_changed_is_noticed(specdecode, seal, root):
    seal("--power", "0.9", "--anchor", "git-tag")
    path = root / "plans/small.anchor.json"
    document = json.loads(path.read_text())
    for changed in ({"head": "0" * 64}, {"name": "none"}, {"name": "notary"}, {"proof": {}}):
        path.write_text(json.dumps(document | changed))
        assert specdecode("ledger", "verify", "--anchor", path).code == TAMPERED
    path.write_text(json.dumps(document))
    done = specdecode("ledger", "verify", "--anchor", path, "--head", "0" * 64)
    assert done.code == USAGE


def test_a_head_can_be_anchored_later(specdecode, seal):
    seal()
    options = ["--out", "later.anchor.json", "--json"]
    found = specdecode("ledger", "anchor", "--anchor", "git-tag", *options).document
    assert specdecode("ledger", "verify", "--anchor", "later.anchor.json").code == 0
    waiting = specdecode("ledger", "anchor", "--anchor", "rfc3161", *options).document
    assert (waiting["head"], waiting["proof"]) == (found["head"], None)
    done = specdecode("ledger", "verify", "--anchor", "later.anchor.json")
    assert done.code == USAGE
    assert "openssl ts -query" in done.err


def test_an_edited_ledger_is_exit_code_3_and_names_the_line(specdecode, seal, root):
    seal()
    seal()
    path = root / LEDGER
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"anchor":"none"', b'"anchor":"nono"', 1))
    done = specdecode("ledger", "verify", "--json")
    assert done.code == TAMPERED
    assert done.document["problem"]["line"] == 2  # nothing below tells which of the two it was
    assert done.document["problem"]["fault"] == "edited"
    assert done.document["effort"] is None
    assert seal().code == TAMPERED


def test_a_line_cut_by_a_crash_is_repaired_when_asked(specdecode, seal, root):
    seal()
    path = root / LEDGER
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"at":')
    assert specdecode("ledger", "verify").code == TAMPERED
    kept = specdecode("ledger", "repair", "--json").document["kept"]
    assert Path(kept).read_bytes() == b'{"at":'
    assert path.read_bytes() == whole
    assert specdecode("ledger", "repair", "--json").document["kept"] is None


AMEND = {
    "--stage": "offline",
    "--what": "one prompt is left out",
    "--why": "it cannot be tokenised",
    "--data-seen": "none",
    "--impact": "none expected",
}


@pytest.fixture
def amend(specdecode):
    def run(**fields):
        options = AMEND | {f"--{name.replace('_', '-')}": value for name, value in fields.items()}
        words = [word for option in options.items() for word in option]
        return specdecode("plan", "amend", PLAN, "--key", "Ada", *words, "--json")

    return run


def test_an_amendment_is_recorded_and_says_what_it_makes_of_the_result(seal, amend, root):
    assert amend().code == USAGE  # nothing is sealed yet
    seal()
    done = amend()
    assert done.document["exploratory"] == []
    assert done.document["deviation"]["author"] == "Ada"
    foreseen = amend(data_seen="full", contingency="power-cut")
    assert foreseen.document["exploratory"] == []
    assert len(amend(data_seen="full").document["exploratory"]) == 1
    assert amend(contingency="bad luck").code == USAGE
    refused = amend(data_seen="some")
    assert refused.code == USAGE
    assert "--data-seen some: it is one of none, dev, partial, full" in refused.err
    assert amend(stage="party").code == USAGE


def _approve(specdecode, verdict, key, *options):
    return specdecode("approve", verdict, "--plan", PLAN, "--key", key, *options, "--json")


def test_what_was_amended_once_results_were_seen_is_no_go_whoever_approves(
    specdecode, sealed_verdict, amend
):
    amend(data_seen="full")
    _approve(specdecode, sealed_verdict, "Ada")
    found = _approve(specdecode, sealed_verdict, "Grace").document
    assert (found["findings"], found["recorded_status"]) == ([], "INCONCLUSIVE")
    assert len(found["exploratory"]) == 1
    assert (
        "EXPLORATORY" in specdecode("approve", sealed_verdict, "--plan", PLAN, "--key", "Ada").out
    )


def test_a_verdict_with_a_key_twice_cannot_be_approved(specdecode, sealed_verdict):
    sealed_verdict.write_text(sealed_verdict.read_text().replace("{", '{"status": "NO_GO", ', 1))
    done = _approve(specdecode, sealed_verdict, "Ada")
    assert done.code == USAGE
    assert "a key occurs twice" in done.err


def test_a_go_stands_when_both_have_signed(specdecode, sealed_verdict):
    first = _approve(specdecode, sealed_verdict, "Ada").document
    assert first["recorded_status"] == "INCONCLUSIVE"
    assert [f["flaw"] for f in first["findings"]] == ["missing"]
    second = _approve(specdecode, sealed_verdict, "Grace").document
    assert (second["recorded_status"], second["findings"]) == ("GO", [])
    assert Path(second["approval"]).exists()
    assert specdecode("ledger", "verify").code == 0


def test_who_sealed_the_plan_cannot_approve(specdecode, sealed_verdict):
    before = Path(LEDGER).read_bytes()
    done = _approve(specdecode, sealed_verdict, "Linus")
    assert done.code == USAGE
    assert "Linus sealed the plan" in done.err
    assert Path(LEDGER).read_bytes() == before  # nothing that could not count is on record


def test_an_override_is_recorded_and_never_go(specdecode, sealed_verdict):
    for decision, advice in (("override", "with --reason"), ("no", "approve, reject, override")):
        refused = _approve(specdecode, sealed_verdict, "Ada", "--decision", decision)
        assert refused.code == USAGE
        assert advice in refused.err
    options = ("--decision", "override", "--reason", "the service is down")
    _approve(specdecode, sealed_verdict, "Ada", *options)
    found = _approve(specdecode, sealed_verdict, "Grace").document
    assert found["recorded_status"] == "OVERRIDDEN"


def test_an_approval_is_of_one_verdict(specdecode, sealed_verdict):
    _approve(specdecode, sealed_verdict, "Ada")
    sealed_verdict.write_text(sealed_verdict.read_text() + "\n")
    found = _approve(specdecode, sealed_verdict, "Grace").document
    assert found["recorded_status"] == "INCONCLUSIVE"


@pytest.mark.parametrize("document", [{}, {"status": "GO", "plan_sha256": "0" * 64}])
def test_a_verdict_of_another_plan_is_not_approved(specdecode, root, verdict, document):
    verdict.write_text(json.dumps(document))
    assert _approve(specdecode, verdict, "Ada").code == USAGE
    assert not (root / LEDGER).exists()


def test_a_verdict_without_a_status_is_not_approved(specdecode, verdict):
    document = json.loads(verdict.read_text()) | {"status": "FINE"}
    verdict.write_text(json.dumps(document))
    assert _approve(specdecode, verdict, "Ada").code == USAGE


def test_a_verdict_on_a_plan_that_is_not_sealed_is_not_approved(specdecode, verdict):
    done = _approve(specdecode, verdict, "Ada")
    assert done.code == USAGE
    assert "not sealed in this ledger" in done.err


def test_people_read_the_same_as_programs(specdecode, seal, verdict):
    assert "anchor none, without proof" in seal().out
    assert (
        "recorded status INCONCLUSIVE"
        in specdecode("approve", verdict, "--plan", PLAN, "--key", "Ada").out
    )
    assert "pass --head or --anchor" in specdecode("ledger", "verify").out
    half = specdecode("ledger", "verify", "--head", "abc")
    assert half.code == USAGE
    assert "64 hexadecimal digits" in half.err

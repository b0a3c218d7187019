"""`specdecode confirm` from the locked prompts to the exit code, on a tiny model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from specdecode import governance
from specdecode.cli.confirm_inputs import params_sha256
from specdecode.governance import (
    EXIT_CODES,
    PLAN_ENTRY,
    Status,
    load_plan,
    plan_sha256,
    sealed_sha256,
)
from specdecode.governance.amendments import amend
from specdecode.governance.ledger import Ledger
from specdecode.governance.signing import SigningKey
from specdecode.governance.statements import Deviation, make_predicate
from specdecode.measurement.records import read_records
from specdecode.models.fingerprint import fingerprint_folder
from specdecode.workload import confirmation
from tests.cli.conftest import WORDS
from tests.governance.plans import ARMS, OFFLINE, small_plan

ROOT = Path(__file__).parents[2]
COUNT = 4
PARAMS = {
    "profile": "full",
    "target": {"dtype": "float32"},
    "decoding": {
        "num_speculative_tokens": 2,
        "device": "cpu",
        "threads": 1,
        "max_tokens": 6,
        "sampling": [
            {"name": "greedy", "temperature": 0.0, "ignore_eos": True},
            {"name": "sampled", "temperature": 1.0, "ignore_eos": True},
        ],
    },
    "seeds": {"sampling": 11},
    "profiles": {"full": {}},
}


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@dataclass(frozen=True)
class Repository:
    """Everything a confirmation takes, sealed and committed; commands run from its root."""

    root: Path

    @property
    def options(self):
        return (
            *("--plan", "plans/plan.yaml", "--vault", "vault", "--key", "../holder.key"),
            *("--out", "out", "--manifest", "reports/manifest.json", "--json"),
        )

    @property
    def ledger(self):
        return Ledger(self.root / "plans/ledger.jsonl")

    def rows(self):
        return read_records(self.root / "out/rows.parquet")

    def write_manifest(self, **changes):
        entries = {
            f"target.{part}": digest
            for part, digest in fingerprint_folder(self.root / "models/target").to_json().items()
        }
        entries["params"] = params_sha256(yaml.safe_load((self.root / "params.yaml").read_text()))
        entries[PLAN_ENTRY] = plan_sha256(load_plan(self.root / "plans/plan.yaml"))
        entries |= changes
        document = {"entries": entries, "manifest_sha256": sealed_sha256(entries)}
        (self.root / "reports/manifest.json").write_text(json.dumps(document))


def write_plan(path, **fields):
    arms = [arm | ({"draft": "early-exit:1"} if arm["draft"] else {}) for arm in ARMS]
    plan = small_plan(
        arms=arms,
        stages=[OFFLINE, OFFLINE | {"name": "confirmation"}],
        prompts_expected={"full": COUNT},
        approvals={
            "required_roles": [],
            "distinct_persons": True,
            "expires_days": 30,
            "signers_file": "plans/signers.yaml",
        },
        **fields,
    )
    path.write_text(yaml.safe_dump(plan.model_dump(mode="json", by_alias=True)))


def prompt_lines():
    for i in range(COUNT):
        text = " ".join(WORDS[(i * 3 + k) % len(WORDS)] for k in range(5))
        yield json.dumps({"question_id": f"q{i}", "category": "chat", "turns": [text]})


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, tiny_target):
    """Made once by the commands themselves; tests work on copies."""
    folder = tmp_path_factory.mktemp("sealed")
    root = folder / "repository"
    for name in ("plans", "code", "reports", "models"):
        (root / name).mkdir(parents=True)
    shutil.copytree(tiny_target, root / "models/target")
    (root / "code/program.py").write_text("pass\n")
    (root / "requirements.lock").write_text("nothing\n")
    (root / ".gitignore").write_text("out\nmodels\n*.lock\n!requirements.lock\n")
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (folder / "prompts.jsonl").write_text("\n".join(prompt_lines()))
    write_plan(root / "plans/plan.yaml")
    repository = Repository(root)
    repository.write_manifest()

    def command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "specdecode", *map(str, arguments)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    command("vault", "key", "../holder.key", "--json")
    command(
        *("vault", "lock", "../prompts.jsonl", "--out", "vault", "--key", "../holder.key"),
        *("--order-seed", 1, "--no-plain", "--target", "models/target", "--reply-tokens", 6),
        "--json",
    )
    made = command("keys", "new", "Ada", "--out", "../ada.pem", "--json")
    (root / "plans/signers.yaml").write_text(yaml.safe_dump([made["signer"]]))
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "before the seal")
    command(
        *("plan", "seal", "plans/plan.yaml", "--key", "../ada.pem", "--code", "code"),
        *("--manifest", "reports/manifest.json", "--power", 0.9, "--json"),
        *("--confirmation", "vault/confirmation.json"),
    )
    return folder


@pytest.fixture
def repository(sealed, tmp_path, monkeypatch):
    shutil.copytree(sealed, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy/repository")
    return Repository(tmp_path / "copy/repository")


def opened(repository):
    return (repository.root / "vault/OPENED").exists()


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


KILLED = """
import os, signal, sys
from specdecode.cli import main
from specdecode.workload import confirmation

real, made = confirmation.generate_record, 0

def dying(*arguments):
    global made
    if made == 8:  # the third row of the second prompt
        os.kill(os.getpid(), signal.SIGKILL)
    made += 1
    return real(*arguments)

confirmation.generate_record = dying
main(sys.argv[1:])
"""


def test_killed_it_goes_on_without_the_prompt_in_flight_which_counts_as_failed(
    specdecode, repository
):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, "confirm", *repository.options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    done = specdecode("confirm", *repository.options)
    rows = repository.rows()

    assert done.document["lost"] == 1
    assert len(rows) == COUNT * 6
    gone = [row for row in rows if row.error is not None]
    assert len(gone) == 4
    assert len({row.prompt_id for row in gone}) == 1
    assert all(row.error.startswith("lost: ") for row in gone)
    assert done.code == EXIT_CODES[Status.INVALID]  # 1 of 4 prompts: more than the plan bears
    assert any("the baseline failed" in reason for reason in done.document["reasons"])


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2)],
    ids=["Ctrl-C", "full disk"],
)
def test_an_interruption_tells_what_it_costs(specdecode, repository, monkeypatch, error, code):
    def interrupted(*_arguments):
        raise error

    monkeypatch.setattr(confirmation, "generate_record", interrupted)
    done = specdecode("confirm", *repository.options)

    assert done.code == code
    assert "The prompt in flight is lost and counts as failed" in done.err
    monkeypatch.undo()
    monkeypatch.chdir(repository.root)
    assert specdecode("confirm", *repository.options).document["lost"] == 1


def test_an_arm_that_cannot_decode_consumes_nothing(specdecode, repository, monkeypatch):
    monkeypatch.setattr(confirmation, "warm_up", lambda *_arguments: {"block": "broken"})
    done = specdecode("confirm", *repository.options)

    assert done.code == 1
    assert "nothing was opened: block: broken" in done.err
    assert not opened(repository)


def edit(repository, name, old, new):
    path = repository.root / name
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


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

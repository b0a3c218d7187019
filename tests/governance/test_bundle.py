"""Evidence bundles: what is written, and that the verifier agrees with `decide` on all of it."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import subprocess
import sys
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance import Status, plan_sha256
from specdecode.governance.anchor import AnchorEvidence
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.signers import load_signers
from specdecode.governance.signing import encode_base64
from specdecode.governance.verifier import PROGRAM, pack, text_of, verify
from specdecode.governance.verifier.verify import UncheckedError, signers_in
from specdecode.governance.withheld import FIELDS, Withheld
from specdecode.measurement.records import to_table
from tests.governance.bundles import (
    BUNDLED,
    DECIDED,
    EXPIRES,
    RULES,
    SEALED,
    approval_of,
    audit_of,
    case,
    chained,
    decision_line,
    good,
    report,
    seal_line,
    seal_of,
    signers_text,
    utc,
)
from tests.governance.keys import ADA, ADA_REVIEWS, GRACE, LINUS, STRANGER, entry
from tests.governance.test_decide import BROKEN
from tests.measurement.factories import START, run, shuffled

BIASED = report("biased", log_e=math.log(100) + 0.5)
UNDECIDED = report("undecided", tokens=100)
SECRET = bytes(range(32))


def files_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def results(verification):
    return {check["name"]: check["result"] for check in verification["checks"]}


def wrong(verification):
    return {name: result for name, result in results(verification).items() if result != "ok"}


@pytest.fixture
def path(tmp_path):
    return good().write(tmp_path)


@pytest.fixture
def stranger(tmp_path_factory):
    """A place where the project is not: runs the verifier with a bare interpreter."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def run_there(program, *arguments):
        return subprocess.run(
            [sys.executable, "-I", "-S", str(program), *map(str, arguments)],
            cwd=folder,
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_there


def test_a_good_bundle_is_go_with_every_check_in_order(path):
    verification = verify(path)

    assert verification["status"] == "GO"
    assert verification["exit_code"] == 0
    assert wrong(verification) == {}
    assert len(verification["checks"]) == 15


def test_the_program_in_the_bundle_checks_it_without_the_project(path, stranger, tmp_path):
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    program = tmp_path / "unpacked" / "verify.py"

    for bundle in (path, tmp_path / "unpacked"):
        done = stranger(program, bundle)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == "GO"
    assert "ModuleNotFoundError" in stranger("-c", "import numpy").stderr


def test_one_json_document_is_printed_on_request(path, stranger):
    done = stranger(PROGRAM, path, "--json")

    assert json.loads(done.stdout)["checks"] == verify(path)["checks"]


@pytest.mark.parametrize("arguments", [[], ["none.zip"], ["--head"]])
def test_wrong_usage_is_exit_code_2(stranger, arguments):
    assert stranger(PROGRAM, *arguments).returncode == 2


def test_the_program_uses_the_standard_library_and_grammar_of_python_3_9():
    tree = ast.parse(PROGRAM.read_text("utf-8"), feature_version=(3, 9))
    modules = {
        name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    modules |= {node.module.split(".")[0] for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)}  # fmt: skip

    assert modules <= sys.stdlib_module_names


def test_the_same_input_gives_the_same_bytes_in_whatever_order_rows_come(tmp_path):
    one = good().write(tmp_path, "one.zip")
    two = good().write(tmp_path, "two.zip", rows=to_table(shuffled(good().rows, 3)))

    assert one.read_bytes() == two.read_bytes()


def test_the_archive_has_no_trace_of_when_and_where_it_was_made(path):
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        traces = {(i.date_time, i.external_attr, i.create_system) for i in archive.infolist()}

    assert names == sorted(names)
    assert traces == {((1980, 1, 1, 0, 0, 0), 0o100644 << 16, 3)}


def test_everything_a_stranger_needs_is_in_it(path):
    files = files_of(path)

    assert set(files) == {
        "MANIFEST.json", "VERIFY.md", "approvals/000.json", "audit.json", "cards/draft.md",
        "cards/target.md", "data_quality.json", "dvc.lock", "ledger.jsonl", "manifest.json",
        "plan.json", "plan.yaml", "record.json", "rows.jsonl", "seal.json", "signers.yaml",
        "verdict.json", "verify.py",
    }  # fmt: skip
    assert sha256_hex(files["plan.json"]) == good().verdict.plan_sha256
    assert files["verdict.json"] == good().verdict.to_bytes()
    assert files["verify.py"] == PROGRAM.read_bytes()
    assert len(files["rows.jsonl"].splitlines()) == good().verdict.rows


STATUSES = {
    "go": ({}, Status.GO),
    "slow": ({"rows": run(24, speed=0.8)}, Status.NO_GO),
    "poor": ({"rows": run(24, candidate_quality=0.0)}, Status.GO),  # quality only reports
    "between": ({"rows": run(24, speed=1.1)}, Status.INCONCLUSIVE),
    "few": ({"prompts": 16}, Status.INCONCLUSIVE),
    "early": ({"prompts": 8}, Status.INCONCLUSIVE),
    "biased": ({"reports": {"block": BIASED}}, Status.NO_GO),
    "impossible tokens": (
        {"reports": {"block": report("biased") | {"first_evidence": {"kind": "impossible token"},
         "sampled": {"verdict": "biased", "tokens": 3000, "impossible": 1}}}},
        Status.NO_GO,
    ),
    "biased when greedy": (
        {"reports": {"block": report() | {"verdict": "biased", "greedy": {
            "verdict": "biased", "failures": 9, "tokens": 3000, "min_tokens": 459}}}},
        Status.NO_GO,
    ),
    "undecided": ({"reports": {"block": UNDECIDED}}, Status.INCONCLUSIVE),
    "undecided control": ({"reports": {"plain": UNDECIDED}}, Status.INCONCLUSIVE),
    "biased control": ({"reports": {"plain": BIASED}}, Status.INVALID),
    "only greedy rows read": (
        {"reports": {"block": report(tokens=0) | {"sampled": None}}}, Status.INCONCLUSIVE),
    "not greedy at all": (
        {"reports": {arm: report() | {"greedy": None} for arm in ("plain", "token", "block")}},
        Status.GO,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUSES)
def test_the_verifier_agrees_with_decide(tmp_path, name):
    arguments, status = STATUSES[name]
    made = case(**arguments)

    verification = verify(made.write(tmp_path))

    assert made.verdict.status is status
    assert verification["status"] == status
    assert verification["exit_code"] == made.verdict.exit_code
    assert wrong(verification) == {}


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "no rows"])
def test_rows_that_are_not_the_planned_evidence_are_invalid_and_not_tampered(tmp_path, name):
    made = case(RULES[0], rows=BROKEN[name][0])

    verification = verify(made.write(tmp_path))

    assert made.verdict.status is Status.INVALID
    assert verification["exit_code"] == 12
    assert wrong(verification) == {}


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 1000),
            "speed": st.floats(0.7, 2.0),
            "candidate_quality": st.floats(0, 1),
        }
    ),
    st.integers(0, 3),
    st.integers(0, 5),
    st.booleans(),
)
def test_whatever_was_measured_the_numbers_are_found_again(
    tmp_path, how, dropped, failing, stalled
):
    def change(records):
        kept = [r for i, r in enumerate(records) if i % 50 >= dropped]
        return [
            r.model_copy(update={"error": "out of memory"})
            if r.arm == "block" and int(r.prompt_id[1:]) < failing
            else r.model_copy(update={"output_tokens": 0, "output_token_ids": []})
            if stalled and r.prompt_id == "p0007" and r.sampling_name == "sampled"
            else r
            for r in kept
        ]

    made = case(rows=run(24, **how), change=change, missing_data={"max_missing_share": 0.4})

    verification = verify(made.write(tmp_path))

    assert wrong(verification) == {}, text_of(verification)
    assert verification["status"] == made.verdict.status


def test_a_stage_of_the_plan_is_checked_by_its_own_rules(tmp_path):
    offline = {"name": "offline", "rules": None, "metrics": [], "method": "bootstrap",
               "alpha": 0.025, "unit": "prompt", "n_min": 20, "n_max": 40, "window": None,
               "missing_data": None}  # fmt: skip
    fewer = {
        "name": "confirmation",
        "rules": ["block-lossless", "token-lossless", "block-errors", "block-faster"],
        "prompts_expected": {"full": 24},
    }
    made = case(
        rows=[r.model_copy(update={"stage": "confirmation"}) for r in run(24)],
        stages=[offline, offline | fewer],
        stage="confirmation",
    )

    verification = verify(made.write(tmp_path))

    assert len({e.name for e in made.verdict.rules if e.role != "integrity"}) == 4
    assert verification["status"] == made.verdict.status == "GO", text_of(verification)


def test_a_bundle_that_nobody_sealed_is_invalid_unless_that_is_asked_for(tmp_path):
    path = good().write(tmp_path, seal=None, ledger=None, approvals=())

    assert verify(path)["exit_code"] == 12
    assert set(wrong(verify(path))) == {"seal", "ledger", "approvals"}
    assert verify(path, unsealed=True)["exit_code"] == 0


def test_a_sealed_bundle_cannot_be_waived(tmp_path):
    path = good().write(tmp_path, ledger=chained(("seal", SEALED, {"plan_sha256": "0" * 64})))

    assert verify(path, unsealed=True)["exit_code"] == 3


def test_a_key_that_the_reader_trusts_is_demanded(path):
    assert verify(path, signers=[encode_base64(GRACE.public_key)])["exit_code"] == 3
    both = [encode_base64(key.public_key) for key in (ADA, GRACE)]
    assert verify(path, signers=both)["exit_code"] == 0


def test_a_head_that_the_reader_knows_has_to_be_in_the_ledger(path):
    first = sha256_hex(good().ledger().split(b"\n")[0])

    assert verify(path, head=first)["exit_code"] == 0
    assert verify(path, head="0" * 64)["exit_code"] == 3


def test_a_plan_sealed_after_the_rows_were_measured_is_invalid(tmp_path):
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    late = chained(seal_line(good().seal, digest, at=DECIDED), decision_line(good().approval, own))

    verification = verify(good().write(tmp_path, ledger=late))

    assert verification["exit_code"] == 12
    assert "after the first row" in text_of(verification)


def test_prompts_opened_before_the_seal_are_seen(tmp_path):
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    early = chained(("opened", SEALED, {"plan_sha256": digest}),
                    seal_line(good().seal, digest, at=START),
                    decision_line(good().approval, own))  # fmt: skip

    verification = verify(good().write(tmp_path, ledger=early))

    assert verification["exit_code"] == 3
    assert "opened before the seal" in text_of(verification)


ASKED = {
    "required_roles": ["operator", "reviewer"],
    "distinct_persons": True,
    "expires_days": 30,
    "signers_file": "plans/signers.yaml",
}
REVIEWER, OPERATOR = (GRACE, "reviewer"), (LINUS, "operator")
MISSING = "an approval as {} by another person is missing"
DECISIONS = {
    "both": ([REVIEWER, OPERATOR], {}, 0, "2 count, 2 asked for"),
    "one": ([REVIEWER], {}, 12, MISSING.format("operator")),
    "none": ([], {}, 12, MISSING.format("operator, reviewer")),
    "by who sealed it": ([(ADA_REVIEWS, "reviewer"), OPERATOR], {}, 12, MISSING.format("reviewer")),
    "in a role of another": ([(GRACE, "operator")], {}, 12, "which they are not"),
    "a rejection beside them": ([REVIEWER, OPERATOR, (ADA, "owner")],
                                {"decision": "reject", "reason": "too slow"}, 12, "too slow"),
    "an override in place of one": ([OPERATOR, REVIEWER],
                                    {"decision": "override", "reason": "hurry"}, 12,
                                    MISSING.format("reviewer")),
    "an expired one": ([OPERATOR, REVIEWER], {"expires": utc(BUNDLED)}, 12, "had expired"),
    "one signed later": ([OPERATOR, REVIEWER], {"at": utc(EXPIRES)}, 12, "signed later"),
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_approvals_are_those_that_the_plan_asks_for(tmp_path, name):
    given_, last, code, cause = DECISIONS[name]
    made = case(RULES[0], approvals=ASKED)
    changes = [{}] * (len(given_) - 1) + [last]
    own = made.verdict_sha256
    signed = [approval_of(own, key, role=role, **change)
              for (key, role), change in zip(given_, changes, strict=False)]  # fmt: skip
    ledger = made.ledger(decisions=[decision_line(one, own) for one in signed])

    verification = verify(made.write(tmp_path, approvals=signed, ledger=ledger))

    assert verification["exit_code"] == code, text_of(verification)
    assert cause in text_of(verification)


@pytest.mark.parametrize(("distinct", "code"), [(True, 12), (False, 0)])
def test_one_person_with_two_keys_is_not_two_people(tmp_path, distinct, code):
    made = case(RULES[0], approvals=ASKED | {"distinct_persons": distinct})
    listed = signers_text(entry("Ada", "owner", ADA), entry("Grace", "reviewer", GRACE),
                          entry("Grace", "operator", LINUS))  # fmt: skip
    seal = seal_of(plan_sha256(made.plan), signers=listed)
    own = made.verdict_sha256
    signed = [approval_of(own, key, role=role) for key, role in (REVIEWER, OPERATOR)]
    ledger = made.ledger(seal=seal, decisions=[decision_line(one, own) for one in signed])

    path = made.write(tmp_path, approvals=signed, ledger=ledger, seal=seal, signers_text=listed)

    assert verify(path)["exit_code"] == code


def test_an_override_stays_what_it_overrides(tmp_path):
    made = case(RULES[0], rows=run(24, speed=0.8))
    over = approval_of(made.verdict_sha256, decision="override", reason="hurry")
    ledger = made.ledger(decisions=[decision_line(over, made.verdict_sha256, "override")])

    verification = verify(made.write(tmp_path, ledger=ledger, approvals=[over]))

    assert verification["exit_code"] == 10
    assert "OVERRIDDEN" in text_of(verification)


def test_a_decision_on_record_cannot_be_left_out(tmp_path):
    no = approval_of(good().verdict_sha256, decision="reject", reason="no")
    ledger = good().ledger(decisions=[decision_line(no, good().verdict_sha256)])

    verification = verify(good().write(tmp_path, approvals=(), ledger=ledger))

    assert verification["exit_code"] == 3
    assert "the ledger has 1 decisions on this verdict, the bundle 0" in text_of(verification)


def test_amendments_are_pointed_out(tmp_path):
    digest, own = good().verdict.plan_sha256, good().verdict_sha256
    ledger = chained(seal_line(good().seal, digest), ("amendment", START, {"plan_sha256": digest}),
                     decision_line(good().approval, own))  # fmt: skip

    assert "1 amendments, read them" in text_of(verify(good().write(tmp_path, ledger=ledger)))


@pytest.mark.parametrize(
    "text",
    [
        b"- {name: Ada, role: owner, public_key: x}",
        b'- name: "A\\u0041"',
        b"- name: >-\n    Ada",
        b"- name: &x Ada",
        b"  name: Ada",
        b"- name: Ada # who",
        b"[]",
    ],
)
def test_a_signers_file_that_could_be_read_in_two_ways_is_not_read(text):
    with pytest.raises(UncheckedError, match="cannot read"):
        signers_in(text.decode())


def test_the_signers_file_is_read_as_the_project_reads_it(tmp_path):
    text = b"""# who signs
- name: Ada Lovelace-Byron
  role: "owner"
  public_key: %b

- name: 'Grace'
  role: reviewer
  public_key: '%b'
  valid_from: "2025-01-01T00:00:00Z"
  valid_until: null
""" % tuple(encode_base64(key.public_key).encode() for key in (ADA, GRACE))
    (tmp_path / "signers.yaml").write_bytes(text)

    listed = [signer.model_dump(mode="json") for signer in load_signers(tmp_path / "signers.yaml")]

    assert signers_in(text.decode()) == listed


def anchored(name, head, proof):
    return [AnchorEvidence(name=name, head=head, proof=proof).model_dump(mode="json")]


def tag(head, content=None):
    content = content or f"object 1\n\nspecdecode ledger head {head}\n".encode()
    number = hashlib.sha1(b"tag %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's
    return {"tag": "t", "object": number, "content": encode_base64(content)}


HEAD = sha256_hex(good().ledger().splitlines()[0])
ANCHORS = {
    "none": (anchored("none", HEAD, None), 0, "none"),
    "a tag": (anchored("git-tag", HEAD, tag(HEAD)), 0, "git-tag"),
    "a token": (anchored("rfc3161", HEAD, {"token": encode_base64(b"x" + bytes.fromhex(HEAD))}), 0,
                "rfc3161"),
    "a token to come": (anchored("rfc3161", HEAD, None), 0, "rfc3161"),
    "of another ledger": (anchored("none", "0" * 64, None), 3, "no entry of the ledger"),
    "a tag of another head": (anchored("git-tag", HEAD, tag("0" * 64)), 3, "of another head"),
    "an edited tag": (anchored("git-tag", HEAD, tag(HEAD) | {"object": "0" * 40}), 3,
                      "not the object it says"),
    "a token of another head": (anchored("rfc3161", HEAD, {"token": encode_base64(b"x")}), 3,
                                "of another head"),
    "proof of nothing": (anchored("none", HEAD, {"it": "is"}), 3, "'none' has a proof"),
    "of an unknown kind": ([{"name": "trust me", "head": HEAD, "proof": None}], 3, "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANCHORS)
def test_anchors_are_named_and_must_be_of_this_ledger(tmp_path, name):
    anchors, code, cause = ANCHORS[name]

    verification = verify(good().write(tmp_path, anchors=anchors))

    assert verification["exit_code"] == code
    assert cause in text_of(verification)


def test_withheld_texts_are_nowhere_in_the_bundle(tmp_path):
    path = good().write(tmp_path, withheld=Withheld(SECRET))
    files = files_of(path)
    rows = [json.loads(line) for line in files["rows.jsonl"].splitlines()]

    assert b"five tokens" not in path.read_bytes()
    assert not {name for row in rows for name in row} & set(FIELDS)
    assert verify(path)["status"] == "GO"
    assert "cannot be recomputed" in text_of(verify(path))


def test_a_withheld_row_can_be_shown_and_must_fit_its_hash(tmp_path):
    name = good().rows[7].request_id
    path = good().write(tmp_path, withheld=Withheld(SECRET, shown=[name]))
    files = files_of(path)
    shown = json.loads(files["rows.shown.json"])

    assert json.loads(shown[0]["line"])["request_id"] == name
    assert verify(path)["status"] == "GO"


def test_leaves_do_not_give_away_which_rows_are_equal(tmp_path):
    leaves = files_of(good().write(tmp_path, withheld=Withheld(SECRET)))["rows.leaves"].split()
    others = files_of(good().write(tmp_path, withheld=Withheld(SECRET[::-1])))["rows.leaves"]

    assert len(set(leaves)) == len(leaves)
    assert not set(leaves) & set(others.split())


def test_the_bundle_as_a_whole_can_be_signed(tmp_path):
    path = good().write(tmp_path, key=ADA)

    assert verify(path)["status"] == "GO"
    assert "all files are signed by Ada" in text_of(verify(path))


def test_a_bundle_over_rows_that_are_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no rows"):
        good().write(tmp_path, rows=to_table([]))
    with pytest.raises(EvidenceError):
        good().write(tmp_path, rows=to_table(good().rows).drop_columns(["arm"]))
    assert not (tmp_path / "bundle.zip").exists()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"signers": None}, ConfigError, "not among the signers"),
        ({"key": STRANGER}, ConfigError, "not among the signers"),
        ({"ledger": good().ledger()[:-9]}, TamperedError, "cut it short"),
        ({"cards": {"../x": b""}}, ConfigError, "plain file name"),
        ({"withheld": Withheld(b"short")}, ConfigError, "32 random"),
        ({"withheld": Withheld(SECRET, shown=["x"])}, ConfigError, "request_id x"),
    ],
)
def test_what_could_not_be_verified_is_not_written(tmp_path, changes, error, words):
    with pytest.raises(error, match=words):
        good().write(tmp_path, **changes)
    assert not (tmp_path / "bundle.zip").exists()


def test_a_check_that_crashes_is_a_failed_check(tmp_path):
    files = files_of(good().write(tmp_path))
    path = tmp_path / "other.zip"
    path.write_bytes(pack(files | {"audit.json": b"[]"}))

    found = {check["name"]: check["text"] for check in verify(path)["checks"]}

    assert "could not be checked: TypeError" in found["audit"]


def test_the_audit_is_of_other_rows(tmp_path):
    other = audit_of(good().rows[1:])

    assert verify(good().write(tmp_path, audit=other))["exit_code"] == 3

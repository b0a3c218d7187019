"""Every attack on a bundle is seen, and the output names the cause.

First by someone who changes files and leaves MANIFEST.json as it was. Then by someone who has no
key but makes everything fit again that can be made to fit: these tests say which check is left to
see it, and the last ones say what only a signature or a head from outside can see.
"""

from __future__ import annotations

import json
import zipfile
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.governance import Status, plan_sha256
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.dsse import sign_payload
from specdecode.governance.signing import encode_base64
from specdecode.governance.verifier import pack, text_of, verify
from specdecode.governance.verifier.verify import rows_digest
from specdecode.governance.withheld import Withheld
from tests.governance.bundles import (
    BUNDLED,
    DECIDED,
    EXPIRES,
    QUALITY_CHECKS,
    SEALED,
    approval_of,
    case,
    chained,
    decision_line,
    edited,
    good,
    repacked,
    report,
    seal_line,
    seal_of,
    signers_text,
    utc,
)
from tests.governance.keys import ADA, GRACE, STRANGER
from tests.governance.keys import entry as entry_of
from tests.governance.plans import FASTER
from tests.measurement.factories import run

NAMES = [
    "MANIFEST.json", "VERIFY.md", "approvals/000.json", "audit.json", "cards/draft.md",
    "cards/target.md", "data_quality.json", "dvc.lock", "ledger.jsonl", "manifest.json",
    "plan.json", "plan.yaml", "record.json", "rows.jsonl", "seal.json", "signature.json",
    "signers.yaml", "verdict.json", "verify.py",
]  # fmt: skip
UNBOUND = ["VERIFY.md", "cards/draft.md", "cards/target.md", "dvc.lock", "verify.py"]
"""Files that nothing but MANIFEST.json, and a signature over it, speaks for."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Files of a bundle that is GO, signed as a whole."""
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(good().write(folder, key=ADA)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def checked(tmp_path):
    """Verifies an archive given as bytes: (exit code, checks that were not ok, the output)."""

    def check(archive: bytes, **trusted):
        path = tmp_path / "attacked.zip"
        path.write_bytes(archive)
        verification = verify(path, **trusted)
        wrong = {c["name"] for c in verification["checks"] if c["result"] not in ("ok", "waived")}
        return verification["exit_code"], wrong, text_of(verification)

    return check


def unsigned(files, **changes):
    """The files without the signature, some replaced, or left out where None."""
    kept = {name: content for name, content in files.items() if name != "signature.json"}
    return {name: content for name, content in (kept | changes).items() if content is not None}


def flipped(content, at):
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


# --- MANIFEST.json is left as it was --------------------------------------------------------------


def test_every_file_of_a_bundle_is_attacked_here(bundle):
    assert sorted(bundle) == NAMES


@pytest.mark.parametrize("place", [0, 0.5, 1])
@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_is_seen_and_its_file_named(bundle, checked, name, place):
    changed = flipped(bundle[name], round(place * (len(bundle[name]) - 1)))

    code, _, text = checked(pack(bundle | {name: changed}))

    assert code == 3
    assert name in text


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_in_the_folder_is_seen_and_its_file_named(bundle, tmp_path, name):
    for other, content in bundle.items():
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(flipped(content, 5) if other == name else content)

    verification = verify(tmp_path)

    assert verification["exit_code"] == 3
    assert name in text_of(verification)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_no_byte_of_the_archive_can_be_flipped_unseen(bundle, checked, data):
    archive = pack(bundle)
    # Most bytes are rows: every other example takes one of the archive's own.
    start = data.draw(st.sampled_from([0, len(archive) - 2000]))
    at = data.draw(st.integers(start, len(archive) - 1))

    assert checked(flipped(archive, at))[0] == 3


@pytest.mark.parametrize("cut", [1, 100, 5000])
def test_a_shortened_archive_is_seen(bundle, checked, cut):
    assert checked(pack(bundle)[:-cut])[0] == 3


def test_bytes_hidden_in_the_archive_are_seen(bundle, checked):
    code, wrong, text = checked(b"hidden" + pack(bundle))

    assert (code, wrong) == (3, {"archive"})
    assert "do not come from its files" in text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "signature.json"])
def test_a_missing_file_is_seen_and_named(bundle, checked, name):
    code, _, text = checked(pack({other: bundle[other] for other in bundle if other != name}))

    assert code in (3, 12)
    assert f"{name} is missing" in text


@pytest.mark.parametrize("name", ["cards/other.md", "approvals/001.json", "a"])
def test_an_added_file_is_seen_and_named(bundle, checked, name):
    code, _, text = checked(pack(bundle | {name: b"{}"}))

    assert code == 3
    assert f"{name} was added" in text


def test_a_link_in_the_folder_is_seen(bundle, tmp_path):
    for name, content in bundle.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "dvc.lock").unlink()
    (tmp_path / "dvc.lock").symlink_to("/etc/hostname")

    assert verify(tmp_path)["exit_code"] == 3


def test_an_empty_folder_is_no_evidence(tmp_path):
    assert verify(tmp_path)["exit_code"] == 12


def test_a_key_that_occurs_twice_cannot_hide_another(bundle, checked):
    content = bundle["verdict.json"].replace(b'{\n  "schema"', b'{\n  "status": "GO",\n  "schema"')

    assert b'"status": "GO",\n  "schema"' in content
    assert (
        "verdict.json has a key twice"
        in checked(repacked(unsigned(bundle, **{"verdict.json": content})))[2]
    )


# --- an attacker without a key who rewrites MANIFEST.json -----------------------------------------


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("MANIFEST.json", "signature.json")])
def test_the_signature_sees_a_flipped_byte_whatever_file_it_is_in(bundle, checked, name):
    attacked = bundle | {name: flipped(bundle[name], len(bundle[name]) // 2)}

    code, wrong, _ = checked(repacked(attacked))

    assert code in (3, 12)
    assert "signature" in wrong
    assert "files" not in wrong


def rows_changed(files, change):
    """Rows changed, and their digest in audit and verdict with them: no hash is left to see it."""
    rows = [json.loads(line) for line in files["rows.jsonl"].splitlines()]
    rows = change(rows) or rows
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in rows)
    digest = rows_digest(rows)
    same = lambda document: document.update(rows_sha256=digest)  # noqa: E731
    return {
        "rows.jsonl": b"".join(line + b"\n" for line in lines),
        "audit.json": edited(files["audit.json"], same),
        "verdict.json": edited(files["verdict.json"], same),
    }


def swap_arms(rows):
    other = {"plain": "block", "block": "plain"}
    for row in rows:
        row["arm"] = other.get(row["arm"], row["arm"])


def faster(rows):
    for row in rows:
        if row["arm"] == "block" and row["prompt_id"] == "p0003":
            row["e2e_s"] *= 0.9
            row["tpot_s"] = None


def exchange_prompts(rows):
    other = {"p0001": "p0002", "p0002": "p0001"}
    for row in rows:
        if row["arm"] == "block":
            row["prompt_id"] = other.get(row["prompt_id"], row["prompt_id"])


def other_inputs(rows):
    for row in rows:
        row["manifest_sha256"] = "b" * 64


def drop_arm(rows):
    return [row for row in rows if row["arm"] != "block"]


def drop_some(rows):
    return [row for row in rows if row["arm"] != "block" or row["prompt_id"] > "p0002"]


ROWS = {
    "arms exchanged": (swap_arms, {"integrity", "rules"}, "speculation is not in order: block"),
    "one arm's time shortened": (faster, {"rules"}, "block-faster: estimate"),
    "prompts of one arm exchanged": (exchange_prompts, {"integrity", "rules"}, "same_inputs"),
    "one arm dropped": (drop_arm, {"counts", "integrity", "rules"}, "arms is not in order: block"),
    "rows of other inputs": (
        other_inputs, {"inputs", "integrity"}, "rows were measured on other inputs (bbbbbbbbbbbb)"),
    "rows of one arm dropped": (
        drop_some, {"counts", "integrity", "rules"}, "missing is not in order: p0000/greedy"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_changed_rows_no_longer_give_the_verdict(bundle, checked, name):
    change, seen_by, cause = ROWS[name]

    code, wrong, text = checked(repacked(unsigned(bundle, **rows_changed(bundle, change))))

    assert code == 3
    assert seen_by | {"ledger", "approvals"} == wrong
    assert cause in text


@pytest.mark.parametrize("name", ROWS)
def test_changed_rows_are_not_those_audited(bundle, checked, name):
    rows = rows_changed(bundle, ROWS[name][0])["rows.jsonl"]

    code, wrong, text = checked(repacked(unsigned(bundle, **{"rows.jsonl": rows})))

    assert code == 3
    assert "rows" in wrong
    assert "the verdict is of rows" in text


def test_reordered_rows_are_seen(bundle, checked):
    lines = bundle["rows.jsonl"].splitlines(keepends=True)
    attacked = unsigned(bundle, **{"rows.jsonl": b"".join(lines[::-1])})

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"rows"})
    assert "rows.jsonl is not in order" in text


def test_rows_spelled_otherwise_are_seen(bundle, checked):
    """The digest is of what rows say, so their spelling needs a check of its own."""
    rows = bundle["rows.jsonl"].replace(b'": ', b'":  ', 1)

    code, wrong, text = checked(repacked(unsigned(bundle, **{"rows.jsonl": rows})))

    assert (code, wrong) == (3, {"rows"})
    assert "rows.jsonl is spelled otherwise" in text


def entry(document, name, stratum=None):
    return next(e for e in document["rules"] if (e["name"], e["stratum"]) == (name, stratum))


def without(document, name):
    document["rules"] = [e for e in document["rules"] if e["name"] != name]


VERDICTS = {
    "an estimate": (lambda v: entry(v, "block-faster").update(estimate=1.6), "rules",
                    "block-faster: estimate 1.6, the rows give"),
    "an estimate left out": (
        lambda v: entry(v, "tail").update(estimate=None, low=None, high=None, level=None),
        "rules", "was left out"),
    "a threshold": (lambda v: entry(v, "acceptance").update(threshold=1.0), "rules",
                    "acceptance: threshold 1.0, the plan says 2.0"),
    "a level": (lambda v: entry(v, "tail").update(level=0.5), "rules", "level is not the plan's"),
    "n": (lambda v: entry(v, "tail").update(n=99), "rules", "tail: n 99, the rows have 24"),
    "an interval upside down": (
        lambda v: entry(v, "block-faster").update(low=2.0, high=1.9), "rules",
        "the interval is upside down"),
    "an interval that says something else": (
        lambda v: entry(v, "block-faster").update(low=0.5), "rules",
        "'pass', where the numbers say 'undecided'"),
    "an outcome": (lambda v: entry(v, "first").update(outcome="fail"), "rules", "first: 'fail'"),
    "a stratum's outcome": (
        lambda v: entry(v, "everywhere", "language=zh").update(outcome="pass"), "rules",
        "everywhere: 'pass' in language=zh"),
    "a rule's role": (lambda v: entry(v, "tail").update(role="secondary"), "rules", "role"),
    "whether it counts": (lambda v: entry(v, "tail").update(counts=False), "rules", "counts"),
    "a stratum left out": (
        lambda v: v["rules"].remove(entry(v, "everywhere", "language=zh")), "rules", "strata"),
    "a rule left out": (lambda v: without(v, "tail"), "rules", "other rules than the plan has"),
    "an error rate": (lambda v: entry(v, "block-errors").update(estimate=0.05), "rules",
                      "block-errors: estimate 0.05, the rows give 0.0"),
    "a check left out": (lambda v: without(v, "integrity/missing"), "integrity",
                         "leaves out the check missing"),
    "the early end left out": (lambda v: without(v, "integrity/complete"), "integrity", "complete"),
    "rows": (lambda v: v.update(rows=999), "counts", "999 rows in the verdict, 144 here"),
    "prompts": (lambda v: v.update(prompts=25), "counts", "25 prompts, the rows have 24"),
    "the claim": (lambda v: v.update(claim="block is free"), "counts", "claim"),
    "the status": (lambda v: v.update(status="NO_GO"), "status", "NO_GO, where the outcomes give"),
    "the reasons": (lambda v: v.update(reasons=["trust me"]), "status", "the reasons are not"),
    "the plan it names": (lambda v: v.update(plan_sha256="0" * 64), "plan", "of plan 000000000000"),
    "the inputs it names": (lambda v: v.update(manifest_sha256="0" * 64), "inputs",
                            "of other inputs"),
    "the rows it names": (lambda v: v.update(rows_sha256="0" * 64), "rows", "000000000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_a_changed_verdict_is_not_what_plan_and_rows_give(bundle, checked, name):
    change, seen_by, cause = VERDICTS[name]
    attacked = unsigned(bundle, **{"verdict.json": edited(bundle["verdict.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code == 3
    assert {seen_by, "ledger", "approvals"} <= wrong
    assert cause in text


AUDITS = {
    "another word": (lambda a: a["arms"]["block"].update(verdict="undecided"), "rules",
                     "'pass', where the numbers say 'undecided'"),
    "evidence above the limit": (lambda a: a["arms"]["block"].update(max_log_e_value=5.0), "audit",
                                 "block: evidence and log e-value"),
    "fewer tokens": (lambda a: a["arms"]["block"].update(tokens_read=9), "audit", "tokens read"),
    "another alpha": (lambda a: a.update(alpha=0.05), "audit", "another alpha"),
    "no arm": (lambda a: a.update(arms={}), "audit", "the audit is of no arm"),
    "log e above its maximum": (lambda a: a["arms"]["block"].update(log_e_value=1.0), "audit",
                                "above its maximum"),
    "no finding on sampled tokens": (lambda a: a["arms"]["block"].update(sampled=None), "audit",
                                     "tokens read and their finding"),
    "a word its findings do not have": (lambda a: a["arms"]["block"].update(verdict="biased"),
                                        "audit", "'biased' is not its findings'"),
    "silence after too few tokens": (lambda a: a["arms"]["block"].update(min_tokens=9999), "audit",
                                     "too few tokens were read"),
    "greedy failures": (lambda a: a["arms"]["block"]["greedy"].update(failures=3), "audit",
                        "greedy rows are not as good"),
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_a_changed_audit_is_seen(bundle, checked, name):
    change, seen_by, cause = AUDITS[name]
    attacked = unsigned(bundle, **{"audit.json": edited(bundle["audit.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code in (3, 12)
    assert seen_by in wrong
    assert cause in text


def test_a_biased_arm_cannot_be_called_lossless(tmp_path, checked):
    found = case(FASTER, reports={"block": report("biased", log_e=6.0)})
    with zipfile.ZipFile(found.write(tmp_path)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    def clear(audit):
        arm = audit["arms"]["block"]
        arm["verdict"] = arm["sampled"]["verdict"] = "lossless"

    code, wrong, text = checked(
        repacked(files | {"audit.json": edited(files["audit.json"], clear)})
    )

    assert found.verdict.status is Status.NO_GO
    assert code == 3
    assert wrong == {"audit", "rules"}
    assert "its word is not its log e's" in text


CONTENTS = [
    ("rows.jsonl", b"", "rows.jsonl has no lines"),
    ("ledger.jsonl", b"", "ledger.jsonl has no lines"),
    ("verdict.json", b"{", "verdict.json is not JSON"),
    ("verdict.json", b'{"rows": NaN}', "holds NaN, which is not a number"),
    ("signers.yaml", b"[]\n", "cannot read: []"),
    ("seal.json", b"{}", "seal.json is no signed plan-seal: KeyError"),
    ("seal.json", b"[]", "seal.json is no signed plan-seal: TypeError"),
    ("audit.json", b"[]", "could not be checked: TypeError"),
]


@pytest.mark.parametrize("attack", CONTENTS)
def test_a_file_without_its_content_is_a_failed_check(bundle, checked, attack):
    name, content, cause = attack

    code, _, text = checked(repacked(unsigned(bundle, **{name: content})))

    assert code in (3, 12)
    assert cause in text


SMALL = {
    "an unknown plan schema": (
        "plan.json", lambda p: p.update(schema="specdecode.plan/9"), "schema specdecode.plan/9"),
    "an unknown kind of rule": (
        "plan.json", lambda p: p["rules"][3].update(kind="vibes"), "rules of kind vibes"),
    "no anchor": ("record.json", lambda r: r.update(anchors=[]), "not even 'none'"),
    "a time without a zone": (
        "record.json", lambda r: r.update(at="2026-01-03T00:00:00"), "is not a time in UTC"),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_what_cannot_be_judged_is_not_passed(bundle, checked, name):
    file, change, cause = SMALL[name]

    code, _, text = checked(repacked(unsigned(bundle, **{file: edited(bundle[file], change)})))

    assert code in (3, 12)
    assert cause in text


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda m: json.dumps(m).encode(), "MANIFEST.json was edited"),
        (lambda m: compact(m | {"at": "now"}), "other fields than it should"),
        (lambda m: compact(m | {"schema": "specdecode.bundle/9"}), "unknown schema"),
    ],
)
def test_a_manifest_has_one_form(bundle, checked, change, cause):
    manifest = change(json.loads(bundle["MANIFEST.json"]))

    code, wrong, text = checked(pack(unsigned(bundle, **{"MANIFEST.json": manifest})))

    assert (code, wrong) == (3, {"files"})
    assert cause in text


def test_rules_cannot_be_judged_on_rows_that_are_invalid(tmp_path, checked):
    broken = case(FASTER, rows=[r for r in run(24) if r.arm != "token"])
    with zipfile.ZipFile(broken.write(tmp_path)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change = lambda v: entry(v, "block-faster").update(outcome="pass")  # noqa: E731

    code, _, text = checked(
        repacked(files | {"verdict.json": edited(files["verdict.json"], change)})
    )

    assert broken.verdict.status is Status.INVALID
    assert code == 3
    assert "rules judged on invalid rows" in text


# --- the threshold, moved ------------------------------------------------------------------------


def lower(document):
    next(r for r in document["rules"] if r["name"] == "block-faster")["threshold"] = 0.5


def compact(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_moved_threshold_is_not_the_plan_that_was_measured_for(bundle, checked):
    plan = json.loads(bundle["plan.json"])
    lower(plan)

    code, wrong, text = checked(repacked(unsigned(bundle, **{"plan.json": compact(plan)})))

    assert code == 3
    assert wrong == {"plan", "seal", "ledger", "rules"}
    assert "the verdict is of plan" in text


def other_files(tmp_path, **arguments):
    """Files of a bundle made afresh by the project's own code, but without the keys."""
    made = case(**arguments)
    with zipfile.ZipFile(made.write(tmp_path, "other.zip")) as archive:
        return made, {name: archive.read(name) for name in archive.namelist()}


def stolen(bundle, files):
    """The other files with the signatures and the ledger of the bundle."""
    kept = ("seal.json", "approvals/000.json", "ledger.jsonl", "record.json", "signers.yaml")
    return repacked(files | {name: bundle[name] for name in kept})


def test_a_threshold_moved_everywhere_is_seen_by_the_seal(bundle, checked, tmp_path):
    plan = json.loads(bundle["plan.json"])
    lower(plan)
    made, files = other_files(tmp_path, plan=plan)

    code, wrong, text = checked(stolen(bundle, files))

    assert made.verdict.status is Status.GO
    assert code == 3
    assert wrong == {"seal", "ledger", "approvals"}
    assert "the seal is of another plan" in text


def test_rows_chosen_afterwards_are_seen_by_ledger_and_approval(bundle, checked, tmp_path):
    made, files = other_files(tmp_path, rows=[r for r in run(24) if r.prompt_id != "p0004"])

    code, wrong, text = checked(stolen(bundle, files))

    assert made.verdict.status is Status.GO
    assert code == 3
    assert wrong == {"ledger", "approvals"}
    assert "the ledger records another verdict" in text


def test_exchanged_inputs_break_their_seal(bundle, checked):
    change = lambda m: m["entries"].update(lock="d" * 64)  # noqa: E731
    attacked = unsigned(bundle, **{"manifest.json": edited(bundle["manifest.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"inputs"})
    assert "entries are not the sealed ones" in text


def test_data_quality_of_other_prompts_is_seen(bundle, checked):
    attacked = unsigned(bundle, **{"data_quality.json": QUALITY_CHECKS + b" "})

    assert checked(repacked(attacked))[:2] == (3, {"inputs"})


def test_a_plan_file_that_says_something_else_is_seen(bundle, checked):
    attacked = unsigned(bundle, **{"plan.yaml": bundle["plan.yaml"].replace(b"1.1", b"0.5")})

    assert checked(repacked(attacked))[:2] == (3, {"plan"})


# --- signatures and approvals --------------------------------------------------------------------

OWN, PLAN = good().verdict_sha256, plan_sha256(good().plan)
APPROVALS = {
    "of another verdict": (approval_of("0" * 64), 3, "is of another verdict"),
    "expired": (approval_of(OWN, expires=utc(BUNDLED)), 12, "had expired"),
    "by a stranger": (approval_of(OWN, STRANGER), 3, "which nobody has"),
    "for a role they do not have": (approval_of(OWN, role="owner"), 12, "which they are not"),
    "that rejects": (approval_of(OWN, decision="reject", reason="no"), 12, "rejects the verdict"),
    "that is a seal": (seal_of(OWN, GRACE), 3, "is no approval"),
}


def with_approval(files, envelope):
    """The approval in place, and recorded in a ledger written anew."""
    kept = [json.loads(line) for line in files["ledger.jsonl"].splitlines()[:-1]]
    times = [datetime.fromisoformat(line["at"]) for line in kept]
    lines = [(line["kind"], at, line["body"]) for line, at in zip(kept, times, strict=True)]
    ledger = chained(*lines, decision_line(envelope, OWN))
    return with_head(files, ledger) | {"approvals/000.json": envelope.to_bytes()}


@pytest.mark.parametrize("name", APPROVALS)
def test_an_approval_that_is_none_is_seen(bundle, checked, name):
    envelope, expected, cause = APPROVALS[name]

    code, wrong, text = checked(repacked(with_approval(bundle, envelope)))

    assert (code, wrong) == (expected, {"approvals"})
    assert cause in text


def test_an_approval_that_is_not_on_record_is_seen(bundle, checked):
    other = approval_of(OWN, expires=utc(EXPIRES.replace(year=2030)))

    code, wrong, text = checked(
        repacked(unsigned(bundle, **{"approvals/000.json": other.to_bytes()}))
    )

    assert (code, wrong) == (3, {"approvals"})
    assert "the ledger has 1 decisions on this verdict, the bundle 1" in text


def test_an_approval_cannot_be_prolonged(bundle, checked):
    longer = approval_of(OWN, expires=utc(EXPIRES.replace(year=2030))).to_json()["payload"]
    change = lambda e: e.update(payload=longer)  # noqa: E731
    attacked = unsigned(bundle)
    attacked["approvals/000.json"] = edited(attacked["approvals/000.json"], change)

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"approvals"})
    assert "not over this payload" in text


def test_the_time_on_record_cannot_be_set_back_before_the_ledger(bundle, checked):
    change = lambda r: r.update(at=utc(SEALED))  # noqa: E731
    attacked = unsigned(bundle, **{"record.json": edited(bundle["record.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code == 3
    assert "ledger" in wrong
    assert "older than its ledger" in text


@pytest.mark.parametrize("name", ["seal.json", "approvals/000.json"])
@pytest.mark.parametrize("times", [0, 2])
def test_an_envelope_needs_signatures_by_different_keys(bundle, checked, name, times):
    change = lambda e: e.update(signatures=e["signatures"] * times)  # noqa: E731
    attacked = unsigned(bundle, **{name: edited(bundle[name], change)})

    code, _, text = checked(repacked(attacked))

    assert code == 3
    assert f"{name} is not signed, or twice by one key" in text


def test_a_bad_signature_beside_a_good_one_is_seen(bundle, checked):
    def change(envelope):
        first = envelope["signatures"][0]
        other = sha256_hex(GRACE.public_key)[:16]
        envelope["signatures"].append(first | {"keyid": other})

    attacked = unsigned(bundle, **{"seal.json": edited(bundle["seal.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code == 3
    assert "seal" in wrong
    assert "a signature is not over this payload" in text


def test_an_approval_is_signed_by_one_person(bundle, checked):
    both = sign_payload(good().approval.body, GRACE, ADA)

    code, wrong, text = checked(repacked(with_approval(bundle, both)))

    assert (code, wrong) == (12, {"approvals"})
    assert "2 signatures, an approval has one" in text


def test_a_signature_has_one_spelling(bundle, checked):
    def respell(envelope):
        text = envelope["signatures"][0]["sig"]
        assert text.endswith("==")  # 64 bytes leave four bits unused
        last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".index(text[-3])
        other = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[last + 1]
        envelope["signatures"][0]["sig"] = text[:-3] + other + "=="

    attacked = unsigned(bundle, **{"seal.json": edited(bundle["seal.json"], respell)})

    assert "base64 in another spelling" in checked(repacked(attacked))[2]


@pytest.mark.parametrize("field", [{"valid_from": utc(DECIDED)}, {"valid_until": utc(SEALED)}])
def test_a_key_that_was_not_valid_when_it_sealed_is_seen(tmp_path, checked, field):
    listed = signers_text(entry_of("Ada", "owner", ADA, **field),
                          entry_of("Grace", "reviewer", GRACE))  # fmt: skip
    seal = seal_of(PLAN, signers=listed)
    path = good().write(tmp_path, seal=seal, ledger=good().ledger(seal=seal), signers_text=listed)

    code, _, text = checked(path.read_bytes())

    assert code == 3
    assert f"the key of Ada was not valid on {utc(SEALED)}" in text


def test_rows_of_another_environment_than_was_sealed_are_seen(tmp_path, checked):
    seal = seal_of(PLAN, lock="e" * 64)
    path = good().write(tmp_path, seal=seal, ledger=good().ledger(seal=seal))

    code, wrong, text = checked(path.read_bytes())

    assert (code, wrong) == (3, {"seal"})
    assert "another requirements.lock" in text


def test_stripping_seal_and_ledger_makes_it_invalid(bundle, checked):
    attacked = unsigned(
        bundle, **{"seal.json": None, "ledger.jsonl": None, "approvals/000.json": None}
    )

    assert checked(repacked(attacked))[:2] == (12, {"seal", "ledger", "approvals"})


def test_a_key_that_was_not_sealed_does_not_count(bundle, checked):
    text = bundle["signers.yaml"].replace(
        encode_base64(GRACE.public_key).encode(), encode_base64(STRANGER.public_key).encode()
    )
    files = with_approval(bundle, approval_of(OWN, STRANGER)) | {"signers.yaml": text}

    code, wrong, text = checked(repacked(files))

    assert (code, wrong) == (3, {"seal"})
    assert "signers.yaml is not the one that was sealed" in text


# --- the ledger ----------------------------------------------------------------------------------


def with_head(files, ledger):
    """The ledger in place, and the bundle's record of its head made to fit."""
    head = sha256_hex(ledger.splitlines()[-1])
    change = lambda r: r.update(ledger_head=head)  # noqa: E731
    return unsigned(
        files, **{"ledger.jsonl": ledger, "record.json": edited(files["record.json"], change)}
    )


def lines_of(ledger):
    return ledger.splitlines(keepends=True)


LEDGERS = {
    "a line edited": (
        lambda lines: [lines[0].replace(b"2025-12-30", b"2025-12-01"), *lines[1:]], "line 2"),
    "a line removed": (lambda lines: [lines[0], *lines[2:]], "entry 2 stands here"),
    "lines exchanged": (lambda lines: [lines[0], lines[2], lines[1], lines[3]],
                        "entry 2 stands here"),
    "the first line removed": (lambda lines: lines[1:], "entry 1 stands here"),
    "the end cut off": (lambda lines: lines[:-1], "the ledger has 0 decisions on this verdict"),
    "the last line without its end": (lambda lines: [*lines[:-1], lines[-1][:-1]], "has no end"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEDGERS)
def test_a_changed_ledger_is_seen(bundle, checked, name):
    change, cause = LEDGERS[name]
    ledger = b"".join(change(lines_of(bundle["ledger.jsonl"])))

    code, wrong, text = checked(repacked(with_head(bundle, ledger)))

    assert code == 3
    assert wrong <= {"ledger", "approvals"}
    assert cause in text


def test_a_ledger_cut_short_does_not_end_where_the_bundle_says(bundle, checked):
    ledger = b"".join(lines_of(bundle["ledger.jsonl"])[:-1])

    code, wrong, text = checked(repacked(unsigned(bundle, **{"ledger.jsonl": ledger})))

    assert (code, wrong) == (3, {"ledger", "approvals"})
    assert "truncated?" in text


SEAL, APPROVED = good().seal, decision_line(good().approval, OWN)
REWRITTEN = {
    "a seal dated after what followed it": (
        [seal_line(SEAL, PLAN, at=BUNDLED), APPROVED], 3, "back-dated"),
    "a seal of another plan": ([seal_line(SEAL, "0" * 64), APPROVED], 3, "another seal, or none"),
    "another seal": ([seal_line(seal_of(PLAN, GRACE), PLAN), APPROVED], 3, "another seal, or none"),
    "sealed anew": (
        [seal_line(SEAL, PLAN), seal_line(seal_of(PLAN, GRACE), PLAN), APPROVED], 3,
        "another seal, or none"),
    "no seal": ([APPROVED], 3, "another seal, or none"),
    "another verdict": (
        [seal_line(SEAL, PLAN),
         ("verdict", DECIDED, {"plan_sha256": PLAN, "verdict_sha256": "0" * 64}), APPROVED],
        3, "records another verdict"),
    "a seal that is younger than the rows": (
        [seal_line(SEAL, PLAN, at=DECIDED), APPROVED], 12, "after the first row"),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_ledger_written_anew_still_has_to_tell_this_story(bundle, checked, name):
    entries, expected, cause = REWRITTEN[name]

    code, wrong, text = checked(repacked(with_head(bundle, chained(*entries))))

    assert code == expected
    assert wrong <= {"ledger", "approvals"}
    assert cause in text


# --- what needs something from outside -----------------------------------------------------------


@pytest.mark.parametrize("name", UNBOUND)
def test_only_a_signature_speaks_for_files_that_nothing_else_names(bundle, checked, name):
    changed = {name: bundle[name] + b" "}

    assert checked(repacked(unsigned(bundle, **changed)))[0] == 0
    assert checked(repacked(bundle | changed))[:2] == (3, {"signature"})


def test_only_a_known_head_sees_an_earlier_date_in_a_ledger_written_anew(bundle, checked):
    earlier = [seal_line(SEAL, PLAN, at=SEALED.replace(year=2020)), APPROVED]
    attacked = repacked(with_head(bundle, chained(*earlier)))
    head = sha256_hex(bundle["ledger.jsonl"].splitlines()[0])

    assert checked(attacked)[0] == 0
    code, wrong, text = checked(attacked, head=head)
    assert (code, wrong) == (3, {"ledger"})
    assert "truncated, or written anew" in text


def test_only_a_trusted_key_sees_that_everything_was_signed_anew(bundle, checked):
    """Someone with a key of their own, and the name of another in signers.json."""
    ours = entry_of("Ada", "owner", STRANGER), entry_of("Grace", "reviewer", GRACE)
    listed = signers_text(*ours)
    forged = seal_of(PLAN, STRANGER, listed)
    attacked = with_head(bundle, good().ledger(seal=forged)) | {
        "signers.yaml": listed,
        "seal.json": forged.to_bytes(),
    }
    trusted = [encode_base64(key.public_key) for key in (ADA, GRACE)]

    assert checked(repacked(attacked))[0] == 0
    assert checked(repacked(bundle), signers=trusted)[0] == 0
    code, wrong, text = checked(repacked(attacked), signers=trusted)
    assert (code, wrong) == (3, {"seal", "approvals"})
    assert "which you do not trust" in text


def test_an_interval_narrowed_within_reason_is_seen_by_ledger_and_approval_only(bundle, checked):
    """The limit that VERIFY.md states: interval ends are not recomputed."""
    change = lambda v: entry(v, "tail").update(low=entry(v, "tail")["estimate"])  # noqa: E731
    attacked = unsigned(bundle, **{"verdict.json": edited(bundle["verdict.json"], change)})

    assert checked(repacked(attacked))[:2] == (3, {"ledger", "approvals"})


# --- withheld rows -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def withheld(tmp_path_factory):
    """Files of a bundle whose texts are withheld, one row shown."""
    folder = tmp_path_factory.mktemp("withheld")
    how = Withheld(bytes(32), shown=[good().rows[0].request_id])
    with zipfile.ZipFile(good().write(folder, withheld=how)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_changed_hash_breaks_the_root(withheld, checked):
    leaves = flipped(withheld["rows.leaves"], 0)

    code, wrong, text = checked(repacked(withheld | {"rows.leaves": leaves}))

    assert (code, wrong) == (3, {"rows"})
    assert "do not give their root" in text


def test_a_shown_row_with_another_text_is_seen(withheld, checked):
    change = lambda shown: shown[0].update(line=shown[0]["line"].replace("five", "nine"))  # noqa: E731
    attacked = withheld | {"rows.shown.json": edited(withheld["rows.shown.json"], change)}

    code, wrong, text = checked(repacked(attacked))

    assert (code, wrong) == (3, {"rows"})
    assert "another text than its hash is of" in text


def test_a_number_that_differs_from_a_shown_row_is_seen(withheld, checked):
    index = json.loads(withheld["rows.shown.json"])[0]["index"]
    lines = withheld["rows.jsonl"].splitlines(keepends=True)
    row = json.loads(lines[index]) | {"peak_rss_bytes": 1}
    lines[index] = json.dumps(row, sort_keys=True).encode() + b"\n"

    code, wrong, text = checked(repacked(withheld | {"rows.jsonl": b"".join(lines)}))

    assert (code, wrong) == (3, {"rows"})
    assert "differs from its full text" in text


def test_a_dropped_hash_is_seen(withheld, checked):
    leaves = withheld["rows.leaves"].split(b"\n", 1)[1]

    assert (
        "143 hashes stand for 144 rows" in checked(repacked(withheld | {"rows.leaves": leaves}))[2]
    )

"""Seals: when one is refused, and everything that breaks one."""

from __future__ import annotations

import math

import pytest

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.anchor import NoAnchor
from specdecode.governance.canonical import canonical_bytes
from specdecode.governance.dsse import parse_envelope, sign_payload
from specdecode.governance.ledger import Ledger
from specdecode.governance.plan import plan_sha256
from specdecode.governance.sealing import read_seal, seal_plan, verify_seal
from specdecode.governance.statements import PlanSeal, read_statement
from tests.governance.keys import ADA, GRACE, HOUR, NOW, STRANGER, entry, signers
from tests.governance.plans import small_plan

PLAN = small_plan()
SUBJECTS = {"confirmation": "c" * 64, "tree:.": "d" * 64}
FINE = {"tree_clean": True, "confirmation_opened": False, "power": 0.8, "power_wanted": 0.8}


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")


def seal(ledger, *, plan=PLAN, subjects=SUBJECTS, key=ADA, anchor=None, at=NOW, **fields):
    return seal_plan(plan, subjects, key, ledger, anchor or NoAnchor(), at=at, **FINE | fields)


def test_a_seal_is_signed_on_record_and_verifies(ledger):
    envelope = seal(ledger)
    found = verify_seal(envelope, PLAN, SUBJECTS, signers(), ledger)
    assert found.subjects == {**SUBJECTS, "plan": plan_sha256(PLAN)}
    assert [signer.name for signer in found.signers] == ["Ada"]
    assert found.entry == ledger.entries()[-1]
    assert found.entry.kind == "seal"
    assert found.entry.body == {
        "plan_sha256": plan_sha256(PLAN),
        "seal_sha256": envelope.sha256,
        "anchor": "none",
        "envelope": envelope.to_json(),
    }
    assert found.predicate.power == 0.8


class _Anchor(NoAnchor):
    def __init__(self, *, works: bool = True):
        self.works, self.heads = works, []

    def ready(self):
        if not self.works:
            raise ConfigError("the anchor is not there")

    def attest(self, head):
        self.heads.append(head)
        return super().attest(head)


def test_the_anchor_gets_the_head_that_the_seal_made(ledger):
    anchor = _Anchor()
    seal(ledger, anchor=anchor)
    assert anchor.heads == [ledger.head]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"tree_clean": False}, "commit or remove"),
        ({"confirmation_opened": True}, "Lock and seal a new set"),
        ({"power": None}, "specdecode plan power"),
        ({"power": 0.79}, "raise the number of prompts"),
        ({"power": math.nan}, "raise the number of prompts"),
        ({"power": 1.5}, "power"),
        ({"power": math.nan, "power_wanted": None}, "power"),
        ({"subjects": {"plan": "0" * 64}}, "plan"),
        ({"anchor": _Anchor(works=False)}, "the anchor is not there"),
    ],
)
def test_a_seal_that_would_prove_nothing_is_refused_and_leaves_no_line(ledger, fields, advice):
    with pytest.raises(ConfigError, match=advice):
        seal(ledger, **fields)
    assert ledger.entries() == ()


def test_a_plan_that_asks_for_no_power_needs_none(ledger):
    seal(ledger, power=None, power_wanted=None)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"plan_sha256": plan_sha256(PLAN)},
        {"subjects": {"confirmation": SUBJECTS["confirmation"], "plan": "0" * 64}},
        {"sets": [{"sha256": SUBJECTS["confirmation"]}]},
    ],
)
def test_what_the_ledger_says_was_opened_cannot_be_sealed(ledger, body):
    ledger.append("opened", body, at=NOW)
    with pytest.raises(ConfigError, match=r"opened on 2026-11-30T04:00:00Z.*new set"):
        seal(ledger)
    assert len(ledger.entries()) == 1


def test_another_set_may_be_open(ledger):
    ledger.append("opened", {"subjects": {"confirmation": "e" * 64}}, at=NOW)
    seal(ledger)
    assert ledger.entries()[-1].kind == "seal"


def test_every_changed_bit_of_a_seal_is_noticed(ledger):
    content = seal(ledger).to_bytes()
    entries = ledger.entries()
    for position in range(len(content) * 8):
        changed = bytearray(content)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(TamperedError):
            read_seal(parse_envelope(bytes(changed)), signers(), entries)


@pytest.mark.parametrize(
    ("plan", "subjects", "named"),
    [
        (small_plan(claim="block is slower"), SUBJECTS, "plan"),
        (PLAN, SUBJECTS | {"tree:.": "e" * 64}, "tree:."),
        (PLAN, {"confirmation": "c" * 64}, "tree:."),
        (PLAN, SUBJECTS | {"lock": "e" * 64}, "lock"),
    ],
)
def test_what_changed_since_the_seal_is_named(ledger, plan, subjects, named):
    envelope = seal(ledger)
    with pytest.raises(TamperedError, match=f"sealed on 2026-11-30T04:00:00Z: {named}"):
        verify_seal(envelope, plan, subjects, signers(), ledger)


def test_a_moved_threshold_is_noticed(ledger):
    envelope = seal(ledger)
    document = PLAN.model_dump(mode="json", by_alias=True)
    document["rules"][-1]["threshold"] -= 0.01
    with pytest.raises(TamperedError, match="plan"):
        verify_seal(envelope, type(PLAN).model_validate(document), SUBJECTS, signers(), ledger)


def test_a_seal_counts_only_where_it_is_on_record(ledger, tmp_path):
    envelope = seal(ledger)
    other = Ledger(tmp_path / "other.jsonl")
    with pytest.raises(TamperedError, match="never sealed there"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), other)
    seal(other, at=NOW + HOUR)
    with pytest.raises(TamperedError, match="never sealed there"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), other)


def test_a_back_dated_line_for_a_seal_is_noticed(ledger):
    envelope = seal(Ledger(ledger.path.with_name("elsewhere")))
    body = {"seal_sha256": envelope.sha256, "envelope": envelope.to_json()}
    ledger.append("seal", body, at=NOW - HOUR)
    with pytest.raises(TamperedError, match="of another seal"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), ledger)


def test_a_seal_written_into_the_ledger_after_the_opening_is_noticed(ledger):
    envelope = seal(Ledger(ledger.path.with_name("elsewhere")))
    ledger.append("opened", {"subjects": SUBJECTS}, at=NOW - HOUR)
    body = {"seal_sha256": envelope.sha256, "envelope": envelope.to_json()}
    ledger.append("seal", body, at=NOW)
    with pytest.raises(TamperedError, match="opened before the plan was sealed"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), ledger)


def test_a_key_nobody_lists_or_out_of_its_time_seals_nothing(ledger):
    envelope = seal(ledger, key=STRANGER)
    with pytest.raises(TamperedError, match="no signers file lists"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), ledger)
    envelope = seal(ledger, at=NOW + HOUR)
    late = signers(entry("Ada", "owner", ADA, valid_from="2026-11-30T06:00:00Z"))
    with pytest.raises(TamperedError, match="not valid at 2026-11-30T05:00:00Z"):
        verify_seal(envelope, PLAN, SUBJECTS, late, ledger)


def test_a_statement_of_another_kind_is_no_seal(ledger):
    envelope = seal(ledger)
    payload = envelope.body.replace(b"/plan-seal/", b"/plan-seel/")
    with pytest.raises(TamperedError, match="plan-seel"):
        verify_seal(sign_payload(payload, ADA), PLAN, SUBJECTS, signers(), ledger)


def test_a_plan_sealed_anew_has_one_seal_that_counts(ledger):
    first = seal(ledger)
    second = seal(ledger, subjects={"tree:.": "e" * 64}, key=GRACE, at=NOW + HOUR)
    with pytest.raises(EvidenceError, match="sealed anew on 2026-11-30T05:00:00Z"):
        verify_seal(first, PLAN, SUBJECTS, signers(), ledger)
    assert verify_seal(second, PLAN, {"tree:.": "e" * 64}, signers(), ledger)


def test_a_broken_ledger_verifies_no_seal(ledger):
    envelope = seal(ledger)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1])
    with pytest.raises(TamperedError, match="line 1"):
        verify_seal(envelope, PLAN, SUBJECTS, signers(), Ledger(ledger.path))


def test_the_predicate_says_under_which_conditions_it_was_sealed(ledger):
    predicate, _ = read_statement(seal(ledger), PlanSeal)
    assert canonical_bytes(predicate.model_dump(mode="json")) == canonical_bytes(
        {
            "plan_sha256": plan_sha256(PLAN),
            "plan_name": "small",
            "at": "2026-11-30T04:00:00Z",
            "tree_clean": True,
            "confirmation_opened": False,
            "power": 0.8,
            "power_wanted": 0.8,
            "power_basis": None,
            "anchor": "none",
        }
    )

"""Who signed, with which key, and what is left when signatures are taken away."""

from __future__ import annotations

import pytest

from specdecode.governance.canonical import sha256_hex
from tests.governance.bundles import (
    DECIDED,
    SEALED,
    edited,
    good,
    repacked,
    seal_of,
    signers_text,
    utc,
)
from tests.governance.keys import ADA, GRACE
from tests.governance.keys import entry as entry_of
from tests.governance.tamper.attacks import PLAN, unsigned


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

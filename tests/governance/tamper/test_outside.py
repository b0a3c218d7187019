"""What nothing inside a bundle can see: a signature, a key or a head from outside has to."""

from __future__ import annotations

import pytest

from specdecode.governance.canonical import sha256_hex
from specdecode.governance.signing import encode_base64
from tests.governance.bundles import (
    SEALED,
    chained,
    good,
    repacked,
    seal_line,
    seal_of,
    signers_text,
)
from tests.governance.keys import ADA, GRACE, STRANGER
from tests.governance.keys import entry as entry_of
from tests.governance.tamper.attacks import (
    APPROVED,
    PLAN,
    SEAL,
    UNBOUND,
    lines_of,
    unsigned,
    with_head,
)


@pytest.mark.parametrize("name", UNBOUND)
def test_only_a_signature_speaks_for_files_that_nothing_else_names(bundle, checked, name):
    changed = {name: bundle[name] + b" "}

    assert checked(repacked(unsigned(bundle, **changed)))[0] == 0
    assert checked(repacked(bundle | changed))[:2] == (3, {"signature"})


def test_only_a_known_head_sees_an_earlier_date_in_a_ledger_written_anew(bundle, checked):
    earlier = [seal_line(SEAL, PLAN), ("opened", SEALED, {"plan_sha256": PLAN}), APPROVED]
    attacked = repacked(with_head(bundle, chained(*earlier)))
    head = sha256_hex(bundle["ledger.jsonl"].splitlines()[1])

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
    assert (code, wrong) == (3, {"seal", "ledger", "approvals"})
    assert "which you do not trust" in text


def test_only_a_known_head_sees_that_a_ledger_and_all_its_end_recorded_are_gone(bundle, checked):
    """Without the approvals nothing else in the bundle speaks of the lines cut off."""
    ledger = b"".join(lines_of(bundle["ledger.jsonl"])[:2])
    attacked = repacked(unsigned(with_head(bundle, ledger), **{"approvals/000.json": None}))
    head = sha256_hex(lines_of(bundle["ledger.jsonl"])[-1].rstrip(b"\n"))

    assert checked(attacked)[0] == 0
    code, wrong, text = checked(attacked, head=head)
    assert (code, wrong) == (3, {"ledger"})
    assert "truncated, or written anew" in text

"""Anchors in a bundle are named and are of its ledger."""

from __future__ import annotations

import hashlib

import pytest

from specdecode.governance.anchor import AnchorEvidence
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.signing import encode_base64
from specdecode.governance.verifier import text_of, verify
from tests.governance.bundles import good


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

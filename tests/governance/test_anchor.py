"""Anchors: what each shows, and evidence that was changed."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.anchor import (
    AnchorEvidence,
    GitTag,
    NoAnchor,
    TimestampToken,
    anchor_named,
)
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.signing import encode_base64
from specdecode.governance.timestamp_token import read_token
from tests.governance.repositories import git, repository

# Made by `openssl ts` 3.0 with a throw-away authority over this line, the first of a ledger:
# {"at":"2026-11-30T04:00:00Z","body":{},"kind":"seal","previous":"000…","sequence":0}
HEAD = "20cb7acd0235039923be96126e7324e3a62bd3293e67b6406549bce552fa3360"
RESPONSE = base64.b64decode(
    "MIIB1jADAgEAMIIBzQYJKoZIhvcNAQcCoIIBvjCCAboCAQMxDzANBglghkgBZQMEAgEFADBtBgsqhkiG9w0BCRAB"
    "BKBeBFwwWgIBAQYJKwYBBAGGjR8BMDEwDQYJYIZIAWUDBAIBBQAEICDLes0CNQOZI76WEm5zJOOmK9MpPme2QGVJ"
    "vOVS+jNgAgECGA8yMDI2MTEzMDA0MDQxMlowAwIBATGCATMwggEvAgEBMCswEzERMA8GA1UEAwwIVGVzdCBUU0EC"
    "FEZcHxuCjPxvWotjCwm6Cs5uFrl8MA0GCWCGSAFlAwQCAQUAoIGYMBoGCSqGSIb3DQEJAzENBgsqhkiG9w0BCRAB"
    "BDAcBgkqhkiG9w0BCQUxDxcNMjYxMTMwMDQwNDEyWjArBgsqhkiG9w0BCRACDDEcMBowGDAWBBTL4zNFH5ZKVOQl"
    "FDp/FlB7V4tE4jAvBgkqhkiG9w0BCQQxIgQgYZLsp0xx0G2NatptuDl19mL9K9l4dTwx+eFqe2k3Ez8wCgYIKoZI"
    "zj0EAwIERzBFAiEAvmWaqNUdo2j8rA6yKeJbPAc8UzyHwIIerqwdsXDXlbYCIBf4yfgiPCN1vXKxiVGlTXNmHEkG"
    "x6gCC7J/ZvugSAOh"
)
TOKEN_STARTS = 9
"""The response is a header and its status, then the token."""


def test_the_head_is_the_hash_of_the_ledgers_last_line():
    line = b'{"at":"2026-11-30T04:00:00Z","body":{},"kind":"seal","previous":"%b","sequence":0}'
    assert sha256_hex(line % (b"0" * 64)) == HEAD


def test_no_anchor_says_that_there_is_none():
    evidence = NoAnchor().attest(HEAD)
    assert (evidence.name, evidence.proof) == ("none", None)
    NoAnchor().verify(evidence)
    with pytest.raises(TamperedError):
        NoAnchor().verify(AnchorEvidence(name="none", head=HEAD, proof={}))


@pytest.fixture
def root(tmp_path, monkeypatch):
    return repository(tmp_path / "repository", monkeypatch, {"a": ""})


def test_a_tag_holds_the_head_and_is_made_once(root):
    anchor = GitTag(root)
    anchor.ready()
    evidence = anchor.attest(HEAD)
    assert anchor.attest(HEAD) == evidence
    assert evidence.proof["tag"] == "specdecode/ledger/20cb7acd02350399"
    content = git(root, "cat-file", "tag", evidence.proof["tag"])
    assert HEAD in content
    anchor.verify(AnchorEvidence.model_validate(evidence.model_dump()))


def test_a_tag_made_anew_or_about_another_head_is_noticed(root):
    anchor = GitTag(root)
    evidence = anchor.attest(HEAD)
    tag = evidence.proof["tag"]
    with pytest.raises(TamperedError, match="does not hold the head"):
        anchor.verify(evidence.model_copy(update={"head": "0" * 64}))
    changed = dict(evidence.proof, content=encode_base64(b"another"))
    with pytest.raises(TamperedError, match="another one now"):
        anchor.verify(evidence.model_copy(update={"proof": changed}))
    git(root, "tag", "--force", "-a", tag, "-m", f"specdecode ledger head {'0' * 64}")
    with pytest.raises(TamperedError, match="another one now"):
        anchor.verify(evidence)
    with pytest.raises(TamperedError, match="does not hold the head"):
        anchor.attest(HEAD)
    with pytest.raises(TamperedError, match="cannot be read"):
        anchor.verify(evidence.model_copy(update={"proof": {}}))
    git(root, "tag", "--delete", tag)
    with pytest.raises(ConfigError, match=tag):
        anchor.verify(evidence)


def test_a_tag_needs_a_commit_and_a_person(root, tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    with pytest.raises(ConfigError, match="needs a commit"):
        GitTag(empty).ready()
    monkeypatch.delenv("GIT_COMMITTER_NAME")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "")
    git(root, "config", "user.useConfigOnly", "true")
    with pytest.raises(ConfigError, match=r"user\.name"):
        GitTag(root).ready()


@pytest.mark.parametrize("data", [RESPONSE, RESPONSE[TOKEN_STARTS:]])
def test_a_timestamp_token_is_read(data):
    token = read_token(data)
    assert token.imprint.hex() == HEAD
    assert token.at.isoformat() == "2026-11-30T04:04:12+00:00"


def test_a_token_made_elsewhere_is_evidence_for_its_head_only(tmp_path):
    path = tmp_path / "head.tsr"
    anchor = TimestampToken(path)
    anchor.ready()
    waiting = anchor.attest(HEAD)
    assert waiting.proof is None
    with pytest.raises(ConfigError, match="openssl ts -query"):
        anchor.verify(waiting)

    with pytest.raises(ConfigError, match="cannot be read"):
        TimestampToken(tmp_path).attest(HEAD)

    path.write_bytes(RESPONSE)
    evidence = anchor.attest(HEAD)

    assert evidence.proof["at"] == "2026-11-30T04:04:12Z"
    assert evidence.proof["signature"] == "not checked"
    anchor.verify(evidence)
    with pytest.raises(TamperedError, match="not about the head"):
        anchor.attest("0" * 64)
    for changed in (
        {"at": "2025-11-30T04:04:12Z"},
        {"sha256": "0" * 64},
        {"token": "?"},
        {"token": encode_base64(b"")},
        {"more": 1},
    ):
        proof = dict(evidence.proof, **changed)
        with pytest.raises(TamperedError):
            anchor.verify(evidence.model_copy(update={"proof": proof}))


def test_every_changed_bit_of_the_imprint_and_every_cut_are_noticed(tmp_path):
    start = RESPONSE.index(bytes.fromhex(HEAD))
    for position in range(start * 8, (start + 32) * 8):
        changed = bytearray(RESPONSE)
        changed[position // 8] ^= 1 << position % 8
        assert read_token(bytes(changed)).imprint.hex() != HEAD
    for end in range(len(RESPONSE)):
        with pytest.raises(ConfigError):
            read_token(RESPONSE[:end])


@given(st.integers(0, len(RESPONSE) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_token_is_read_or_refused_and_nothing_else(position, junk):
    changed = RESPONSE[:position] + junk + RESPONSE[position + len(junk) :]
    try:
        read_token(changed)
    except ConfigError as error:
        assert "timestamp" in str(error)


@given(st.binary())
def test_other_bytes_are_no_token(data):
    with pytest.raises(ConfigError):
        read_token(data)


def test_a_refused_request_is_no_token():
    with pytest.raises(ConfigError, match="granted no timestamp"):
        read_token(bytes.fromhex("30053003020102"))


def test_evidence_goes_to_the_anchor_that_made_it():
    for anchor in (NoAnchor(), GitTag("."), TimestampToken()):
        for name in {"none", "git-tag", "rfc3161"} - {anchor.name}:
            with pytest.raises(TamperedError, match="was given to"):
                anchor.verify(AnchorEvidence(name=name, head=HEAD, proof=None))


def test_anchors_are_found_by_name():
    assert [anchor_named(name).name for name in ("none", "git-tag", "rfc3161")] == [
        "none",
        "git-tag",
        "rfc3161",
    ]
    with pytest.raises(ConfigError, match="no anchor is called"):
        anchor_named("notary")

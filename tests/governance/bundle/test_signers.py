"""The signers file as the verifier reads it."""

from __future__ import annotations

import pytest

from specdecode.governance.signers import load_signers
from specdecode.governance.signing import encode_base64
from specdecode.governance.verifier.verify import UncheckedError, signers_in
from tests.governance.keys import ADA, GRACE


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

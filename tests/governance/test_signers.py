"""The signers file is strict, and keys have their time."""

from __future__ import annotations

import pytest
import yaml

from specdecode.errors import ConfigError
from specdecode.governance.signers import load_signers, parse_signers
from tests.governance.keys import ADA, ENTRIES, HOUR, NOW, STRANGER, entry, signers


def test_signers_are_found_by_key_id():
    everybody = signers()
    found = everybody.get(ADA.key_id)
    assert (found.name, found.role, found.raw_key) == ("Ada", "owner", ADA.public_key)
    assert everybody.get(STRANGER.key_id) is None
    assert len(list(everybody)) == len(ENTRIES)


GOOD = entry("Ada", "owner", ADA)


def test_times_need_no_quotes(tmp_path):
    path = tmp_path / "signers.yaml"
    line = yaml.safe_dump([entry("Ada", "owner", ADA)]) + "  valid_until: 2026-12-01T00:00:00Z\n"
    path.write_text(line)
    found = load_signers(path).get(ADA.key_id)
    assert found.valid_until == "2026-12-01T00:00:00Z"


@pytest.mark.parametrize(
    "content",
    [
        '[{"name": "Ada", "role": "owner", "public_key": KEY}]',
        "- {name: Ada, role: owner, public_key: KEY}",
        "- name: Ada\n  role: >-\n    owner\n  public_key: KEY",
    ],
)
def test_a_form_that_the_verifier_of_bundles_does_not_read_is_refused_at_once(tmp_path, content):
    path = tmp_path / "signers.yaml"
    path.write_text(content.replace("KEY", '"' + GOOD["public_key"] + '"'))
    with pytest.raises(ConfigError, match=r"signers\.yaml.*`field: value` a line|plainly"):
        load_signers(path)


def test_the_digest_is_of_what_the_file_says():
    turned = parse_signers(list(reversed(ENTRIES)))
    assert turned.sha256 == signers().sha256
    assert signers(*ENTRIES[:2]).sha256 != signers().sha256


def test_a_key_signs_from_its_first_moment_to_just_before_its_last():
    times = {"valid_from": "2026-11-30T04:00:00Z", "valid_until": "2026-11-30T05:00:00Z"}
    found = signers(entry("Ada", "owner", ADA, **times)).get(ADA.key_id)
    moments = (NOW - HOUR, NOW, NOW + HOUR / 2, NOW + HOUR)
    assert [found.valid_at(at) for at in moments] == [False, True, True, False]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "list"),
        (5, "list"),
        ([], "at least one"),
        ([[]], "Signer"),
        ([GOOD | {"admin": True}], "admin"),
        ([{"name": "Ada", "role": "owner"}], "public_key"),
        ([GOOD | {"name": ""}], "name"),
        ([GOOD | {"name": " Ada"}], "spaces"),
        ([GOOD | {"role": 1}], "role"),
        ([GOOD | {"public_key": "QQ=="}], "32 bytes"),
        ([GOOD | {"public_key": "?"}], "base64"),
        ([GOOD | {"valid_from": "2026-11-30"}], "valid_from"),
        ([GOOD | {"valid_from": "2026-11-31T00:00:00Z"}], "valid_from"),
        ([GOOD | {"valid_from": "2026-11-30T00:00:00+00:00"}], "valid_from"),
        ([GOOD | {"valid_until": "2026-11-30T00:00:00.5Z"}], "valid_until"),
        (
            [GOOD | dict.fromkeys(["valid_from", "valid_until"], "2026-11-30T00:00:00Z")],
            "never signs",
        ),
        ([GOOD, GOOD | {"name": "Another"}], "twice"),
    ],
)
def test_a_wrong_file_is_refused_by_field(document, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_signers(document)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- {name: a, name: b}", "occurs twice"),
        ("- {[a]: b}", "YAML"),
        ("\t", "YAML"),
        ("", "list"),
    ],
)
def test_a_file_that_is_no_list_is_refused(tmp_path, content, problem):
    path = tmp_path / "signers.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        load_signers(path)


def test_a_missing_file_names_the_command_that_helps(tmp_path):
    with pytest.raises(ConfigError, match="specdecode keys show"):
        load_signers(tmp_path / "none.yaml")

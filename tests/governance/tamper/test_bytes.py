"""A file changed, added, left out or emptied, MANIFEST.json made to fit or not."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.governance.verifier import pack, text_of, verify
from tests.governance.bundles import repacked
from tests.governance.tamper.attacks import NAMES, compact, flipped, unsigned


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


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("MANIFEST.json", "signature.json")])
def test_the_signature_sees_a_flipped_byte_whatever_file_it_is_in(bundle, checked, name):
    attacked = bundle | {name: flipped(bundle[name], len(bundle[name]) // 2)}

    code, wrong, _ = checked(repacked(attacked))

    assert code in (3, 12)
    assert "signature" in wrong
    assert "files" not in wrong


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


def test_files_cannot_be_put_into_another_order(bundle, checked):
    """The archive says the same, file by file, and is not the one that was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(bundle, reverse=True):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, bundle[name])

    code, wrong, text = checked(out.getvalue())

    assert (code, wrong) == (3, {"archive"})
    assert "do not come from its files" in text


def test_a_compressed_file_is_seen_and_named(bundle, checked):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(bundle):
            kind = zipfile.ZIP_DEFLATED if name == "rows.jsonl" else zipfile.ZIP_STORED
            archive.writestr(name, bundle[name], compress_type=kind)

    code, _, text = checked(out.getvalue())

    assert code == 3
    assert "rows.jsonl is compressed" in text

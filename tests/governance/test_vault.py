"""What a vault keeps secret, what it tells, and that no byte of it can be changed unseen."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance import vault as vault_module
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.merkle import merkle_root
from specdecode.governance.vault import MANIFEST_NAME, VAULT_NAME, _unlock, lock, read_vault
from specdecode.governance.vault_key import (
    key_encryption_key,
    new_share,
    read_share,
    share_id,
)
from specdecode.governance.vault_page import DEMONSTRATION, Compared, Room
from tests.governance.confirmations import prompts

SHARE, OTHER_SHARE = b"s" * 32, b"o" * 32
FILES = (MANIFEST_NAME, VAULT_NAME)
COMPARED = Compared(
    files={"public.jsonl": "a" * 64},
    prompts=2,
    largest_overlap=0.0,
    largest_jaccard=0.25,
    overlap_limit=0.0,
    jaccard_limit=0.6,
)
ROOM = Room(context_tokens=64, reply_tokens=8, longest_prompt_tokens=12, tokenizer_sha256="b" * 64)


@pytest.fixture
def folder(tmp_path):
    lock(prompts(3), tmp_path / "vault", [SHARE])
    return tmp_path / "vault"


def unlocked(folder, *shares):
    return _unlock(read_vault(folder), shares or [SHARE])


def rewrite(folder, name, change):
    """Change a file's document and write it as the program would."""
    document = json.loads((folder / name).read_bytes())
    change(document)
    (folder / name).write_bytes(canonical_bytes(document) + b"\n")


def test_it_opens_to_what_was_locked_in_that_order(folder):
    opened = unlocked(folder)

    assert [opened.row(i) for i in range(3)] == prompts(3)


def test_the_files_tell_number_strata_and_root_and_no_text(folder):
    manifest = json.loads((folder / MANIFEST_NAME).read_bytes())

    assert manifest["count"] == 3
    assert manifest["strata"] == {
        "category": {"chat": 2, "translate": 1},
        "difficulty": {"normal": 3},
    }
    assert manifest["merkle_root"] == merkle_root(read_vault(folder).leaves).hex()
    assert manifest["vault_sha256"] == sha256_hex((folder / VAULT_NAME).read_bytes())
    for name in FILES:
        assert b"secret words" not in (folder / name).read_bytes()
        assert b'"p1"' not in (folder / name).read_bytes()  # in quotes no cipher text can look so


def test_the_same_prompts_never_give_the_same_vault_twice(folder, tmp_path):
    again = lock(prompts(3), tmp_path / "again", [SHARE])
    first = read_vault(folder)

    assert again.merkle_root != first.manifest.merkle_root
    assert not set(first.leaves) & set(read_vault(tmp_path / "again").leaves)
    assert not set(first.sealed) & set(read_vault(tmp_path / "again").sealed)


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_anywhere_is_noticed(folder, data):
    """By both files together: without a key, and before anything is opened."""
    name = data.draw(st.sampled_from(FILES))
    content = (folder / name).read_bytes()
    place, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    (folder / name).write_bytes(bytes(changed))
    sealed = json.loads(content)

    try:
        if name == VAULT_NAME:
            with pytest.raises(TamperedError):
                read_vault(folder)
        else:  # what the seal holds of the manifest is its digest
            try:
                manifest = read_vault(folder).manifest
            except TamperedError:
                return
            assert manifest.sha256 != sha256_hex(canonical_bytes(sealed) + b"\n")
    finally:
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("cut", [1, 2, 100])
def test_a_cut_file_is_noticed(folder, name, cut):
    (folder / name).write_bytes((folder / name).read_bytes()[:-cut])

    with pytest.raises(TamperedError, match="restore it"):
        read_vault(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_told_by_name(folder, name):
    (folder / name).unlink()

    with pytest.raises(ConfigError, match=f"{name}: cannot be read.*vault lock"):
        read_vault(folder)


def forge(folder, change):
    """Change rows and give the manifest the digest of the changed file."""
    rewrite(folder, VAULT_NAME, change)
    digest = sha256_hex((folder / VAULT_NAME).read_bytes())
    rewrite(folder, MANIFEST_NAME, lambda document: document.update(vault_sha256=digest))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["rows"].pop(),
        lambda document: document["rows"].reverse(),
        lambda document: document["rows"].append(document["rows"][-1]),
        lambda document: document["rows"][0].update(leaf="0" * 64),
    ],
    ids=["dropped", "reordered", "doubled", "exchanged"],
)
def test_rows_other_than_the_roots_are_noticed_without_a_key(folder, change):
    forge(folder, change)

    with pytest.raises(TamperedError, match="not the rows its Merkle root commits to"):
        read_vault(folder)


def test_ciphertexts_exchanged_below_their_leaves_do_not_decrypt(folder):
    def swap(document):
        first, second = document["rows"][:2]
        first["sealed"], second["sealed"] = second["sealed"], first["sealed"]

    forge(folder, swap)
    opened = unlocked(folder)

    for index in (0, 1):
        with pytest.raises(TamperedError, match=f"prompt {index} of the vault was changed"):
            opened.row(index)
    assert opened.row(2) == prompts(3)[2]


def test_a_row_of_another_vault_does_not_decrypt(folder, tmp_path):
    """Even under the same data key: the associated data name root and count."""
    vault = read_vault(folder)
    opened = unlocked(folder)
    for change in ({"merkle_root": "0" * 64}, {"count": 4}):
        manifest = vault.manifest.model_copy(update=change)
        opened._vault = vault_module.Vault(folder, manifest, vault.leaves, vault.sealed)
        with pytest.raises(TamperedError, match="changed or moved"):
            opened.row(0)


def test_a_decrypted_row_must_be_what_its_leaf_commits_to(folder):
    vault = read_vault(folder)
    opened = unlocked(folder)
    leaves = (vault.leaves[1], *vault.leaves[1:])
    opened._vault = vault_module.Vault(folder, vault.manifest, leaves, vault.sealed)

    with pytest.raises(TamperedError, match="not what its leaf commits to"):
        opened.row(0)


def test_a_stratum_that_does_not_add_up_is_noticed(folder):
    rewrite(folder, MANIFEST_NAME, lambda document: document["strata"]["category"].update(chat=9))

    with pytest.raises(TamperedError, match="does not add up"):
        read_vault(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"custody": "demonstration"},
        {"compared": None},
        {"room": None},
        {"strata": {"category": {"chat": 3}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_fact_of_the_public_page_can_be_exchanged_above_the_rows(tmp_path, change):
    """Whoever seals a changed page seals rows that do not decrypt."""
    lock(prompts(3), tmp_path, [SHARE], compared=COMPARED, room=ROOM)
    assert unlocked(tmp_path).row(0) == prompts(3)[0]
    rewrite(tmp_path, MANIFEST_NAME, lambda document: document.update(change))

    with pytest.raises(TamperedError, match="or its public page was changed"):
        unlocked(tmp_path).row(0)


def test_the_page_says_who_has_the_key_and_what_was_compared(tmp_path):
    lock(prompts(1), tmp_path / "a", [SHARE])
    shown = lock(
        prompts(1), tmp_path / "b", [SHARE], custody=DEMONSTRATION, compared=COMPARED, room=ROOM
    )

    quiet = read_vault(tmp_path / "a").manifest
    assert (quiet.custody, quiet.compared, quiet.room) == ("held", None, None)
    assert read_vault(tmp_path / "b").manifest == shown
    assert (shown.custody, shown.compared, shown.room) == ("demonstration", COMPARED, ROOM)


@pytest.mark.parametrize(
    "change",
    [
        {"custody": "borrowed"},
        {"compared": {}},
        {"room": {"context_tokens": 8}},
        {"schema": "specdecode.confirmation/1"},
    ],
)
def test_a_page_that_says_what_no_page_says_is_noticed(folder, change):
    rewrite(folder, MANIFEST_NAME, lambda document: document.update(change))

    with pytest.raises(TamperedError, match="not as it was written"):
        read_vault(folder)


@pytest.mark.parametrize("field", ["custody", "compared", "room"])
def test_a_page_must_say_it_all(folder, field):
    rewrite(folder, MANIFEST_NAME, lambda document: document.pop(field))

    with pytest.raises(TamperedError, match="not as it was written"):
        read_vault(folder)


def test_another_spelling_of_the_manifest_is_noticed(folder):
    path = folder / MANIFEST_NAME
    path.write_text(json.dumps(json.loads(path.read_bytes())) + "\n")

    with pytest.raises(TamperedError, match="another way"):
        read_vault(folder)


def test_a_wrapped_key_that_was_exchanged_is_noticed(folder, tmp_path):
    lock(prompts(3), tmp_path / "other", [OTHER_SHARE])
    foreign = read_vault(tmp_path / "other").manifest.cipher.wrapped_key
    rewrite(folder, MANIFEST_NAME, lambda d: d["cipher"].update(wrapped_key=foreign))

    with pytest.raises(TamperedError, match="wrapped key was changed"):
        unlocked(folder)


def test_a_wrong_key_is_told_which_is_wanted(folder):
    with pytest.raises(ConfigError, match=f"{share_id(SHARE)} together.*{share_id(OTHER_SHARE)}"):
        unlocked(folder, OTHER_SHARE)


def test_with_two_holders_one_key_does_not_open(tmp_path):
    lock(prompts(2), tmp_path, [SHARE, OTHER_SHARE])

    for alone in (SHARE, OTHER_SHARE):
        with pytest.raises(ConfigError, match="together"):
            unlocked(tmp_path, alone)
    assert unlocked(tmp_path, OTHER_SHARE, SHARE).row(1) == prompts(2)[1]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "no prompt to lock"),
        ([{"turns": ["hello"]}], "prompt 0: needs a text 'question_id'"),
        ([{"question_id": 3}], "prompt 0: needs a text 'question_id'"),
        ([{"question_id": "a"}, {"question_id": "a"}], "prompt 1: question_id 'a' occurs twice"),
        ([{"question_id": "a", "score": float("nan")}], "no JSON number"),
    ],
)
def test_prompts_that_cannot_be_locked_are_refused(tmp_path, given, problem):
    with pytest.raises(ConfigError, match=problem):
        lock(given, tmp_path / "vault", [SHARE])
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize(("shares", "problem"), [([], "no vault key"), ([SHARE] * 2, "twice")])
def test_keys_that_cannot_lock_are_refused(tmp_path, shares, problem):
    with pytest.raises(ConfigError, match=problem):
        lock(prompts(1), tmp_path / "vault", shares)
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_vault_is_never_replaced(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")

    with pytest.raises(ConfigError, match="never replaced"):
        lock(prompts(1), tmp_path, [SHARE])
    assert (tmp_path / name).read_bytes() == b"precious"


def test_a_vault_that_would_not_open_is_told_while_the_plain_text_is_still_there(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(vault_module._Unlocked, "row", lambda _self, index: {"other": index})

    with pytest.raises(ConfigError, match="does not open to what was locked"):
        lock(prompts(2), tmp_path, [SHARE])


class TestShare:
    def test_it_is_made_once_and_for_its_owner_only(self, tmp_path):
        name = new_share(tmp_path / "k")

        assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
        assert name == share_id(read_share(tmp_path / "k"))
        with pytest.raises(ConfigError, match="exists"):
            new_share(tmp_path / "k")
        assert name == share_id(read_share(tmp_path / "k"))
        assert new_share(tmp_path / "other") != name

    def test_one_that_others_may_read_is_refused(self, tmp_path):
        new_share(tmp_path / "k")
        (tmp_path / "k").chmod(0o640)

        with pytest.raises(ConfigError, match=r"others may read this key \(mode 640\)"):
            read_share(tmp_path / "k")

    def test_one_that_others_may_read_is_taken_where_the_vault_says_that_it_is_public(
        self, tmp_path
    ):
        name = new_share(tmp_path / "k")
        (tmp_path / "k").chmod(0o644)

        assert share_id(read_share(tmp_path / "k", public=True)) == name

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "32 bytes, not 0"),
            (b"c2hvcnQ=\n", "32 bytes, not 5"),
            (b"\xff", "not a vault key"),
        ],
    )
    def test_what_is_no_key_is_refused(self, tmp_path, content, problem):
        (tmp_path / "k").write_bytes(content)
        (tmp_path / "k").chmod(0o600)

        with pytest.raises(ConfigError, match=problem):
            read_share(tmp_path / "k")

    def test_one_that_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_share(tmp_path / "k")

    def test_the_wrapping_key_takes_all_shares_in_any_order(self):
        both = key_encryption_key([SHARE, OTHER_SHARE])

        assert both == key_encryption_key([OTHER_SHARE, SHARE])
        assert len({both, key_encryption_key([SHARE]), key_encryption_key([OTHER_SHARE])}) == 3

    def test_the_wrapping_key_is_hkdf_by_hand(self):
        """RFC 5869 with an empty salt, one block."""
        import hmac

        extracted = hmac.digest(bytes(32), SHARE, "sha256")
        info = b"specdecode.vault/1 key encryption"
        assert key_encryption_key([SHARE]) == hmac.digest(extracted, info + b"\x01", "sha256")

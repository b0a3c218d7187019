"""The vault: confirmation prompts that exist only encrypted, and a public page about them.

    confirmation.json   public (`vault_page`): Merkle root, number, strata, custody, cipher; the
                        seal names its digest
    confirmation.enc    every prompt by itself under AES-256-GCM, beside its salted Merkle leaf

Each vault has a data key of its own, drawn at random and wrapped (AES-KW, RFC 3394) by the holders'
keys. It encrypts row i once, under nonce i, so no nonce repeats; the associated data name the
facts of the public page and i, so no row can be moved into another vault or place, or under another
page. docs/confirmation.md says what this protects and what it does not.

Nothing here decrypts for a caller: `_unlock` belongs to `specdecode.governance.opening`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import (
    InvalidUnwrap,
    aes_key_unwrap,
    aes_key_wrap,
)
from pydantic import BaseModel, Field, ValidationError

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex
from specdecode.governance.durable import create_file
from specdecode.governance.merkle import leaf_hash, merkle_root, new_salt
from specdecode.governance.signing import decode_base64, encode_base64
from specdecode.governance.strict import Sha256, Strict
from specdecode.governance.vault_key import key_encryption_key, share_id
from specdecode.governance.vault_page import (
    HELD,
    SCHEMA,
    Base64,
    Cipher,
    Compared,
    Confirmation,
    Custody,
    Room,
    count_strata,
    facts_sha256,
)

MANIFEST_NAME, VAULT_NAME = "confirmation.json", "confirmation.enc"
ID_FIELD = "question_id"

Model = TypeVar("Model", bound=BaseModel)


class _SealedRow(Strict):
    leaf: Sha256
    sealed: Base64


class _VaultFile(Strict):
    schema_name: Literal["specdecode.vault/1"] = Field(alias="schema")
    rows: list[_SealedRow]


@dataclass(frozen=True)
class Vault:
    """A vault whose two files belong together. Everything in it is public."""

    folder: Path
    manifest: Confirmation
    leaves: tuple[bytes, ...]
    sealed: tuple[bytes, ...]


def lock(
    prompts: Sequence[Mapping[str, Any]],
    folder: Path | str,
    shares: Sequence[bytes],
    *,
    custody: Custody = HELD,
    compared: Compared | None = None,
    room: Room | None = None,
) -> Confirmation:
    """Encrypt prompts into a new vault.

    Args:
        prompts: JSON objects in the order in which they will be measured, each with a unique
            `question_id`; their `category`, `difficulty` and `language` are counted in public.
        folder: where the two files go; made when missing.
        shares: the holders' keys (`vault_key.read_share`); all will be needed to open it.
        custody: whether these keys are held back, or public in a set to try the procedure with.
        compared: with which public prompts these were compared, if they were.
        room: that they fit a target, if that was checked.

    Returns:
        The public manifest. That the vault opens to these prompts was checked; whoever locks may
        then delete the plain text, also from the history it is kept in.

    Raises:
        ConfigError: no prompt, one without an id or with another's, one that is not JSON, keys
            missing or alike, or a vault is there already.
        OSError: the folder cannot be written.
    """
    folder = Path(folder)
    rows = [canonical_bytes(dict(prompt)) for prompt in prompts]
    _refuse_ids(prompts)
    kek, data_key = key_encryption_key(shares), secrets.token_bytes(32)
    salts = [new_salt() for _ in rows]
    leaves = [leaf_hash(salt, row) for salt, row in zip(salts, rows, strict=True)]
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "merkle_root": merkle_root(leaves).hex(),
        "count": len(rows),
        "strata": count_strata(prompts),
        "custody": custody,
        "compared": compared and compared.model_dump(mode="json"),
        "room": room and room.model_dump(mode="json"),
    }
    about, cipher = facts_sha256(facts), AESGCM(data_key)
    sealed = [
        cipher.encrypt(_nonce(i), salt + row, _associated(about, i))
        for i, (salt, row) in enumerate(zip(salts, rows, strict=True))
    ]
    encrypted = _encrypted_file(leaves, sealed)
    manifest = Confirmation(
        **facts,
        cipher=Cipher(
            rows="AES-256-GCM",
            key_wrap="AES-KW",
            key_derivation="HKDF-SHA256",
            wrapped_key=encode_base64(aes_key_wrap(kek, data_key)),
            key_ids=sorted(share_id(share) for share in shares),
        ),
        vault_sha256=sha256_hex(encrypted),
    )
    _write(folder, encrypted, manifest)
    unlocked = _unlock(read_vault(folder), shares)
    if [canonical_bytes(unlocked.row(i)) for i in range(len(rows))] != rows:
        raise ConfigError(f"{folder}: the vault does not open to what was locked; lock it again")
    return manifest


def read_vault(folder: Path | str) -> Vault:
    """The two files of a vault, checked against each other; needs no key.

    Raises:
        ConfigError: a file is missing.
        TamperedError: one was changed: digest, number, strata, leaves and root must all fit.
    """
    folder = Path(folder)
    raw, encrypted = (_read(folder / name) for name in (MANIFEST_NAME, VAULT_NAME))
    manifest = _parse(Confirmation, raw, folder / MANIFEST_NAME)
    if manifest.to_bytes() != raw:
        raise TamperedError(f"{folder / MANIFEST_NAME}: not as it was written; restore it")
    if sha256_hex(encrypted) != manifest.vault_sha256:
        raise TamperedError(f"{folder / VAULT_NAME}: not the file its manifest names; restore it")
    rows = _parse(_VaultFile, encrypted, folder / VAULT_NAME).rows
    leaves = tuple(bytes.fromhex(row.leaf) for row in rows)
    if len(rows) != manifest.count or merkle_root(leaves).hex() != manifest.merkle_root:
        raise TamperedError(f"{folder / VAULT_NAME}: not the rows its Merkle root commits to")
    if any(sum(counts.values()) != manifest.count for counts in manifest.strata.values()):
        raise TamperedError(f"{folder / MANIFEST_NAME}: a stratum does not add up to the count")
    return Vault(folder, manifest, leaves, tuple(decode_base64(row.sealed) for row in rows))


class _Unlocked:
    """A vault and its data key. Rows are decrypted one at a time, when they are asked for."""

    def __init__(self, vault: Vault, data_key: bytes) -> None:
        self._vault, self._cipher = vault, AESGCM(data_key)

    def row(self, index: int) -> dict[str, Any]:
        """The prompt in that place.

        Raises:
            TamperedError: it does not decrypt, or not to what the Merkle leaf commits to.
        """
        vault = self._vault
        associated = _associated(vault.manifest.facts_sha256, index)
        try:
            plain = self._cipher.decrypt(_nonce(index), vault.sealed[index], associated)
        except InvalidTag as error:
            raise TamperedError(
                f"prompt {index} of the vault was changed or moved, or its public page was changed"
            ) from error
        salt, row = plain[:32], plain[32:]
        if leaf_hash(salt, row) != vault.leaves[index]:
            raise TamperedError(f"prompt {index} of the vault is not what its leaf commits to")
        prompt: dict[str, Any] = parse_canonical(row)
        return prompt


def _unlock(vault: Vault, shares: Sequence[bytes]) -> _Unlocked:
    """Unwrap the data key.

    Raises:
        ConfigError: a key is missing or not of this vault; says which ids it wants.
        TamperedError: the right keys do not unwrap the data key.
    """
    kek, cipher = key_encryption_key(shares), vault.manifest.cipher
    given = sorted(share_id(share) for share in shares)
    if given != cipher.key_ids:
        raise ConfigError(
            f"the vault opens with the keys {', '.join(cipher.key_ids)} together; given were "
            f"{', '.join(given)}"
        )
    try:
        return _Unlocked(vault, aes_key_unwrap(kek, decode_base64(cipher.wrapped_key)))
    except (InvalidUnwrap, ValueError) as error:
        raise TamperedError("the vault's wrapped key was changed: its keys do not fit") from error


def _nonce(index: int) -> bytes:
    return index.to_bytes(12, "big")


def _associated(about: str, index: int) -> bytes:
    return canonical_bytes({"facts_sha256": about, "index": index})


def _encrypted_file(leaves: Sequence[bytes], sealed: Sequence[bytes]) -> bytes:
    rows = [
        {"leaf": leaf.hex(), "sealed": encode_base64(data)}
        for leaf, data in zip(leaves, sealed, strict=True)
    ]
    return canonical_bytes({"schema": "specdecode.vault/1", "rows": rows}) + b"\n"


def _refuse_ids(prompts: Sequence[Mapping[str, Any]]) -> None:
    if not prompts:
        raise ConfigError("there is no prompt to lock")
    seen: set[str] = set()
    for number, prompt in enumerate(prompts):
        name = prompt.get(ID_FIELD)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"prompt {number}: needs a text '{ID_FIELD}' to be known by")
        if name in seen:
            raise ConfigError(f"prompt {number}: {ID_FIELD} {name!r} occurs twice")
        seen.add(name)


def _write(folder: Path, encrypted: bytes, manifest: Confirmation) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror or error})") from error
    there = [name for name in (VAULT_NAME, MANIFEST_NAME) if (folder / name).exists()]
    if there:
        raise ConfigError(
            f"{folder / there[0]}: exists, and a vault is never replaced; choose another folder"
        )
    create_file(folder / VAULT_NAME, encrypted)
    create_file(folder / MANIFEST_NAME, manifest.to_bytes())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror or error}); `specdecode vault lock` makes a "
            "vault"
        ) from error


def _parse(model: type[Model], raw: bytes, path: Path) -> Model:
    try:
        return model.model_validate(parse_canonical(raw.removesuffix(b"\n")))
    except (ConfigError, ValidationError) as error:
        reason = str(error).replace("\n", " ")
        raise TamperedError(f"{path}: not as it was written ({reason}); restore it") from error

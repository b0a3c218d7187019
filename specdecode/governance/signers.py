"""Whose signatures count: the signers file, plans/signers.yaml.

    - name: Ada
      role: owner
      public_key: 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
      valid_until: 2027-12-31T00:00:00Z

One person may have several keys, under one name; one key belongs to one person and one role.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from specdecode.errors import ConfigError
from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.signing import decode_base64, key_id
from specdecode.governance.strict import Strict, Text
from specdecode.governance.timestamps import UtcText, parse_utc
from specdecode.governance.verifier.verify import UncheckedError, signers_in
from specdecode.governance.yaml_file import problems, read_yaml

KEY_BYTES = 32


def _public_key(text: str) -> str:
    if len(decode_base64(text)) != KEY_BYTES:
        raise ValueError("an Ed25519 public key has 32 bytes; `specdecode keys show` prints it")
    return text


def _name(text: str) -> str:
    if text != text.strip():
        raise ValueError("spaces around a name would make two names of one person")
    return text


Name = Annotated[Text, AfterValidator(_name)]


class Signer(Strict):
    """One key, whose it is and what for."""

    name: Name = Field(description="the person; the same for all of their keys")
    role: Name = Field(description="what they sign as, such as owner or reviewer")
    public_key: Annotated[str, AfterValidator(_public_key)] = Field(
        description="32 raw bytes of an Ed25519 public key, base64"
    )
    valid_from: UtcText | None = Field(None, description="signs from then on; null: always did")
    valid_until: UtcText | None = Field(None, description="signs before then; null: no end")

    @model_validator(mode="after")
    def _some_time(self) -> Self:
        ends = [parse_utc(end) for end in (self.valid_from, self.valid_until) if end]
        if len(ends) == 2 and ends[0] >= ends[1]:
            raise ValueError("valid_until is not after valid_from: the key never signs")
        return self

    @property
    def key_id(self) -> str:
        """As in the envelopes this key signs."""
        return key_id(self.raw_key)

    @property
    def raw_key(self) -> bytes:
        """The public key, 32 bytes."""
        return decode_base64(self.public_key)

    def valid_at(self, at: datetime) -> bool:
        """Whether the key may sign at that time."""
        begun = self.valid_from is None or parse_utc(self.valid_from) <= at
        return begun and (self.valid_until is None or at < parse_utc(self.valid_until))


class Signers:
    """The keys whose signatures count.

    Raises:
        ConfigError: one key twice, which would make one person two.
    """

    def __init__(self, signers: list[Signer]) -> None:
        self._by_id = {signer.key_id: signer for signer in signers}
        if len(self._by_id) != len(signers):
            raise ConfigError("signers: the same public key occurs twice; keep one entry of it")

    def __iter__(self) -> Iterator[Signer]:
        return iter(self._by_id.values())

    def get(self, identifier: str) -> Signer | None:
        """The signer with that key id, or None."""
        return self._by_id.get(identifier)

    @property
    def sha256(self) -> str:
        """Digest of the entries; layout, comments and order of the file do not enter."""
        entries = [signer.model_dump(mode="json") for signer in self]
        return sha256_hex(canonical_bytes(sorted(entries, key=lambda entry: entry["public_key"])))


def load_signers(path: Path | str) -> Signers:
    """Read a signers file: YAML, one `field: value` a line.

    YAML can say the same in other ways, which the verifier of bundles does not read; they are
    refused here, before anything is signed by such a file.

    Raises:
        ConfigError: no such file, not a list of signers, a field that is missing, unknown or
            wrong, one key twice, or not written plainly.
    """
    path = Path(path)
    document = read_yaml(path, "signers file; `specdecode keys show` prints an entry for one")
    signers = parse_signers(document, path)
    try:
        plain = signers_in(path.read_text("utf-8"))
    except UncheckedError as error:
        raise ConfigError(f"{path}: {error}; write one `field: value` a line, no more") from error
    if plain != [signer.model_dump(mode="json") for signer in signers]:
        raise ConfigError(f"{path}: the verifier would read it differently; write it plainly")
    return signers


def parse_signers(document: object, where: Path | str = "signers") -> Signers:
    """Signers from an already parsed document; errors as `load_signers`."""
    if not isinstance(document, list) or not document:
        raise ConfigError(f"{where}: expected a list of at least one signer (name, role, …)")
    try:
        return Signers([Signer.model_validate(entry) for entry in document])
    except ValidationError as error:
        raise ConfigError(f"{where}: not a valid signers file\n{problems(error)}") from error

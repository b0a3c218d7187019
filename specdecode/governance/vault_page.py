"""The public page of a vault, confirmation.json: everything that may be known of locked prompts.

It also says how far to trust that they are held out: who has the keys, and with which public
prompts they were compared before they were locked. Whoever changes such a line changes what the
rows are encrypted under (`Confirmation.facts_sha256`), and they no longer decrypt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.signing import decode_base64
from specdecode.governance.strict import Sha256, Share, Strict, Text
from specdecode.measurement.records import STRATA

SCHEMA: Literal["specdecode.confirmation/2"] = "specdecode.confirmation/2"

Custody = Literal["held", "demonstration"]
HELD: Custody = "held"
DEMONSTRATION: Custody = "demonstration"
CUSTODY: Mapping[Custody, str] = {
    HELD: "held: its keys are with their holders, and without all of them nobody can read it",
    DEMONSTRATION: (
        "demonstration: its key is public, so the set is held out by agreement only. Anyone can "
        "read it with a program of their own; an opening by this program is on record, and "
        "nothing prevents another. Lock a set of your own to decide by (docs/confirmation.md)"
    ),
}
"""What each custody means, for people."""

Count = Annotated[int, Field(ge=1)]


def _base64(text: str) -> str:
    decode_base64(text)
    return text


Base64 = Annotated[str, AfterValidator(_base64)]


class Cipher(Strict):
    """How the rows are encrypted, and which keys open them."""

    rows: Literal["AES-256-GCM"] = Field(description="one message a row; nonce: its index, 96 bit")
    key_wrap: Literal["AES-KW"] = Field(description="RFC 3394, over the data key")
    key_derivation: Literal["HKDF-SHA256"] = Field(description="wrapping key of all shares")
    wrapped_key: Base64 = Field(description="the wrapped data key, base64")
    key_ids: list[str] = Field(min_length=1, description="one for each holder's key, sorted")


class Compared(Strict):
    """The public prompts that were searched for the locked ones, and the most that was found."""

    files: dict[Text, Sha256] = Field(min_length=1, description="SHA-256 of each prompt file")
    prompts: Count = Field(description="prompts in them")
    largest_overlap: Share = Field(description="of a pair's word 13-grams, the largest share")
    largest_jaccard: Share = Field(description="of a pair's character shingles, the largest")
    overlap_limit: Share = Field(description="a larger share would have been refused")
    jaccard_limit: Share = Field(description="this index or more would have been refused")


class Room(Strict):
    """That every prompt and its reply fit a target's context."""

    context_tokens: Count
    reply_tokens: Count = Field(description="room that every prompt leaves for its reply")
    longest_prompt_tokens: Count = Field(description="chat template included")
    tokenizer_sha256: Sha256 = Field(description="over the tokenizer's files, as in a manifest")


class Confirmation(Strict):
    """What everyone may know about the confirmation prompts; no text of theirs."""

    schema_name: Literal["specdecode.confirmation/2"] = Field(alias="schema")
    merkle_root: Sha256 = Field(description="over the salted rows, in the order of measurement")
    count: Count = Field(description="number of prompts")
    strata: dict[str, dict[str, int]] = Field(description="prompts by value of each stratum")
    custody: Custody = Field(description="whether the keys are held back or public")
    compared: Compared | None = Field(description="null: nothing public was compared with")
    room: Room | None = Field(description="null: lengths were not checked")
    cipher: Cipher
    vault_sha256: Sha256 = Field(description="SHA-256 of confirmation.enc")

    def to_bytes(self) -> bytes:
        """The file: canonical JSON and a newline."""
        return canonical_bytes(self.model_dump(mode="json", by_alias=True)) + b"\n"

    @property
    def sha256(self) -> str:
        """Digest of the file, which a seal names."""
        return sha256_hex(self.to_bytes())

    @property
    def facts_sha256(self) -> str:
        """Digest of what the page says of the prompts, under which every row is encrypted."""
        return facts_sha256(
            self.model_dump(mode="json", by_alias=True, exclude={"cipher", "vault_sha256"})
        )


def facts_sha256(facts: Mapping[str, Any]) -> str:
    """Digest of a page without its cipher and its vault's digest."""
    return sha256_hex(canonical_bytes(facts))


def count_strata(prompts: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Prompts by value; a stratum no prompt has is left out, a missing value reads "none"."""
    return {
        name: dict(Counter(str(prompt.get(name, "none")) for prompt in prompts))
        for name in STRATA
        if any(name in prompt for prompt in prompts)
    }

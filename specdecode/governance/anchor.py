"""Who else knows the ledger's head? Evidence always names which anchor was used.

none      nobody: order is shown, but not that the ledger was never cut or written anew
git-tag   an annotated, on request signed, tag that holds the head; it proves something to others
          once it is pushed where its author cannot change it
rfc3161   a timestamp token made elsewhere: the head existed before the token's time
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field, ValidationError

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import sha256_hex
from specdecode.governance.git import git
from specdecode.governance.signing import decode_base64, encode_base64
from specdecode.governance.statements import AnchorName
from specdecode.governance.strict import Sha256, Strict
from specdecode.governance.timestamp_token import read_token
from specdecode.governance.timestamps import utc_text

TAG_PREFIX = "specdecode/ledger/"


class AnchorEvidence(Strict):
    """What an anchor has to show for one head."""

    name: AnchorName = Field(description="which anchor was used")
    head: Sha256 = Field(description="the ledger's head it vouches for")
    proof: dict[str, Any] | None = Field(description="what can be checked; null: nothing (yet)")


class Anchor(Protocol):
    """Somewhere outside the ledger that remembers its head."""

    @property
    def name(self) -> AnchorName:
        """As evidence names it."""

    def ready(self) -> None:
        """Refuse now rather than after something was written.

        Raises:
            ConfigError: it cannot be used here.
        """

    def attest(self, head: str) -> AnchorEvidence:
        """Make the anchor remember `head`. Doing so again gives the same evidence."""

    def verify(self, evidence: AnchorEvidence) -> None:
        """Check evidence of this anchor.

        Raises:
            TamperedError: it does not show what it claims.
            ConfigError: it shows nothing yet, or cannot be checked here.
        """


class NoAnchor:
    """Nobody remembers the head."""

    name: AnchorName = "none"

    def ready(self) -> None:
        """Always."""

    def attest(self, head: str) -> AnchorEvidence:
        """Evidence of nothing, which says so."""
        return AnchorEvidence(name="none", head=head, proof=None)

    def verify(self, evidence: AnchorEvidence) -> None:
        """Only that the evidence does not pretend to more."""
        _refuse_other(evidence, self.name)
        if evidence.proof is not None:
            raise TamperedError("anchor 'none' has no proof, and this evidence shows one")


class GitTag:
    """An annotated tag on the present commit, with the head as its message.

    Args:
        root: the repository.
        sign: `git tag -s`: git must be set up to sign.
    """

    name: AnchorName = "git-tag"

    def __init__(self, root: Path | str, *, sign: bool = False) -> None:
        self._root, self._sign = Path(root), sign

    def ready(self) -> None:
        """There is a commit that a tag can point to, and git knows who makes it."""
        try:
            git(self._root, "rev-parse", "--verify", "HEAD^{commit}")
            git(self._root, "var", "GIT_COMMITTER_IDENT")
        except ConfigError as error:
            raise ConfigError(
                f"anchor git-tag needs a commit and git's user.name and user.email: {error}"
            ) from error

    def attest(self, head: str) -> AnchorEvidence:
        """Make the tag, unless it is there."""
        tag = TAG_PREFIX + head[:16]
        if not git(self._root, "tag", "--list", tag):
            kind = "-s" if self._sign else "-a"
            git(self._root, "tag", kind, tag, "--cleanup=verbatim", "-m", _message(head))
        found = git(self._root, "rev-parse", f"refs/tags/{tag}").decode("ascii").strip()
        content = git(self._root, "cat-file", "tag", found)
        evidence = AnchorEvidence(
            name=self.name,
            head=head,
            proof={"tag": tag, "object": found, "content": encode_base64(content)},
        )
        self.verify(evidence)
        return evidence

    def verify(self, evidence: AnchorEvidence) -> None:
        """The repository has that very tag object, and it holds the head.

        Whether a signature in it is good is `git tag -v`'s answer, which knows whose keys count.
        """
        _refuse_other(evidence, self.name)
        try:
            proof = _TagProof.model_validate(evidence.proof)
            content = decode_base64(proof.content)
        except (ValidationError, ConfigError) as error:
            raise TamperedError("the proof of the git tag cannot be read") from error
        present = git(self._root, "rev-parse", f"refs/tags/{proof.tag}").decode("ascii").strip()
        if present != proof.object_ or git(self._root, "cat-file", "tag", present) != content:
            raise TamperedError(f"tag {proof.tag} is another one now")
        if f"\n\n{_message(evidence.head)}".encode() not in content:
            raise TamperedError(f"tag {proof.tag} does not hold the head {evidence.head}")


class _TagProof(Strict):
    tag: str
    object_: str = Field(alias="object")
    content: str


class TimestampToken:
    """A token of a timestamping authority (RFC 3161), asked for and fetched by someone else.

        openssl ts -query -digest HEAD -sha256 -cert -out head.tsq     # send to the authority
        openssl ts -verify -digest HEAD -in head.tsr -CAfile ca.pem    # checks its signature

    Here it is checked that the token is about the head, and its time is read. The authority's
    signature is NOT checked here: that needs its certificates, and is the second command's task.

    Args:
        path: the token or the response that holds it; None or a missing file gives evidence
            without a proof, because a head can only be stamped after it exists.
    """

    name: AnchorName = "rfc3161"

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = None if path is None else Path(path)

    def ready(self) -> None:
        """Always: the token comes later."""

    def attest(self, head: str) -> AnchorEvidence:
        """The token's evidence, or the lack of it."""
        if self._path is None or not self._path.exists():
            return AnchorEvidence(name=self.name, head=head, proof=None)
        try:
            data = self._path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read ({error.strerror})") from error
        token = read_token(data)
        proof = {
            "token": encode_base64(data),
            "sha256": sha256_hex(data),
            "at": utc_text(token.at),
            "signature": "not checked",
        }
        evidence = AnchorEvidence(name=self.name, head=head, proof=proof)
        self.verify(evidence)
        return evidence

    def verify(self, evidence: AnchorEvidence) -> None:
        """The token's message imprint is the head, and the rest of the proof follows from it."""
        _refuse_other(evidence, self.name)
        if evidence.proof is None:
            raise ConfigError(
                f"there is no timestamp token yet: `openssl ts -query -digest {evidence.head} "
                "-sha256 -cert` makes the request for one"
            )
        try:
            proof = _TokenProof.model_validate(evidence.proof)
            data = decode_base64(proof.token)
            token = read_token(data)
        except (ValidationError, ConfigError) as error:
            raise TamperedError(f"the timestamp token cannot be read: {error}") from error
        if token.imprint != bytes.fromhex(evidence.head):
            raise TamperedError(f"the timestamp token is not about the head {evidence.head}")
        if proof.sha256 != sha256_hex(data) or proof.at != utc_text(token.at):
            raise TamperedError("the timestamp's proof says something else than its token")


class _TokenProof(Strict):
    token: str
    sha256: Sha256
    at: str
    signature: str


def anchor_named(
    name: str, root: Path | str = os.curdir, token: Path | str | None = None
) -> Anchor:
    """The anchor of that name.

    Raises:
        ConfigError: there is none.
    """
    if name == "none":
        return NoAnchor()
    if name == "git-tag":
        return GitTag(root)
    if name == "rfc3161":
        return TimestampToken(token)
    raise ConfigError(f"no anchor is called {name!r}; there are none, git-tag and rfc3161")


def _message(head: str) -> str:
    return f"specdecode ledger head {head}\n"


def _refuse_other(evidence: AnchorEvidence, name: str) -> None:
    if evidence.name != name:
        raise TamperedError(f"evidence of anchor {evidence.name} was given to anchor {name}")

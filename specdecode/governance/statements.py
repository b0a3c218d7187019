"""What is signed: in-toto statements (v1) about a plan or a verdict.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md; the four kinds of predicate
are this project's own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.canonical import canonical_bytes, parse_canonical
from specdecode.governance.dsse import Envelope
from specdecode.governance.strict import Sha256, Share, Strict, Text
from specdecode.governance.timestamps import UtcText, parse_utc
from specdecode.governance.yaml_file import problems

STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PLAN_SUBJECT, VERDICT_SUBJECT = "plan", "verdict"

AnchorName = Literal["none", "git-tag", "rfc3161"]
DataSeen = Literal["none", "dev", "partial", "full"]
Decision = Literal["approve", "reject", "override"]


class Predicate(Strict):
    """What a statement says; each kind has a URI and names one subject by its digest too."""

    uri: ClassVar[str]

    @abstractmethod
    def named(self) -> Mapping[str, str]:
        """Digests that must be those of the subjects of the same name."""


class PlanSeal(Predicate):
    """A plan is fixed before its confirmation data were seen."""

    uri: ClassVar[str] = "https://specdecode.dev/plan-seal/v1"

    plan_sha256: Sha256 = Field(description="`plan_sha256` of the plan")
    plan_name: Text = Field(description="its name")
    at: UtcText = Field(description="when it was sealed")
    tree_clean: Literal[True] = Field(description="all code was committed")
    confirmation_opened: Literal[False] = Field(description="nobody had opened the confirmation")
    power: Share | None = Field(description="chance of GO under the plan's effects; null: unknown")
    power_wanted: Share | None = Field(description="what the plan asks for; null: nothing")
    power_basis: Text | None = Field(None, description="how the power is known; null: it is not")
    anchor: AnchorName = Field(description="what vouches for the ledger's head from then on")

    def named(self) -> Mapping[str, str]:
        """The plan."""
        return {PLAN_SUBJECT: self.plan_sha256}


class Deviation(Predicate):
    """Something was done, or will be, in another way than the plan says."""

    uri: ClassVar[str] = "https://specdecode.dev/deviation/v1"

    plan_sha256: Sha256 = Field(description="the plan that was sealed")
    when: UtcText = Field(description="when it was decided")
    stage: Text = Field(description="stage of the plan it concerns")
    what: Text = Field(description="what is done instead")
    why: Text = Field(description="the reason")
    data_seen: DataSeen = Field(description="which results the author had seen by then")
    impact: Text = Field(description="what it may do to the conclusion")
    author: Text = Field(description="who decided it")
    contingency: Text | None = Field(
        None, description="name of the plan's contingency it follows; null: it was not foreseen"
    )

    def named(self) -> Mapping[str, str]:
        """The plan."""
        return {PLAN_SUBJECT: self.plan_sha256}


class Approval(Predicate):
    """A person's decision on one verdict."""

    uri: ClassVar[str] = "https://specdecode.dev/approval/v1"

    verdict_sha256: Sha256 = Field(description="SHA-256 of the verdict's bytes")
    decision: Decision = Field(
        description="approve or reject the verdict, or override: go on against it"
    )
    role: Text = Field(description="what the person signs as")
    at: UtcText = Field(description="when it was signed")
    expires: UtcText = Field(description="from when on it no longer counts")
    reason: Text | None = Field(None, description="why; needed for all but an approval")

    def named(self) -> Mapping[str, str]:
        """The verdict."""
        return {VERDICT_SUBJECT: self.verdict_sha256}

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if parse_utc(self.expires) <= parse_utc(self.at):
            raise ValueError("expires: is not after the time of signing")
        if self.decision != "approve" and self.reason is None:
            raise ValueError(f"reason: needed for a decision to {self.decision}")
        return self


class VerdictRecord(Predicate):
    """A verdict was reached under a plan."""

    uri: ClassVar[str] = "https://specdecode.dev/verdict/v1"

    verdict_sha256: Sha256 = Field(description="SHA-256 of the verdict's bytes")
    plan_sha256: Sha256 = Field(description="the plan it was reached under")
    status: Literal["GO", "NO_GO", "INCONCLUSIVE", "INVALID", "OVERRIDDEN"] = Field(
        description="as recorded, after approvals"
    )
    at: UtcText = Field(description="when it was recorded")

    def named(self) -> Mapping[str, str]:
        """The verdict and its plan."""
        return {VERDICT_SUBJECT: self.verdict_sha256, PLAN_SUBJECT: self.plan_sha256}


P = TypeVar("P", bound=Predicate)


class _Digest(Strict):
    sha256: Sha256


class _Subject(Strict):
    name: Text
    digest: _Digest


class _Statement(Strict):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[_Subject], Field(min_length=1)]
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, object]


def make_predicate(kind: type[P], **fields: object) -> P:
    """A predicate from what people entered.

    Raises:
        ConfigError: a field is missing, unknown or not allowed; names each.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(f"not a valid {kind.__name__}\n{problems(error)}") from error


def write_statement(predicate: Predicate, subjects: Mapping[str, str] | None = None) -> bytes:
    """The payload that says `predicate` about `subjects`, in canonical JSON.

    Args:
        predicate: what is said.
        subjects: SHA-256 by name, beside those the predicate names itself.

    Raises:
        ConfigError: a subject is another than the predicate says, or its digest is no SHA-256.
    """
    given, named = dict(subjects or {}), predicate.named()
    if differing := [name for name in named if given.get(name, named[name]) != named[name]]:
        raise ConfigError(f"subject {differing[0]} is not the one that the statement is about")
    about = given | dict(named)
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": n, "digest": {"sha256": about[n]}} for n in sorted(about)],
        "predicateType": predicate.uri,
        "predicate": predicate.model_dump(mode="json"),
    }
    try:
        _Statement.model_validate(document)
    except ValidationError as error:
        raise ConfigError(f"not a statement\n{problems(error)}") from error
    return canonical_bytes(document)


def read_statement(envelope: Envelope, kind: type[P]) -> tuple[P, Mapping[str, str]]:
    """What an envelope says, and about what. Signatures are `verify_envelope`'s matter.

    Returns:
        The predicate, and the SHA-256 of each subject by name.

    Raises:
        TamperedError: the payload is no statement of that kind, names a subject twice, or its
            subjects are others than its predicate says.
    """
    try:
        statement = _Statement.model_validate(parse_canonical(envelope.body))
        if statement.predicate_type != kind.uri:
            raise TamperedError(f"the envelope holds {statement.predicate_type}, not {kind.uri}")
        predicate = kind.model_validate(statement.predicate)
    except ValidationError as error:
        raise TamperedError(f"not a signed {kind.uri}\n{problems(error)}") from error
    except ConfigError as error:
        raise TamperedError(f"not a signed {kind.uri}: {error}") from error
    subjects = {subject.name: subject.digest.sha256 for subject in statement.subject}
    if len(subjects) != len(statement.subject):
        raise TamperedError(f"not a signed {kind.uri}: a subject is named twice")
    if not predicate.named().items() <= subjects.items():
        raise TamperedError(f"not a signed {kind.uri}: it is about another subject than it says")
    return predicate, subjects

"""A live request as a row: what was asked, by which arm, and what came of it.

Which requests become rows is decided here, in one place:

* a reply, or a failure of the arm, is a row;
* a request that the server refuses as wrong (`REFUSALS`) is none, unless the other arm accepted it:
  then the refusal is the arm's failure (see `conclude`);
* a reply that the client left is none: it is no failure, and has no end whose time could be taken.
  Arms whose users leave more often get fewer rows, which the sample ratio of a canary notices;
* a request for several replies, or of several prompts, is none (`unjudged`): its counts are of all
  of them together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from specdecode.errors import ConfigError
from specdecode.measurement.records import STRATA, Record
from specdecode.rollout.sampling import LARGEST, SETTINGS, sampling_of
from specdecode.rollout.state import RolloutState
from specdecode.workload.load.payload import mended

if TYPE_CHECKING:
    from specdecode.rollout.observation import ReplyWatch

OVERLONG: Final = "overlong"
"""Class of a reply of more tokens than were asked for: a failure, which would otherwise contradict
the row's own sampling and make a whole stage INVALID."""

_LONGEST_LABEL: Final = 64


class Recorder(Protocol):
    """What `conclude` needs of a spool."""

    def append(self, record: Record, extra: Mapping[str, Any] | None = None) -> None:
        """See `Spool`."""

    def without_row(
        self, kind: str, request_id: str, why: str, *, retract: Any = (), **details: Any
    ) -> None:
        """See `Spool`."""


def asked_of(
    body: Mapping[str, Any],
    headers: Mapping[str, str],
    *,
    prompt_id: str,
    arm: str,
    state: RolloutState,
    order_index: int,
    started_at: datetime,
    settings: Collection[str] = SETTINGS,
) -> dict[str, Any]:
    """Fields of a record that are known before there is an answer.

    Args:
        body: of the request.
        headers: of the request: strata, and the name of its setting.
        prompt_id: unique to the request; both arms of a shadow have it in common.
        arm: that is asked.
        state: of the router when it took the request.
        order_index: place of the request among all.
        started_at: when it is sent, with time zone.
        settings: names that a header may choose from.

    Raises:
        ConfigError: in mode "off" nothing is under judgement.
    """
    if state.stage is None:
        raise ConfigError("in mode off nothing is under judgement, so there are no rows")
    asked = sampling_of(body, _header(headers, "x-specdecode-sampling"), settings)
    seed = body.get("seed")
    prompt_id = mended(prompt_id)
    return {
        "request_id": f"{prompt_id}/{asked['name']}/{arm}",
        "prompt_id": prompt_id,
        "arm": arm,
        "stage": state.stage,
        "profile": state.step,
        **{name: _label(_header(headers, f"x-specdecode-{name}")) for name in STRATA},
        "sampling": asked,
        "seed": seed if type(seed) is int and -LARGEST <= seed < LARGEST else None,
        "order_index": order_index,
        "started_at": started_at,
        "manifest_sha256": state.manifest_sha256,
    }


def record_of(asked: Mapping[str, Any], watch: ReplyWatch) -> Record:
    """The row of a reply that has ended. A failed one has its reason and no numbers but one.

    Args:
        asked: of `asked_of`.
        watch: of the reply.
    """
    tokens, ids, prompt_ids = watch.output_tokens, watch.token_ids, watch.prompt_token_ids
    limit = asked["sampling"].get("max_tokens")
    error = watch.error
    if error is None and tokens is not None and limit is not None and tokens > limit:
        error = f"{OVERLONG}: {tokens} tokens where {limit} were asked for"
    if error is not None:
        return Record(**asked, prompt_tokens=watch.prompt_tokens, error=error)
    return Record(
        **asked,
        prompt_tokens=watch.prompt_tokens,
        # Where counts and ids disagree, one of them is wrong.
        prompt_token_ids=_if(prompt_ids, watch.prompt_tokens),
        output_tokens=tokens,
        output_token_ids=_if(ids, tokens),
        finish_reason=_reason(watch.finish_reason, tokens, limit),
        ttft_s=watch.ttft_s,
        tpot_s=watch.tpot_s,
        e2e_s=watch.e2e_s,
        **watch.acceptance,
    )


def details_of(watch: ReplyWatch) -> dict[str, Any]:
    """What is kept of a reply beside its row: hashes and lengths, no text."""
    found = {
        "http_status": watch.status,
        "text_sha256": watch.text_sha256,
        "chars": watch.chars,
        "system_fingerprint": watch.system_fingerprint,
    }
    return {name: value for name, value in found.items() if value is not None}


def conclude(
    spool: Recorder,
    asked: Mapping[str, Any],
    watch: ReplyWatch,
    *,
    partner: str | None = None,
    accepted_elsewhere: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Record | None:
    """Record how a request ended: as a row, or as one that gets none.

    Args:
        spool: to write to.
        asked: of `asked_of`.
        watch: of the reply, which has ended.
        partner: `request_id` of the other half of a pair, which does not count without this one.
        accepted_elsewhere: the other arm gave a reply to the same request. Then it is not the
            request that is wrong if this one refused it.
        extra: for the spool, beside the details of the reply.

    Returns:
        The row, or None.
    """
    retract = () if partner is None else (partner,)
    request, arm = str(asked["request_id"]), str(asked["arm"])
    kind = "cancelled" if watch.cancelled else "refused"
    if watch.cancelled or (watch.refused and not accepted_elsewhere):
        spool.without_row(
            kind,
            request,
            watch.error or kind if watch.cancelled else f"HTTP {watch.status}",
            retract=retract,
            arm=arm,
            stage=asked["stage"],
            prompt_tokens=watch.prompt_tokens,
            output_tokens=watch.output_tokens,
            chars=watch.chars,
        )
        return None
    record = record_of(asked, watch)
    spool.append(record, {**details_of(watch), **(extra or {})})
    return record


def unjudged(body: object) -> str | None:
    """Why a request cannot become a row, or None if it can."""
    if not isinstance(body, Mapping):
        return "the body is not a JSON object"
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1):
            return f"{name} asks for several replies"
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) > 1 and type(prompt[0]) is not int:
        return "several prompts in one request"
    if body.get("echo"):
        return "echo makes the prompt part of the reply"
    return None


def _header(headers: Mapping[str, str], name: str) -> str | None:
    found = headers.get(name)
    if found is None:
        found = next((v for key, v in headers.items() if key.lower() == name), None)
    return found


def _label(text: str | None) -> str | None:
    """A label of a client's, if it is short and can be shown."""
    plain = "" if text is None else text.strip()
    return plain if 0 < len(plain) <= _LONGEST_LABEL and plain.isprintable() else None


def _if(ids: list[int] | None, tokens: int | None) -> list[int] | None:
    return ids if ids is not None and len(ids) == tokens else None


def _reason(reason: str | None, tokens: int | None, limit: int | None) -> str | None:
    """A reply that was cut before the length asked for was cut by the context."""
    if reason == "length" and limit is not None and tokens is not None and tokens < limit:
        return "context"
    return reason

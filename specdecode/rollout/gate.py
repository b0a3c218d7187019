"""`/gate` and `/gate/rollback`: the latest verdict, as Argo Rollouts and Flagger ask for it.

They are no opposites. Anything but GO is a no to going on, and only harm that was found is a yes to
going back: what is not known yet is neither.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from specdecode.rollout.state import RolloutState

GO: Final = "GO"
HOLD: Final = "INCONCLUSIVE"
HARM: Final = ("NO_GO", "INVALID")
_MOST_BYTES: Final = 32 * 2**20

Document = dict[str, Any]


def gate(path: Path | None, state: RolloutState, asked: str | None = None) -> tuple[bool, Document]:
    """(whether to go on, what to tell).

    Args:
        path: file of the latest verdict; None where none was configured.
        state: the router's; a verdict on something else than it has is none.
        asked: manifest_sha256 that whoever asks cares about; None where they did not say.
    """
    verdict, why = _latest(path)
    if verdict is None:
        return _hold(why)
    if found := _of_something_else(verdict, state) or _not_as_asked(verdict, asked):
        return _hold(found, verdict)
    return verdict["status"] == GO, verdict


def rollback(
    path: Path | None, state: RolloutState, asked: str | None = None
) -> tuple[bool, Document]:
    """(whether to go back, what to tell): whether harm was found on the manifest the router has.

    Harm counts in whichever stage it was found, and after the router was turned off as well: by
    then users are safe, and whoever asks has pods to take back.

    Args:
        path: file of the latest verdict; None where none was configured.
        state: the router's; a verdict that names no manifest, or another one, takes nothing back.
        asked: manifest_sha256 that whoever asks cares about; None where they did not say.
    """
    verdict, why = _latest(path)
    if verdict is None:
        return _hold(why)
    if state.manifest_sha256 is None:
        return _hold("the router has no manifest: there is nothing to take back", verdict)
    if found := _on_another_manifest(verdict, state) or _not_as_asked(verdict, asked):
        return _hold(found, verdict)
    return verdict["status"] in HARM, verdict


def _latest(path: Path | None) -> tuple[Document | None, str]:
    """(the verdict, "") or (None, why there is none)."""
    if path is None:
        return None, "the router was started without --verdict: it knows of no verdict"
    try:
        return _read(path), ""
    except FileNotFoundError:
        return None, f"there is no verdict yet: {path.name} is not there"
    except (OSError, ValueError) as error:
        return None, f"the verdict {path.name} cannot be read: {error}"


def _read(path: Path) -> Document:
    with path.open("rb") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    try:
        verdict = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(verdict, dict) or not isinstance(verdict.get("status"), str):
        raise ValueError("it is no JSON object with a status")  # noqa: TRY004 - of JSON
    return verdict


def _of_something_else(verdict: Document, state: RolloutState) -> str | None:
    if verdict.get("manifest_sha256") is None and verdict["status"] != GO:
        return None  # rows that could not be read are of no manifest, and a no is a no
    return _on_another_manifest(verdict, state) or _of_another_place(verdict, state)


def _on_another_manifest(verdict: Document, state: RolloutState) -> str | None:
    judged = verdict.get("manifest_sha256")
    if state.manifest_sha256 is None or judged == state.manifest_sha256:
        return None
    return (
        f"the verdict is on manifest {_short(judged)}, and the router has "
        f"{_short(state.manifest_sha256)}"
    )


def _of_another_place(verdict: Document, state: RolloutState) -> str | None:
    if state.stage is None:
        return None
    stage, step = verdict.get("stage"), _step(verdict.get("step"))
    if stage is not None and stage != state.stage:
        return f"the verdict is on stage {stage}, and the router is in {state.stage}"
    if step is not None and step != state.step:
        here = state.stage if state.step is None else f"step {state.step}"
        return f"the verdict is on step {step}, and the router is in {here}"
    return None


def _not_as_asked(verdict: Document, asked: str | None) -> str | None:
    judged = verdict.get("manifest_sha256")
    if asked is None or judged == asked:
        return None
    return f"the verdict is on manifest {_short(judged)}, and asked was about {_short(asked)}"


def _step(named: object) -> str | None:
    """As a state names its own: a share in digits, whether JSON had it as text or as a number."""
    if named is None:
        return None
    try:
        return f"{float(str(named)):g}"
    except ValueError:
        return str(named)


def _short(digest: object) -> str:
    return f"{digest[:12]}…" if isinstance(digest, str) else "none"


def _hold(reason: str, verdict: Document | None = None) -> tuple[bool, Document]:
    told: Document = {"status": HOLD, "reason": reason}
    return False, told if verdict is None else told | {"verdict": verdict}

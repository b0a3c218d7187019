"""The state of a router on disk: one file that is whole at any moment, and every change it saw.

`state.json` is the truth. `history.jsonl` gets a line for each change after it; what a crash kept
out of it is written when the state is opened again. `state.good.json` is the same state once more,
for the day on which the first cannot be read.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from specdecode.durable import sync_folder, written_whole
from specdecode.errors import ConfigError, UserError
from specdecode.measurement.lock import FileLock
from specdecode.rollout.state import RolloutState

log = logging.getLogger("specdecode.rollout")

_ROUTER: Final = "router"
_LONGEST_WHY, _LONGEST_NAME = 250, 100
"""Of what a reason quotes; all of it is at most 500 characters."""
_ASKED: Final = ("mode", "share", "manifest_sha256", "changed_by", "reason")


class StateConflict(UserError):  # noqa: N818 - a fact about versions, which the caller acts on
    """The state is another than the caller saw.

    Args:
        current: the state as it is.
        expected: the version that the caller named.
    """

    def __init__(self, current: RolloutState, expected: int) -> None:
        self.current = current
        super().__init__(
            f"the state is at version {current.version}, not {expected} (changed by "
            f"{current.changed_by}: {current.reason}); read it again and decide anew"
        )


class StateStore:
    """The state of one router, and the only way to change it. One process, and any of its threads.

    A state that cannot be read never stops the service: the router goes on in mode "off" under a
    version of its own, which names the last good state and its manifest, and the damaged file is
    kept beside the new one.

    Args:
        folder: holds the files; made when it is not there.

    Raises:
        ConfigError: the folder cannot be made or written.
        UserError: another router has it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file, self._history = folder / "state.json", folder / "history.jsonl"
        self._good = folder / "state.good.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(
                folder / "router.lock",
                f"{folder} belongs to a router that is running: stop it, or give another "
                "--state-dir",
            )
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot hold a router's state ({error}): give another --state-dir"
            ) from error
        self._one = threading.Lock()  # a change may outlive whoever asked for it
        self._current = self._opened()

    @property
    def current(self) -> RolloutState:
        """The state in force."""
        return self._current

    def change(self, document: dict[str, Any], expected_version: int) -> RolloutState:
        """Make the next state, if the present one is the one that the caller saw.

        A request that comes twice, because its answer was lost, changes nothing the second time.

        Args:
            document: mode, share, manifest_sha256, changed_by and reason. Who turns the router off
                without a word on the manifest leaves it: it says of what the way back was. A
                null takes it out.
            expected_version: of the state that the caller saw.

        Returns:
            The state in force; on disk before it is returned.

        Raises:
            StateConflict: another state is in force.
            ValidationError: the document is no state.
            OSError: it cannot be written; the state is what it was.
        """
        with self._one:
            return self._change(document, expected_version)

    def _change(self, document: dict[str, Any], expected_version: int) -> RolloutState:
        current = self._current
        off = document.get("mode") == "off"
        kept: dict[str, Any] = {"manifest_sha256": current.manifest_sha256} if off else {}
        wanted = RolloutState(
            version=expected_version + 1,
            changed_at=datetime.now(UTC),
            **(kept | {name: document[name] for name in _ASKED if name in document}),
        )
        if current.version == wanted.version and _same(current, wanted):
            return current
        if current.version != expected_version:
            raise StateConflict(current, expected_version)
        self._write(wanted)
        self._current = wanted
        self._note(wanted)
        return wanted

    def history(self) -> list[RolloutState]:
        """Every state that was ever in force, the first one aside; the oldest first."""
        found = []
        for line in self._lines():
            try:
                found.append(RolloutState.model_validate_json(line))
            except ValidationError:
                log.warning("%s: a line is no state: %.100r", self._history, line)
        return found

    def close(self) -> None:
        """Let another router have it."""
        self._lock.release()

    def _opened(self) -> RolloutState:
        self._mend_tail()
        known = self._last_noted()
        good = self._last_good(known)
        try:
            state = RolloutState.model_validate_json(self._file.read_bytes())
        except FileNotFoundError:
            if good is None:
                return RolloutState()
            return self._fallen_back(good, "state.json was gone when the router started")
        except (OSError, ValidationError) as error:
            why = str(error).splitlines()[0]
            log.warning("%s cannot be read (%s)", self._file, why)
            self._keep_damaged()
            return self._fallen_back(good, f"state.json could not be read: {why}")
        if good is not None and good.version > state.version:
            return self._fallen_back(good, "state.json was older than its history")
        if state != self._read_good():
            self._keep_good(state)
        if state.version and (known is None or known.version < state.version):
            self._note(state)
        return state

    def _fallen_back(self, good: RolloutState | None, why: str) -> RolloutState:
        """A new state in which only the baseline answers; it says what there was before."""
        was = "no good state is known"
        if good is not None:
            was = (
                f"the last good state was version {good.version}: {good.mode}, share "
                f"{good.share:g}, by {good.changed_by[:_LONGEST_NAME]}"
            )
        state = RolloutState(
            version=(0 if good is None else good.version) + 1,
            manifest_sha256=None if good is None else good.manifest_sha256,
            changed_at=datetime.now(UTC),
            changed_by=_ROUTER,
            reason=f"{why[:_LONGEST_WHY]}; {was}",
        )
        log.warning("going on in mode off: %s", state.reason)
        try:
            self._write(state)
        except OSError as error:
            log.warning("%s cannot be written (%s)", self._file, error)
        self._note(state)
        return state

    def _keep_damaged(self) -> None:
        number = 1
        while (kept := self._folder / f"state.damaged-{number}.json").exists():
            number += 1
        try:
            self._file.rename(kept)
        except OSError as error:
            log.warning("%s cannot be kept as %s (%s)", self._file, kept.name, error)

    def _write(self, state: RolloutState) -> None:
        _put(self._file, state)
        self._keep_good(state)

    def _keep_good(self, state: RolloutState) -> None:
        """Once more; the state stands without it."""
        try:
            _put(self._good, state)
        except OSError as error:
            log.warning("version %d is not in %s (%s)", state.version, self._good, error)

    def _read_good(self) -> RolloutState | None:
        try:
            return RolloutState.model_validate_json(self._good.read_bytes())
        except (OSError, ValidationError):
            return None

    def _last_good(self, noted: RolloutState | None) -> RolloutState | None:
        """The newest that can be read, of the copy and of the history."""
        found = [state for state in (noted, self._read_good()) if state is not None]
        return max(found, key=lambda state: state.version, default=None)

    def _note(self, state: RolloutState) -> None:
        """One line of history. The state stands without it, and the next start makes up for it."""
        line = json.dumps(state.model_dump(mode="json", by_alias=True)) + "\n"
        try:
            with self._history.open("ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self._folder)
        except OSError as error:
            log.warning("version %d is not in %s (%s)", state.version, self._history, error)

    def _lines(self) -> list[bytes]:
        try:
            return self._history.read_bytes().splitlines()
        except OSError:
            return []

    def _last_noted(self) -> RolloutState | None:
        for line in reversed(self._lines()):
            try:
                return RolloutState.model_validate_json(line)
            except ValidationError:
                log.warning("%s: a line is no state: %.100r", self._history, line)
        return None

    def _mend_tail(self) -> None:
        """A line that a crash cut off is kept, and ended, so that the next one is a line again."""
        try:
            with self._history.open("rb+") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    return
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("%s cannot be mended (%s)", self._history, error)


def _put(path: Path, state: RolloutState) -> None:
    text = json.dumps(state.model_dump(mode="json", by_alias=True), indent=2)
    with written_whole(path) as file:
        file.write(text.encode() + b"\n")


def _same(one: RolloutState, other: RolloutState) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _ASKED)

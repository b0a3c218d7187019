"""Opening a confirmation set: the only way from a vault to its prompts, and it can be taken once.

Order is everything here. Seal, ledger, anchor and the digests of everything sealed are checked
first; then OPENED and the ledger's line "opened" are made durable; only then are the key files
read. From there on the set is consumed, whatever happens: a crash can be followed by a resume with
the same digests and by nothing else, and no prompt is handed out twice. docs/confirmation.md has
the states, and what a holder of all keys can still do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from specdecode.errors import ConfigError, ConfirmationConsumed, TamperedError
from specdecode.governance.chain import EMPTY_HEAD, Entry, Kind
from specdecode.governance.drift import refuse_drift
from specdecode.governance.durable import create_file
from specdecode.governance.opened import (
    OPENED_NAME,
    Digests,
    Event,
    Opened,
    progress_body,
    read_history,
    read_opened,
    refuse_other,
)
from specdecode.governance.opening_request import Request, check_request
from specdecode.governance.timestamps import utc_now, utc_text
from specdecode.governance.vault import Vault, _unlock, read_vault
from specdecode.governance.vault_key import read_share
from specdecode.governance.vault_page import DEMONSTRATION
from specdecode.measurement.lock import FileLock

LOCK_NAME = ".opening.lock"


@dataclass(frozen=True)
class Handed:
    """A prompt that was handed out, and its place in the sealed order."""

    index: int
    prompt: Mapping[str, Any]


def open_once(request: Request) -> Opening:
    """Open a confirmation set, or go on with the same opening after a crash.

    Returns:
        The opening, to be used as a context manager: it keeps others out until it is closed.

    Raises:
        ConfirmationConsumed: the set was opened for another candidate, seal or set of inputs.
        TamperedError: vault, seal, ledger, anchor or OPENED are not what they were, or something
            sealed has another digest now.
        UserError: another process has it open.
        ConfigError: a key or file is missing, or not the one the vault wants.
    """
    vault = read_vault(request.vault)
    lock = FileLock(
        vault.folder / LOCK_NAME,
        f"{vault.folder}: another process has this confirmation set open; wait for its end",
    )
    try:
        return Opening(request, vault, lock)
    except BaseException:
        lock.release()
        raise


class Opening:
    """An open confirmation set; made by `open_once` only.

    Attributes:
        opened: what it was opened for.
        history: what the ledger says of it, kept up to date.
        resumed: whether it goes on after an opening that did not end.
    """

    def __init__(self, request: Request, vault: Vault, lock: FileLock) -> None:
        self._request, self._vault, self._lock = request, vault, lock
        self._root, self.count = vault.manifest.merkle_root, vault.manifest.count
        checked = check_request(request, vault)
        self._digests, entries = checked.digests, checked.entries
        self.history = read_history(entries, self._root, self.count)
        before = read_opened(vault.folder)
        self.resumed = before is not None
        self._refuse_foreign(before, entries)
        self.opened = self._create(entries, checked.anchor) if before is None else before
        self._seen = len(entries)
        if self.history.opened is None:
            self.history.opened = self._append("opened", self.opened.ledger_body())
        # The key is released here, and nowhere before.
        public = vault.manifest.custody == DEMONSTRATION
        shares = [read_share(path, public=public) for path in request.key_files]
        self._unlocked = _unlock(vault, shares)

    def prompts(self) -> Iterator[Handed]:
        """The prompts that were never handed out, in the sealed order.

        Each is on record in the ledger before it is decrypted.
        """
        for index in range(len(self.history.handed_out), self.count):
            self._append_progress("handed_out", index)
            self.history.handed_out.append(index)
            yield self.handed(index)

    def handed(self, index: int) -> Handed:
        """A prompt that was handed out before.

        Raises:
            ConfigError: it was not; `prompts` hands it out when its turn comes.
        """
        if not 0 <= index < len(self.history.handed_out):
            raise ConfigError(f"confirmation prompt {index} was not handed out yet")
        return Handed(index, self._unlocked.row(index))

    @property
    def interrupted(self) -> list[Handed]:
        """Prompts that were handed out and whose rows are not on record."""
        open_ = (i for i in self.history.handed_out if i not in self.history.settled)
        return [self.handed(index) for index in open_]

    def settle(self, index: int, rows_sha256: str, *, lost: bool) -> None:
        """Put on record that a prompt's rows are safe.

        Args:
            index: of the prompt.
            rows_sha256: digest of its rows (`measurement.digest.rows_sha256`).
            lost: whether some of them only say that there is none.
        """
        self.handed(index)
        self._append_progress("lost" if lost else "stored", index, rows_sha256)
        self.history.settled[index] = rows_sha256
        if lost:
            self.history.lost.append(index)

    def complete(self, rows_sha256: str) -> None:
        """Put the end on record, once every prompt is settled and nothing drifted meanwhile.

        Raises:
            TamperedError: something sealed has another digest than at the opening, or the rows
                are not those of an earlier end.
            ConfigError: a prompt is not settled.
        """
        subjects = self._digests.subjects
        candidate = self._digests.candidate_sha256
        refuse_drift(subjects, self._vault.manifest.sha256, candidate, self._request.present())
        if self.history.complete is not None:
            if self.history.complete != rows_sha256:
                raise TamperedError("the rows are not those the ledger has of this opening")
            return
        if len(self.history.settled) < self.count:
            raise ConfigError(f"{self.count - len(self.history.settled)} prompts have no rows yet")
        self._append_progress("complete", None, rows_sha256)
        self.history.complete = rows_sha256

    def close(self) -> None:
        """Let others in; closing twice is harmless."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_foreign(self, before: Opened | None, entries: Sequence[Entry]) -> None:
        """What is on record must be this very opening, and in both places or in OPENED alone."""
        line = self.history.opened
        if before is not None:
            refuse_other(before.digests, self._digests, before.at)
            if before.ledger_head not in {EMPTY_HEAD, *(entry.sha256 for entry in entries)}:
                raise TamperedError(
                    "the ledger ends before the line at which the set was opened: restore it"
                )
        if line is None:
            return
        on_record = _digests_of(line)
        refuse_other(on_record, self._digests, line.at)
        path = self._vault.folder / OPENED_NAME
        if before is None:  # it is made before the line, so no crash can explain this
            raise TamperedError(f"{path}: the ledger says that the set was opened; restore it")
        if before.ledger_body() != line.body:
            raise TamperedError(f"{path}: not the opening that the ledger has; restore it")

    def _create(self, entries: Sequence[Entry], anchor: str) -> Opened:
        opened = Opened(
            digests=self._digests,
            custody=self._vault.manifest.custody,
            ledger_head=entries[-1].sha256 if entries else EMPTY_HEAD,
            anchor=anchor,
            at=utc_text(utc_now()),
        )
        try:
            create_file(self._vault.folder / OPENED_NAME, opened.to_bytes())
        except FileExistsError as error:
            raise ConfirmationConsumed(
                f"{self._vault.folder}: opened by someone else at this moment"
            ) from error
        return opened

    def _append_progress(
        self, event: Event, index: int | None, rows_sha256: str | None = None
    ) -> None:
        self._append("progress", progress_body(self._root, event, index, rows_sha256))

    def _append(self, kind: Kind, body: Mapping[str, Any]) -> Entry:
        if not self._lock.held:
            raise ConfigError("the opening is closed; open it again to go on")
        entry = self._request.ledger.append(kind, body, guard=self._refuse_other_writers)
        self._seen = entry.sequence + 1
        return entry

    def _refuse_other_writers(self, entries: Sequence[Entry]) -> None:
        """A copy of the vault has a lock of its own, but there is one ledger."""
        for entry in entries[self._seen :]:
            if entry.body.get("merkle_root") == self._root:
                raise ConfirmationConsumed(
                    f"a copy of this vault is being used: line {entry.sequence + 1} of the ledger "
                    "is not of this process. Keep one vault, and go on with the opening on record"
                )


def _digests_of(line: Entry) -> Digests:
    try:
        return Digests.model_validate({name: line.body.get(name) for name in Digests.model_fields})
    except ValueError as error:
        raise TamperedError(f"ledger, line {line.sequence + 1}: not an opening") from error

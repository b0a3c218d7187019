"""Looks that MLflow has not got yet, on disk, so that none is lost with the run that looked.

    RECORDS/mlflow-pending/0123456789abcdef/    of the address of the store
        canary-0.05-89abcdef01234567.json       of a step: its last look, numbers of earlier ones
        changing.lock                           held while a file is read or changed
        writer.lock                             held by whoever writes to the store

Of a step there is one file: what its page says is what the last look came to. Of the looks before
only the numbers that charts show are kept, and where these grow many, every other one of them. So
the folder stays small however long MLflow is away.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.flows.options import ReleaseOptions, manifest_of
from specdecode.durable import written_whole
from specdecode.governance.ladder_facts import Place
from specdecode.governance.verdict import Verdict

MOST_EARLIER = 256
"""Earlier looks whose numbers are kept, of a step; each takes about a kilobyte."""
_PATIENCE_S, _AGAIN_S = 1.0, 0.005
_SHOWN = ("name", "role", "stratum", "n", "estimate", "low", "high", "threshold")


@dataclass(frozen=True)
class KeptLook:
    """The last look at a step, and what charts show of those before.

    Attributes:
        path: its file.
        sha256: of the file's bytes.
        manifest: SHA-256 of the release's inputs.
        stage: "shadow", "canary" or "watch".
        step: of a canary, as rows name it.
        act: what was next, such as "Hold" or "RollBack".
        at_ns: Unix time of the look in nanoseconds.
        verdict: its document.
        earlier: of looks before that MLflow has not got either, {"rules": […]}, the oldest first.
    """

    path: Path
    sha256: str
    manifest: str
    stage: str
    step: str | None
    act: str
    at_ns: int
    verdict: Mapping[str, Any]
    earlier: Sequence[Mapping[str, Any]] = ()


class KeptLooks:
    """The looks that one store has not got yet, whichever release and run they are of.

    Args:
        folder: of all stores; it is made when it is needed.
        uri: address of the store, of which only a digest is written down: it may hold a password.

    Attributes:
        folder: of this store's.
        uri: as given.
    """

    def __init__(self, folder: Path, uri: str) -> None:
        self.uri = uri
        self.folder = folder / hashlib.sha256(uri.encode()).hexdigest()[:16]

    def keep(self, verdict: Verdict, manifest: str, place: Place, act: str) -> None:
        """Keep a look until `done` is said of it; the one before becomes an earlier one.

        Raises:
            OSError: it cannot be written.
        """
        document = verdict.to_json()
        about = [manifest, document["plan_sha256"], place.stage, place.step]
        key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
        path = self.folder / f"{str(place).replace(' ', '-')}-{key}.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            before = _read(path)
            kept = {
                "manifest": manifest,
                "stage": place.stage,
                "step": place.step,
                "act": act,
                "at_ns": time.time_ns(),
                "verdict": document,
                "earlier": [] if before is None else _earlier(before),
            }
            with written_whole(path) as file:
                file.write(json.dumps(kept, allow_nan=False).encode() + b"\n")

    def next(self, without: Collection[str] = ()) -> KeptLook | None:
        """The oldest look; None if there is none.

        Args:
            without: manifests of releases to pass over.

        Raises:
            OSError: the folder cannot be read.
        """
        if not self.folder.is_dir():
            return None
        with self._alone():
            found = [each for each in map(_read, self._files()) if each is not None]
        wanted = [each for each in found if each.manifest not in without]
        return min(wanted, key=lambda each: each.at_ns, default=None)

    def done(self, look: KeptLook) -> None:
        """MLflow has it. Where another look at that step came meanwhile, that one is still kept.

        Raises:
            OSError: the folder cannot be changed.
        """
        with self._alone():
            now = _read(look.path)
            if now is not None and now.sha256 == look.sha256:
                look.path.unlink()

    def __len__(self) -> int:
        """Steps that wait for MLflow."""
        return len(self._files()) if self.folder.is_dir() else 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While open, no other run writes: an older look must not come after a newer one."""
        with (self.folder / "writer.lock").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # for as long as the other one takes
            yield

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[!.]*.json"))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While open, nobody else changes the files.

        Who was stopped in there is not waited for: users may be waiting for plain decoding.

        Raises:
            BlockingIOError: somebody does not come out.
        """
        with (self.folder / "changing.lock").open("a+b") as file:
            end = time.monotonic() + _PATIENCE_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(_AGAIN_S)
            yield


def keep_look(options: ReleaseOptions, place: Place, act: str, verdict: Verdict) -> None:
    """Keep a look for the registry of a release; without a registry there is nothing to do.

    Raises:
        ConfigError: the verdict names no manifest, and that of the release cannot be read.
        OSError: it cannot be written.
    """
    kept = kept_looks(options)
    if kept is None:
        return
    # A verdict over no rows or mixed ones names none.
    manifest = verdict.manifest_sha256 or manifest_of(options.manifest)["manifest_sha256"]
    kept.keep(verdict, str(manifest), place, act)


def kept_looks(options: ReleaseOptions) -> KeptLooks | None:
    """The looks kept for the registry of a release; None without one."""
    if options.registry is None:
        return None
    return KeptLooks(options.records / "mlflow-pending", options.registry.uri)


def _read(path: Path) -> KeptLook | None:
    """None where there is no such file, or not one that was written here."""
    try:
        content = path.read_bytes()
        told = json.loads(content)
        return KeptLook(path, hashlib.sha256(content).hexdigest(), **told)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return None


def _earlier(before: KeptLook) -> list[Mapping[str, Any]]:
    rules = [
        {name: rule[name] for name in _SHOWN}
        for rule in before.verdict["rules"]
        if rule["role"] != "integrity"
    ]
    found = [*before.earlier, {"rules": rules}]
    return found if len(found) <= MOST_EARLIER else found[-1::-2][::-1]  # the newest stays

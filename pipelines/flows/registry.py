"""The champion in MLflow's registry: an alias that moves only with a bundle that was verified.

The alias is a view that anyone with access may change. The tags beside it say which bundle it rests
on, and whoever loads the champion checks that bundle first.

MLflow has no compare-and-set of an alias. All promotions of flows go through one lock file, and
each names the champion it expects to replace, so that of several exactly one wins and the others
are told. Keep the file where all workers that may promote can lock it.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode

from pipelines.flows.release import Bundle, LostPromotionError
from specdecode.errors import ConfigError

CHAMPION = "champion"
MANIFEST_TAG, VERDICT_TAG, PLAN_TAG, BUNDLE_TAG = (
    "gate.manifest_sha256", "gate.verdict", "gate.plan_sha256", "gate.bundle_sha256",
)  # fmt: skip
REPLACED_TAG, TAKEN_BACK_TAG = "gate.replaced", "gate.taken_back"
LONGEST_TAG = 8000


@dataclass(frozen=True)
class MlflowRegistry:
    """One version of one registered model.

    Attributes:
        uri: of the tracking server or database; always said, never guessed by MLflow.
        model: name of the registered model.
        version: of this release.
        lock: file that only one promotion holds.
    """

    uri: str
    model: str
    version: str
    lock: Path

    def champion(self) -> str | None:
        """The version that is champion now; None where there is none."""
        aliases = self._client.get_registered_model(self.model).aliases
        found = aliases.get(CHAMPION)
        return None if found is None else str(found)

    def promote(self, bundle: Bundle, *, replaces: str | None) -> None:
        """Make this version champion, if `replaces` still is; once it is, nothing more is done.

        Raises:
            LostPromotionError: another one was promoted meanwhile.
        """
        with self._alone():
            current = self.champion()
            if current == self.version:
                return
            if current != replaces:
                raise LostPromotionError(
                    f"version {current} of {self.model} was made champion meanwhile, in place of "
                    f"{replaces}; judge {self.version} against it"
                )
            tags = {
                VERDICT_TAG: "GO",
                PLAN_TAG: bundle.plan_sha256,
                BUNDLE_TAG: bundle.sha256,
                MANIFEST_TAG: bundle.manifest_sha256,
                REPLACED_TAG: replaces or "",
            }
            for name, value in tags.items():  # before the alias: a champion has its evidence
                self._tag(name, value)
            self._client.set_registered_model_alias(self.model, CHAMPION, self.version)

    def demote(self, reason: str) -> None:
        """Put back what this version replaced; nothing, where another one is champion by now."""
        with self._alone():
            if self.champion() != self.version:
                return
            self._tag(TAKEN_BACK_TAG, reason[:LONGEST_TAG])
            own = self._client.get_model_version(self.model, self.version)
            if before := own.tags.get(REPLACED_TAG):
                self._client.set_registered_model_alias(self.model, CHAMPION, before)
            else:
                self._client.delete_registered_model_alias(self.model, CHAMPION)

    @cached_property
    def _client(self) -> MlflowClient:
        return MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    def _tag(self, name: str, value: str) -> None:
        self._client.set_model_version_tag(self.model, self.version, name, value)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with alone(self.lock):
            yield


def registered(uri: str, model: str, manifest_sha256: str, source: str, lock: Path) -> str:
    """The version of the model that has this manifest; it is made where there is none.

    Args:
        uri: as in `MlflowRegistry`.
        model: name of the registered model; it is made where there is none.
        manifest_sha256: of the release.
        source: where its files are.
        lock: as in `MlflowRegistry`.

    Raises:
        ConfigError: MLflow refuses the name or the source.
    """
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    with alone(lock):
        try:
            client.create_registered_model(model)
        except MlflowException as error:
            if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
                raise ConfigError(f"{uri}: model {model!r}: {error.message}") from error
        for version in client.search_model_versions(f"name = '{model}'"):
            if version.tags.get(MANIFEST_TAG) == manifest_sha256:
                return str(version.version)
        made = client.create_model_version(model, source, tags={MANIFEST_TAG: manifest_sha256})
        return str(made.version)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """While open, no other flow changes the registry."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""Stage `distil`: a small draft out of what the target itself writes. Frozen: it takes hours.

It stands in pipelines/training/stage.yaml, where DVC does not look: DVC refuses a pipeline with a
frozen stage whose output is not there. Texts and checkpoints lie outside of the stage's output,
which DVC removes before it runs a stage, so that a killed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.distil_curves import CurveRun
from pipelines.stages.command import parameters, read_json, run
from pipelines.tracking import Store, store_of
from specdecode.distil import SynthesisSettings, TrainingSettings, Withheld, distil, read_withheld

OUTPUT = Path("models/distilled")
WORK = Path(".specdecode/distil")
TARGET = Path("models/target")
CONFIRMATION = Path("eval_sets/confirmation/withheld.json")
SYNTHESIS, TRAINING = SynthesisSettings(), TrainingSettings()
MINUTES: float | None = 60


def main() -> None:
    """Writes models/distilled."""
    params = parameters()
    withheld = (read_withheld(params["prompts"]["path"]), read_withheld(CONFIRMATION))
    curves = Curves(store_of(Path.cwd()), WORK / "training")
    report = distil(
        TARGET,
        OUTPUT,
        work=WORK,
        withheld=Withheld(withheld),
        synthesis=SYNTHESIS,
        training=TRAINING,
        minutes=MINUTES,
        dtype=params["target"]["dtype"],
        device=params["decoding"]["device"],
        watch=curves.watch,
    )
    curves.run.finish(report, OUTPUT / "distil.json")


class Curves:
    """Sends points of the curve as they come; the run is made with the first of them."""

    def __init__(self, store: Store, training: Path) -> None:
        self._store, self._training = store, training
        self._run: CurveRun | None = None

    @property
    def run(self) -> CurveRun:
        """The MLflow run of this training."""
        if self._run is None:
            begun = read_json(self._training / "begun.json")
            self._run = CurveRun(self._store, self._training, begun)
        return self._run

    def watch(self, part: str, _what: Mapping[str, Any]) -> None:
        """See `specdecode.distil.parts.Watch`."""
        if part == "train":
            self.run.send()


if __name__ == "__main__":
    run(main)

"""What an evaluation was made from, as MLflow data sets.

MLflow's dataset digests take 36 characters, half of a SHA-256, so the whole digest stands in a tag.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlflow.entities import Dataset, DatasetInput, InputTag

LONGEST_DIGEST = 36
DATASETS = {
    # name of the data set: (entry of the manifest, path of what it stands for)
    "prompts": ("prompts.compiled", "data/prompts.parquet"),
    "target weights": ("target.weights", "models/target"),
    "target tokenizer": ("target.tokenizer", "models/target"),
    "target chat template": ("target.chat_template", "models/target"),
    "target configuration": ("target.config", "models/target"),
    "draft weights": ("draft.weights", "models/draft"),
}


def data_sets(entries: Mapping[str, str], remote: str | None) -> list[DatasetInput]:
    """Returns one data set per input that the manifest has an entry for.

    Args:
        entries: digests by name, from the manifest.
        remote: address the data sets can be fetched from; null for this machine only.
    """
    return [
        DatasetInput(
            Dataset(
                name=name,
                digest=entries[entry][:LONGEST_DIGEST],
                source_type="dvc",
                source=f"{remote or 'local'}#{path}",
            ),
            [InputTag("sha256", entries[entry]), InputTag("mlflow.data.context", "evaluation")],
        )
        for name, (entry, path) in DATASETS.items()
        if entry in entries
    ]

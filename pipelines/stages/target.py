"""Stage `target`: the target model as one plain folder, and its fingerprints."""

from __future__ import annotations

from pipelines.stages.command import parameters, run, write_json
from specdecode.models import convert_source, fingerprint_folder

FOLDER = "models/target"
OUTPUT = "reports/state/target.json"


def main() -> None:
    """Writes models/target and reports/state/target.json."""
    convert_source(parameters()["target"]["source"], FOLDER)
    write_json(OUTPUT, fingerprint_folder(FOLDER).to_json())


if __name__ == "__main__":
    run(main)

"""Stage `validate`: check the compiled prompts; bad data stops the pipeline here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.quality.settings import ValidateSettings
from pipelines.quality.suite import validate
from pipelines.stages.command import parameters, run, write_json
from specdecode.workload.compile import read_prompts

INPUT = Path("data/prompts.parquet")
OUTPUT = Path("data/validation.json")


def main() -> None:
    """Writes data/validation.json, also when the data fails."""
    validate_to(parameters(), INPUT, OUTPUT)


def validate_to(params: dict[str, Any], table: Path, output: Path) -> None:
    """Checks a compiled table against the section `validate` of the parameters.

    Raises:
        ConfigError: a limit is missing or unknown.
        DataValidationError: a critical check failed; the report is written nevertheless.
    """
    settings = ValidateSettings.from_params(params.get("validate") or {})
    validate(read_prompts(table), settings, save=lambda report: write_json(output, report))


if __name__ == "__main__":
    run(main)

"""Stage `environment`: hardware class, library versions and thread settings.

Timings depend on them. Runs at every start; what depends on its output re-runs only when that
says something else than before.
"""

from __future__ import annotations

from pipelines.environment import describe
from pipelines.stages.command import parameters, run, write_json

OUTPUT = "reports/state/environment.json"


def main() -> None:
    """Writes reports/state/environment.json."""
    write_json(OUTPUT, describe(parameters()["decoding"]["threads"]))


if __name__ == "__main__":
    run(main)

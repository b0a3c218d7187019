"""What a process does that takes a release as far as it goes, for tests that kill it."""

from __future__ import annotations

import logging
from pathlib import Path

from pipelines.flows.assembling import release_of
from pipelines.flows.look import look, run
from pipelines.flows.options import ReleaseOptions

MAY = frozenset({"shadow", "canary", "full"})


def climb(options_file: str) -> None:
    """Looks until there is no more to do."""
    options = ReleaseOptions.model_validate_json(Path(options_file).read_text(encoding="utf-8"))
    log = logging.getLogger("climber")
    while True:
        found = run(look(release_of(options, "flow canary", log), MAY))
        if found.ended or found.arrived:
            return

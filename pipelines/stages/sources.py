"""Stage `sources`: which bytes stand behind the model sources of params.yaml, right now.

Runs at every start and costs a look at file dates. It writes digests and the source as
params.yaml names it, so that the stages after it re-run when one of the two changes.
"""

from __future__ import annotations

from typing import Any

from pipelines.digests import sha256_files
from pipelines.stages.command import parameters, run, write_json
from specdecode.models.source import is_derived, resolve_source

OUTPUT = "reports/state/sources.json"


def describe(spec: str) -> dict[str, Any]:
    """Returns spec, kind and the SHA-256 of every file of a model source."""
    source = resolve_source(spec)
    return {"source": spec, "kind": source.kind, "files": sha256_files(source.files)}


def main() -> None:
    """Writes reports/state/sources.json."""
    params = parameters()
    draft = params["draft"]["source"]
    own = {"source": draft, "kind": "derived", "files": {}}
    write_json(
        OUTPUT,
        {
            "target": describe(params["target"]["source"]),
            "draft": own if is_derived(draft) else describe(draft),
        },
    )


if __name__ == "__main__":
    run(main)

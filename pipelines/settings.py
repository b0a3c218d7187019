"""Environment settings of the pipeline's tools, applied before any of them is imported.

Importing `pipelines` applies the first table. Telemetry is off unless the caller has set a
variable otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # MLflow reads DO_NOT_TRACK only as the word "true"
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def apply(environ: MutableMapping[str, str] = os.environ) -> None:
    """Turns telemetry of every dependency off where the caller has not decided otherwise.

    Progress bars of the libraries are for terminals, so a pipe gets none either.
    """
    for name, value in QUIET.items():
        environ.setdefault(name, value)
    if not sys.stderr.isatty():
        environ.setdefault("TQDM_DISABLE", "1")
        environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def work_offline(environ: MutableMapping[str, str] = os.environ) -> None:
    """Keeps the model hub out of reach of this process.

    Only the stages that fetch a `hub:` source may go online; the others read what those wrote.
    """
    environ.setdefault("HF_HUB_OFFLINE", "1")


apply()

"""The views that MLflow's pages open on: go or no-go, and evidence against its limit.

MLflow keeps a view that somebody shares as a tag of the experiment, and a link names it. These
views are such tags, so nobody has to choose columns first. The format is that of MLflow 3.17
(`mlflow.sharedViewState.KEY`); the browser tests look at what it shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipelines.tracking.content import KIND

VERDICTS, EVIDENCE = "verdicts", "evidence"
"""Keys of the two views; a link ends in `viewStateShareKey=KEY`."""

LOG_E, LOG_LIMIT = "audit.log_e_value", "audit.log_limit"
_MODE = "workflowType=machine_learning"
"""MLflow 3 has two sets of menus; the other one is about traces of assistants."""
_TAG = "mlflow.sharedViewState."
_MADE_MS = 1_764_547_200_000  # shown beside the name of the view; a fixed one keeps the tag as is
COLUMNS = {
    "tags.`gate.verdict`": 130,
    "tags.`gate.stage`": 100,
    "metrics.`gate.speed_ratio`": 130,
    "metrics.`gate.speed_ratio.low`": 155,
    "metrics.`gate.quality_difference.low`": 185,
    "metrics.`audit.e_value`": 110,
    "metrics.`prompts`": 80,
    "tags.`profile`": 80,
}
"""What decides, in the order of the list, and how wide it is in pixels."""
_FIRST = {"attributes.`Run Name`": 170, "runDateAndNestInfo": 130}


def experiment_tags(name: str) -> dict[str, str]:
    """Returns the tags of an experiment: what it is, and its prepared views.

    Args:
        name: of the experiment, which is its plan's.
    """
    return {
        # Without it MLflow takes runs that hold data sets for traces of an assistant.
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.note.content": (
            f"Releases judged by the plan `{name}`. The list of verdicts is the view Go / no-go; "
            "`make ui` opens it. The record is the evidence bundle of each stage, not these pages."
        ),
        f"{_TAG}{VERDICTS}": _saved("Go / no-go", _verdicts()),
        f"{_TAG}{EVIDENCE}": _saved("Evidence against its limit", _evidence()),
    }


def address(base: str, experiment: str, view: str = VERDICTS) -> str:
    """Returns the link that opens a view.

    Args:
        base: of the server, such as http://127.0.0.1:5000.
        experiment: its id.
        view: key of the view.
    """
    mode = "&compareRunsMode=CHART" if view == EVIDENCE else ""
    return f"{base}/#/experiments/{experiment}/runs?viewStateShareKey={view}{mode}&{_MODE}"


def run_address(base: str, experiment: str, run: str) -> str:
    """Returns the link of one run.

    Args:
        base: as in `address`.
        experiment: its id.
        run: its id.
    """
    return f"{base}/#/experiments/{experiment}/runs/{run}?{_MODE}"


def _verdicts() -> dict[str, Any]:
    return {
        "searchFilter": f"tags.`{KIND}` = 'release'",
        "orderByKey": "tags.`gate.verdict`",
        "orderByAsc": True,  # GO, INCONCLUSIVE, INVALID, NO_GO
        "selectedColumns": list(COLUMNS),
        "columnOrder": [*_FIRST, *COLUMNS],
        "columnWidths": _FIRST | COLUMNS,
        "viewMaximized": False,
    }


def _evidence() -> dict[str, Any]:
    section = "evidence"
    charts = [
        _lines(section, "e-process", "Evidence against losslessness (log e) and its limit",
               [LOG_E, LOG_LIMIT]),
        _bars(section, "speed", "Speed ratio to plain decoding", "speed_ratio"),
        _bars(section, "length", "Mean acceptance length", "mean_acceptance_length"),
    ]  # fmt: skip
    return {
        "searchFilter": f"tags.`{KIND}` = 'arm'",
        # Sorted by time, arms would be folded away under their stages.
        "orderByKey": "tags.`arm`",
        "orderByAsc": True,
        "compareRunCharts": charts,
        "compareRunSections": [
            {"uuid": section, "name": "Evidence", "display": True, "isReordered": True}
        ],
        "isAccordionReordered": True,
        "globalLineChartConfig": {
            "xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": "",
        },
    }  # fmt: skip


def _lines(section: str, uuid: str, title: str, metrics: list[str]) -> dict[str, Any]:
    return _chart("LINE", section, uuid, title) | {
        "metricKey": metrics[0],
        "selectedMetricKeys": metrics,
        "lineSmoothness": 0,
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "range": {},
        "selectedXAxisMetricKey": "",
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": False,
    }


def _bars(section: str, uuid: str, title: str, metric: str) -> dict[str, Any]:
    return _chart("BAR", section, uuid, title) | {"metricKey": metric}


def _chart(kind: str, section: str, uuid: str, title: str) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "runsCountToCompare": 10,
        "metricSectionId": section,
        "deleted": False,
        "isGenerated": False,
        "displayName": title,
    }


def _saved(name: str, state: Mapping[str, Any]) -> str:
    envelope = {"name": name, "createdAt": _MADE_MS, "updatedAt": _MADE_MS}
    return json.dumps(envelope | {"state": json.dumps(state)})

"""What Argo Rollouts and Flagger accept, as far as this project's examples use it.

Written down from the custom resource definitions of Argo Rollouts (commit 9f8d111d) and Flagger
(15bd6ad5), and stricter than they are: a key that is not listed here is refused, since a cluster
would drop it without a word.
"""

from __future__ import annotations

from typing import Any

COUNT = {"type": "integer", "minimum": -1}
DURATION = {"type": "string", "pattern": r"^[0-9]+(m|s)$"}
TEXT = {"type": "string", "minLength": 1}


def record(required: list[str], **properties: Any) -> dict[str, Any]:
    """An object with these keys and no others."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def some(items: dict[str, Any]) -> dict[str, Any]:
    """A list that is not empty."""
    return {"type": "array", "items": items, "minItems": 1}


def resource(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A whole document."""
    return record(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": version},
        kind={"const": kind},
        metadata=record(["name"], name=TEXT),
        spec=spec,
    )


ANALYSIS_TEMPLATE = resource(
    "argoproj.io/v1alpha1",
    "AnalysisTemplate",
    record(
        ["metrics"],
        args=some(record(["name"], name=TEXT, value=TEXT)),
        metrics=some(
            record(
                ["name", "provider"],
                name=TEXT,
                interval={"type": "string", "pattern": r"^[0-9]+(s|m|h)$"},
                count=COUNT,
                consecutiveSuccessLimit=COUNT,
                failureLimit=COUNT,
                inconclusiveLimit=COUNT,
                consecutiveErrorLimit=COUNT,
                successCondition=TEXT,
                failureCondition=TEXT,
                provider=record(
                    ["web"],
                    web=record(["url"], url=TEXT, timeoutSeconds=COUNT, jsonPath=TEXT),
                ),
            )
        ),
    ),
)

_ANALYSIS: dict[str, Any] = {
    "templates": some(record(["templateName"], templateName=TEXT)),
    "args": some(record(["name"], name=TEXT, value=TEXT)),
}
ROLLOUT = resource(
    "argoproj.io/v1alpha1",
    "Rollout",
    record(
        ["selector", "strategy", "template"],
        replicas=COUNT,
        selector={"type": "object"},
        template={"type": "object"},
        strategy=record(
            ["canary"],
            canary=record(
                [],
                stableService=TEXT,
                canaryService=TEXT,
                maxUnavailable=COUNT,
                analysis=record([], startingStep=COUNT, **_ANALYSIS),
                steps=some(
                    record(
                        [],
                        setWeight={"type": "integer", "minimum": 0, "maximum": 100},
                        analysis=record([], **_ANALYSIS),
                        pause=record([], duration={"type": ["integer", "string"]}),
                    )
                    | {"minProperties": 1, "maxProperties": 1}
                ),
            ),
        ),
    ),
)

METRIC_TEMPLATE = resource(
    "flagger.app/v1beta1",
    "MetricTemplate",
    record(
        ["provider", "query"],
        provider=record(["type"], type={"const": "prometheus"}, address=TEXT),
        query=TEXT,
    ),
)

HOOKS = (
    *("confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase"),
    *("confirm-promotion", "post-rollout", "event", "rollback"),
)
CANARY = resource(
    "flagger.app/v1beta1",
    "Canary",
    record(
        ["targetRef", "analysis"],
        provider=TEXT,
        targetRef=record(
            ["apiVersion", "kind", "name"],
            apiVersion=TEXT,
            kind={"enum": ["DaemonSet", "Deployment", "Service"]},
            name=TEXT,
        ),
        progressDeadlineSeconds={"type": "number"},
        service=record(["port"], port={"type": "number"}),
        analysis=record(
            ["interval", "threshold", "iterations"],
            interval=DURATION,
            threshold={"type": "number"},
            iterations={"type": "number"},
            metrics=some(
                record(
                    ["name"],
                    name=TEXT,
                    interval=DURATION,
                    templateRef=record(["name"], name=TEXT, namespace=TEXT),
                    templateVariables={"type": "object", "additionalProperties": TEXT},
                    thresholdRange=record([], min={"type": "number"}, max={"type": "number"}),
                )
            ),
            webhooks=some(
                record(
                    ["name", "url"],
                    name=TEXT,
                    type={"enum": list(HOOKS)},
                    url={"type": "string", "pattern": "^https?://"},
                    timeout=DURATION,
                    retries={"type": "number"},
                    muteAlert={"type": "boolean"},
                )
            ),
        ),
    ),
)

SCHEMAS = {
    schema["properties"]["kind"]["const"]: schema
    for schema in (ANALYSIS_TEMPLATE, ROLLOUT, METRIC_TEMPLATE, CANARY)
}

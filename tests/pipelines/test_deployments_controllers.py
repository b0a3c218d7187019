"""The examples for Argo Rollouts and Flagger are valid, and do what their comments say."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema
import pytest
import yaml

from tests.pipelines.controllers import SCHEMAS
from tests.rollout.routers import MANIFEST, routing

FOLDER = Path(__file__).resolve().parents[2] / "pipelines/deployments"
FILES = ("argo/analysis_templates.yaml", "argo/rollout.yaml", "flagger/canary.yaml")
SHA = "a" * 64


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def named(kind: str, name: str | None = None) -> dict[str, Any]:
    [found] = [
        document
        for file in FILES
        for document in documents(file)
        if document["kind"] == kind and name in (None, document["metadata"]["name"])
    ]
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_document_is_valid(name: str) -> None:
    for document in documents(name):
        jsonschema.validate(document, SCHEMAS[document["kind"]])


def places(document: Any) -> list[tuple[Any, ...]]:
    """Paths of all mappings in a document that a schema describes key by key."""
    found: list[tuple[Any, ...]] = []

    def walk(value: Any, path: tuple[Any, ...]) -> None:
        if isinstance(value, dict):
            found.append(path)
            for key, entry in value.items():
                if key not in ("template", "selector", "templateVariables"):
                    walk(entry, (*path, key))
        elif isinstance(value, list):
            for number, entry in enumerate(value):
                walk(entry, (*path, number))

    walk(document, ())
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_misspelt_key_anywhere_is_refused(name: str) -> None:
    for document in documents(name):
        for path in places(document):
            wrong = copy.deepcopy(document)
            spot = wrong
            for key in path:
                spot = spot[key]
            spot["succesCondition"] = "typo"
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(wrong, SCHEMAS[document["kind"]])


def test_the_rollout_refers_to_templates_and_arguments_that_are_there() -> None:
    canary = named("Rollout")["spec"]["strategy"]["canary"]
    asked = [
        canary["analysis"],
        *(step["analysis"] for step in canary["steps"] if "analysis" in step),
    ]

    for analysis in asked:
        for reference in analysis["templates"]:
            template = named("AnalysisTemplate", reference["templateName"])
            needed = {argument["name"] for argument in template["spec"]["args"]}
            assert needed == {argument["name"] for argument in analysis["args"]}


def test_the_background_analysis_begins_where_users_have_moved() -> None:
    canary = named("Rollout")["spec"]["strategy"]["canary"]
    released = next(i for i, step in enumerate(canary["steps"]) if "analysis" in step)

    assert canary["analysis"]["startingStep"] == released + 1
    assert "pause" in canary["steps"][released + 1]


# --- Argo's conditions, on what the router answers ---------------------------------------------


def holds(condition: str, result: dict[str, Any]) -> bool:
    """A condition in Argo's expression language, as far as these use it."""
    text = condition.replace("{{args.manifest-sha256}}", SHA)
    if text == "false":
        return False
    terms = [re.fullmatch(r'result\.(\w+) == "(\w+)"', term) for term in text.split(" && ")]
    assert all(terms), f"a condition this test cannot read: {condition}"
    return all(result.get(term[1]) == term[2] for term in terms if term)


def phase(metric: dict[str, Any], result: dict[str, Any]) -> str:
    """What one measurement is: failure wins, neither is inconclusive."""
    if holds(metric["failureCondition"], result):
        return "Failed"
    return "Successful" if holds(metric["successCondition"], result) else "Inconclusive"


def metric(template: str, name: str) -> dict[str, Any]:
    spec = named("AnalysisTemplate", template)["spec"]
    return next(entry for entry in spec["metrics"] if entry["name"] == name)


STATES = [
    ({"mode": "off", "manifest_sha256": None}, "Inconclusive"),  # before it began
    ({"mode": "off", "manifest_sha256": "b" * 64}, "Inconclusive"),
    ({"mode": "shadow", "manifest_sha256": SHA}, "Inconclusive"),
    ({"mode": "canary", "manifest_sha256": SHA}, "Inconclusive"),
    ({"mode": "full", "manifest_sha256": SHA}, "Successful"),
    ({"mode": "full", "manifest_sha256": "b" * 64}, "Inconclusive"),
    ({"mode": "off", "manifest_sha256": SHA}, "Failed"),  # rolled back
]
WATCHING = [("specdecode-released", "all-users"), ("specdecode-kept", "still-all-users")]


@pytest.mark.parametrize(("state", "expected"), STATES, ids=range(len(STATES)))
@pytest.mark.parametrize(("template", "name"), WATCHING, ids=[name for _, name in WATCHING])
def test_argo_waits_goes_on_or_aborts_as_the_router_has_done(
    template: str, name: str, state: dict[str, Any], expected: str
) -> None:
    found = metric(template, name)

    assert phase(found, state) == expected
    assert found["provider"]["web"]["url"].endswith("/rollout")
    assert found["provider"]["web"]["jsonPath"] == "{$.state}"


def test_argo_takes_a_go_for_this_candidate_only() -> None:
    gate = metric("specdecode-released", "gate")

    assert phase(gate, {"status": "GO", "manifest_sha256": SHA}) == "Successful"
    assert phase(gate, {"status": "GO", "manifest_sha256": "b" * 64}) == "Inconclusive"
    assert phase(gate, {"status": "NO_GO", "manifest_sha256": SHA}) == "Inconclusive"
    assert gate["provider"]["web"]["url"].endswith("/gate")


@pytest.mark.parametrize("template", ["specdecode-released", "specdecode-kept"])
def test_a_hold_never_aborts(template: str) -> None:
    """409 and no answer are errors, which Argo repeats every 10 s and aborts after four of."""
    week_s = 7 * 24 * 3600
    for found in named("AnalysisTemplate", template)["spec"]["metrics"]:
        assert found["interval"] == "1m"
        assert found["consecutiveErrorLimit"] * 10 >= week_s
        assert found["inconclusiveLimit"] * 60 >= week_s
        assert found["failureLimit"] == 0


# --- Flagger -----------------------------------------------------------------------------------


def test_flagger_asks_the_gate_only_where_a_no_means_wait() -> None:
    """Other hooks count a 409 as a failed check; `rollback` takes 200 for an order to go back."""
    hooks = named("Canary")["spec"]["analysis"]["webhooks"]

    asked = {hook["type"]: urlsplit(hook["url"]) for hook in hooks}
    assert {kind: url.path for kind, url in asked.items()} == {
        "confirm-promotion": "/gate",
        "rollback": "/gate/rollback",
    }
    assert len({url.query for url in asked.values()}) == 1


def test_flagger_names_its_candidate_in_a_way_that_the_router_understands(tmp_path: Path) -> None:
    """Else the verdict on the release before would promote these pods, or take them back."""
    hooks = {hook["type"]: hook["url"] for hook in named("Canary")["spec"]["analysis"]["webhooks"]}
    path, dead = tmp_path / "verdict.json", "http://127.0.0.1:9"
    with routing(dead, dead, tmp_path, "canary", verdict=path) as router:
        for kind, status in (("confirm-promotion", "GO"), ("rollback", "NO_GO")):
            path.write_text(json.dumps({"status": status, "manifest_sha256": MANIFEST}))
            url = urlsplit(hooks[kind])
            [(name, _)] = parse_qsl(url.query)
            for digest, code in ((MANIFEST, 200), ("0" * 64, 409)):
                reply = router.client.post(url.path, params={name: digest}, json={"name": "engine"})
                assert reply.status_code == code


def test_flagger_refers_to_the_metric_that_is_there() -> None:
    canary, template = named("Canary"), named("MetricTemplate")
    [found] = canary["spec"]["analysis"]["metrics"]

    assert found["templateRef"]["name"] == template["metadata"]["name"]
    variables = set(re.findall(r"variables\.(\w+)", template["spec"]["query"]))
    assert variables == set(found["templateVariables"])

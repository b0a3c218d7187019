"""What docs/kubernetes.md applies fits the job template and the router that this project has."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.docs.commands import ROOT, commands_of, fences
from tests.docs.grammar import fault

PAGE = "docs/kubernetes.md"
BLOCKS = [block for language, block in fences(PAGE) if language == "yaml"]
DOCUMENTS = [document for block in BLOCKS for document in yaml.safe_load_all(block)]
TEMPLATE = json.loads(
    (ROOT / "pipelines/deployments/kubernetes/base_job_template.json").read_text("utf-8")
)
DEFAULTS = {
    name: field.get("default") for name, field in TEMPLATE["variables"]["properties"].items()
}


def of_kind(kind):
    (found,) = [document for document in DOCUMENTS if document["kind"] == kind]
    return found


@pytest.fixture
def pod():
    return of_kind("Deployment")["spec"]["template"]["spec"]


def test_names_are_those_that_jobs_look_for():
    assert of_kind("Namespace")["metadata"]["name"] == DEFAULTS["namespace"]
    claim = of_kind("PersistentVolumeClaim")["metadata"]
    assert claim["name"] == DEFAULTS["repository_claim"]
    named = [document for document in DOCUMENTS if document["kind"] != "Namespace"]
    assert {document["metadata"]["namespace"] for document in named} == {DEFAULTS["namespace"]}
    texts = [command.text for command in commands_of(PAGE)]
    assert any(f"secret generic {DEFAULTS['settings_secret']} " in text for text in texts)
    assert any(f"--working-directory {DEFAULTS['working_directory']} " in text for text in texts)


def test_the_router_is_started_with_options_that_it_has(pod, tmp_path):
    (container,) = pod["containers"]
    assert fault([*container["command"], *container["args"]], tmp_path) is None
    (port,) = container["ports"]
    assert f"--port={port['containerPort']}" in container["args"]


def test_the_router_is_one_and_has_time_to_finish(pod):
    deployment = of_kind("Deployment")["spec"]
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}
    finish_s = 30  # --finish of `specdecode route`
    assert pod["terminationGracePeriodSeconds"] > finish_s


def test_the_router_runs_without_rights_it_does_not_need(pod):
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == DEFAULTS["user_id"]


def test_every_folder_that_it_is_told_of_is_mounted(pod):
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    paths = [argument.split("=")[1] for argument in container["args"] if "=/" in argument]
    assert paths
    assert all(path.startswith(tuple(f"{mount}/" for mount in mounts)) for path in paths)


def test_probes_ask_what_the_router_answers(pod):
    (container,) = pod["containers"]
    router = (ROOT / "docs/router.md").read_text("utf-8")
    for probe in ("readinessProbe", "livenessProbe"):
        assert f"`{container[probe]['httpGet']['path']}`" in router

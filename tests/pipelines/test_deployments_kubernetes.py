"""The job template gives, through Prefect's own templating, the job its documentation promises."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prefect.workers.base import BaseJobConfiguration
from pydantic import Field

from pipelines.deployments.pools import JOB_TEMPLATE, job_template
from pipelines.deployments.settings import Settings

IMAGE = "engine@sha256:" + "0" * 64


def settings(**changes: Any) -> Settings:
    words: dict[str, Any] = {
        "root": Path("/repository"),
        "infrastructure": "kubernetes",
        "working_directory": Path("/specdecode"),
        "gpus": 2,
        "hardware": "cpu",
        "owner": "release manager",
        "notify_url": None,
    }
    return Settings(**words | changes)


class KubernetesJob(BaseJobConfiguration):
    """What prefect-kubernetes fills a template into, without its client."""

    namespace: str = "default"
    job_manifest: dict[str, Any] = Field(default_factory=dict)
    job_watch_timeout_seconds: int | None = None
    pod_watch_timeout_seconds: int = 60
    stream_output: bool = True


class NoServer:
    """No block is referred to, so nothing is asked."""


def rendered(template: dict[str, Any], **values: Any) -> dict[str, Any]:
    done = KubernetesJob.from_template_and_values.__wrapped__(
        KubernetesJob, template, {"image": IMAGE, "name": "run", **values}, client=NoServer()
    )
    return asyncio.run(done).job_manifest


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"]["template"]["spec"]


def test_a_gpu_job_asks_for_one_gpu_and_a_cpu_job_for_none() -> None:
    gpu = pod(rendered(job_template("gpu", settings())))["containers"][0]["resources"]["limits"]
    cpu = pod(rendered(job_template("cpu", settings())))["containers"][0]["resources"]["limits"]

    assert gpu["nvidia.com/gpu"] == 1
    assert "nvidia.com/gpu" not in cpu


def test_requests_equal_limits_so_that_timings_have_their_cores_to_themselves() -> None:
    manifest = rendered(job_template("cpu", settings()), cpu="4", memory="16Gi")

    resources = pod(manifest)["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "4", "memory": "16Gi"}


def test_nothing_of_the_template_is_left_unfilled() -> None:
    manifest = rendered(job_template("gpu", settings()))

    assert "{{" not in json.dumps(manifest)


def test_a_job_is_not_started_twice_and_has_time_to_put_its_row_on_disk() -> None:
    manifest = rendered(job_template("cpu", settings()))

    assert manifest["spec"]["backoffLimit"] == 0
    assert pod(manifest)["restartPolicy"] == "Never"
    assert pod(manifest)["terminationGracePeriodSeconds"] >= 60


def test_the_repository_is_mounted_where_flows_are_told_to_work() -> None:
    found = settings()
    spec = pod(rendered(job_template("cpu", found)))
    [container] = spec["containers"]

    [mount] = container["volumeMounts"]
    assert mount["mountPath"] == container["workingDir"] == str(found.working_directory)
    assert mount["name"] == spec["volumes"][0]["name"]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "specdecode-repository"


def test_a_job_runs_without_privileges() -> None:
    spec = pod(rendered(job_template("cpu", settings())))

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_it_has_the_parts_prefect_kubernetes_insists_on() -> None:
    """Its worker refuses a manifest without them."""
    manifest = rendered(job_template("cpu", settings()))

    assert (manifest["apiVersion"], manifest["kind"]) == ("batch/v1", "Job")
    assert (pod(manifest)["parallelism"], pod(manifest)["completions"]) == (1, 1)
    assert pod(manifest)["containers"][0]["name"] == "prefect-job"


def test_every_placeholder_is_a_documented_variable_with_a_valid_default() -> None:
    template = json.loads(JOB_TEMPLATE.read_text())
    variables = template["variables"]["properties"]
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(template["job_configuration"])))

    assert used == set(variables)
    for name, schema in variables.items():
        assert len(schema["description"]) > 10, name
        if "default" in schema:
            jsonschema.validate(schema["default"], schema)
    assert template["variables"]["required"] == ["image"]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_pools_of_processes_keep_prefects_own_template(name: str) -> None:
    template = job_template(name, settings(infrastructure="process"))

    assert "job_manifest" not in template["job_configuration"]

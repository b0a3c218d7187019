"""The training stage: apart from the evaluation, complete in its dependencies, a view in MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grimp
import mlflow
import pytest
import yaml

from pipelines.distil_curves import EXPERIMENT, CurveRun
from pipelines.stages import distil as stage
from pipelines.tracking import store_of
from specdecode.distil import read_withheld
from specdecode.errors import UserError
from tests.distil.conftest import SYNTHESIS, TRAINING, write_talking_model
from tests.pipelines.test_dvc_graph import HELPERS, PARAMS, STAGES, covered

ROOT = Path(__file__).resolve().parents[2]
OWN: dict[str, Any] = yaml.safe_load((ROOT / "pipelines/training/stage.yaml").read_text())["stages"]


def test_it_is_frozen_and_no_part_of_the_evaluation():
    """A frozen stage without its output would make `dvc repro` of the evaluation fail."""
    assert OWN["distil"]["frozen"] is True
    assert "distil" not in STAGES
    assert not any("models/distilled" in str(other.get("deps")) for other in STAGES.values())


def test_it_depends_on_all_code_it_imports():
    graph = grimp.build_graph("specdecode", "pipelines", cache_dir=None)
    for imported in graph.find_modules_directly_imported_by("specdecode"):
        graph.remove_import(importer="specdecode", imported=imported)
    used = graph.find_upstream_modules("pipelines.stages.distil") - HELPERS
    deps = set(OWN["distil"]["deps"])
    files = {name.replace(".", "/") for name in used}
    assert {f for f in files if not covered(f, deps) and f"{f}.py" not in deps} == set()
    assert PARAMS["prompts"]["path"] in deps


def write_curve(training: Path, steps: range) -> None:
    training.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"step": s, "tv": 1 / s, "overlap": 1 - 1 / s}) for s in steps]
    (training / "curve.jsonl").write_text("\n".join(lines) + "\n")


def test_a_curve_is_sent_once_also_over_a_kill(tmp_path):
    store, training = store_of(tmp_path, {}), tmp_path / "training"
    begun = {"layers": 2, "texts_sha256": "ab"}
    write_curve(training, range(20, 80, 20))
    first = CurveRun(store, training, begun)
    assert (first.send(), first.send()) == (3, 0)
    write_curve(training, range(20, 140, 20))
    with (training / "curve.jsonl").open("a") as file:
        file.write('{"step": 14')  # being written just now

    second = CurveRun(store, training, begun)

    assert second.run_id == first.run_id
    assert second.send() == 3
    client = mlflow.MlflowClient(tracking_uri=store.uri)
    history = client.get_metric_history(first.run_id, "overlap")
    assert [point.step for point in history] == [20, 40, 60, 80, 100, 120]
    assert client.get_run(first.run_id).data.params["layers"] == "2"
    other = CurveRun(store, training, {"layers": 2, "texts_sha256": "cd"})
    assert other.run_id != first.run_id


@pytest.mark.slow
def test_the_stage_trains_and_keeps_curve_and_evaluation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_talking_model(tmp_path / "models" / "target")
    params = {**PARAMS, "target": {**PARAMS["target"], "dtype": "float32"}}
    params["decoding"] = {**PARAMS["decoding"], "device": "cpu"}
    params["prompts"] = {**PARAMS["prompts"], "path": str(ROOT / PARAMS["prompts"]["path"])}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    small = {"tokens": 150, "held_out": 8, "shard": 8}
    monkeypatch.setattr(stage, "SYNTHESIS", SYNTHESIS.model_copy(update=small))
    monkeypatch.setattr(stage, "TRAINING", TRAINING.model_copy(update={"passes": 2}))
    monkeypatch.setattr(stage, "MINUTES", None)
    monkeypatch.setattr(stage, "CONFIRMATION", ROOT / stage.CONFIRMATION)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    stage.main()

    report = json.loads((tmp_path / "models/distilled/distil.json").read_text())
    client = mlflow.MlflowClient(tracking_uri=store_of(tmp_path, {}).uri)
    (run,) = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    found = report["evaluation"]["drafts"]["trained"]["1"]["expected_acceptance"]
    assert run.data.metrics["trained.expected_acceptance.t1"] == found
    assert run.info.status == "FINISHED"
    assert not list((tmp_path / "models/distilled").glob("work*"))


def test_without_the_digests_of_the_confirmation_prompts_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = {**PARAMS, "prompts": {**PARAMS["prompts"], "path": str(ROOT / "eval_sets/prompts")}}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))

    with pytest.raises(UserError, match=r"withheld\.json"):
        stage.main()


def test_the_digests_are_of_all_confirmation_prompts():
    folder = ROOT / stage.CONFIRMATION.parent
    locked = json.loads((folder / "confirmation.json").read_text())
    assert read_withheld(ROOT / stage.CONFIRMATION).prompts == locked["count"] == 112

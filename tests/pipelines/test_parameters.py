"""params.yaml is checked as a whole, before anything runs on it."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines import evaluate
from pipelines.parameters import Sampling, check, load_parameters, read_mapping
from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))


def changed(place: str, value: object) -> dict[str, Any]:
    params = copy.deepcopy(PARAMS)
    *parents, last = place.split(".")
    section: Any = params
    for parent in parents:
        section = section[int(parent) if isinstance(section, list) else parent]
    section[last] = value
    return params


def without(place: str) -> dict[str, Any]:
    params = copy.deepcopy(PARAMS)
    section, key = place.split(".")
    del params[section][key]
    return params


def test_the_shipped_parameters_are_returned_as_they_stand() -> None:
    assert load_parameters(ROOT / "params.yaml") == PARAMS


def test_the_copy_of_a_profile_has_no_profiles() -> None:
    check({key: value for key, value in PARAMS.items() if key != "profiles"})


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("decoding.threads", 2),
        ("decoding.device", "cuda:1"),
        ("decoding.num_speculative_tokens", 64),
        ("decoding.sampling.1.temperature", 1),
        ("decoding.sampling.1.logit_bias", {5: -3}),
        ("decoding.sampling.1.stop", "END"),
        ("decoding.sampling.1.stop", ["END", "."]),
        ("prompts.limit", None),
        ("profiles.smoke", None),
    ],
)
def test_what_stages_can_use_is_allowed(place: str, value: object) -> None:
    check(changed(place, value))


@pytest.mark.parametrize(
    ("place", "value", "allowed"),
    [
        ("profile", "", "at least 1 character"),
        ("target.dtype", "int8", "'bfloat16', 'float32' or 'float16'"),
        ("target.source", None, "valid string"),
        ("draft.kind", "x", "known there: source"),
        ("decoding.num_speculative_tokens", 0, "greater than or equal to 1"),
        ("decoding.num_speculative_tokens", 65, "less than or equal to 64"),
        ("decoding.num_speculative_tokens", True, "valid integer"),
        ("decoding.num_speculative_tokens", "5", "valid integer"),
        ("decoding.arms", [], "at least 1 item"),
        ("decoding.arms", ["plain", "plain"], "more than once: plain"),
        ("decoding.sampling", [], "at least 1 item"),
        ("decoding.sampling.0.temperature", -1, "greater than or equal to 0"),
        ("decoding.sampling.0.temperature", 1e-9, "at least 1e-4"),
        ("decoding.sampling.0.temperature", float("nan"), "finite number"),
        ("decoding.sampling.0.top_p", 0, "greater than 0"),
        ("decoding.sampling.0.topk", 3, "known there: name, temperature"),
        ("decoding.sampling.0.seed", 3, "is not a parameter"),
        ("decoding.sampling.1.name", "greedy", "more than once: greedy"),
        ("decoding.max_tokens", 0, "greater than or equal to 1"),
        ("decoding.device", "tpu", "cuda"),
        ("decoding.threads", 0, "greater than or equal to 1"),
        ("prompts.split", "all", "'development' or 'reserve'"),
        ("prompts.split", "confirmation", "write reserve (docs/confirmation.md)"),
        ("prompts.limit", 0, "greater than or equal to 1"),
        ("prompts.first_turn_only", "no", "valid boolean"),
        ("seeds.sampling", 1.5, "valid integer"),
        ("validate.min_prompts", "240", "valid integer"),
        ("validate.required_languages", [], "at least 1 item"),
        ("audit.alpha", 1.0, "less than 1"),
        ("profiles.smoke.prompts.limit", 0, "greater than or equal to 1"),
        ("profiles.smoke.prompts", 3, "valid dictionary"),
        ("profiles.smoke", [3], "valid dictionary"),
        ("seedz", {}, "known there: profile, target"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    place: str, value: object, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed(place, value))

    told = str(caught.value)
    named = place.removeprefix("profiles.smoke.")
    assert told.startswith("params.yaml: ")
    assert allowed in told
    assert (named if named != "decoding.sampling.1.name" else "decoding.sampling") in told
    assert ("profiles.smoke" in told) == place.startswith("profiles.")


@pytest.mark.parametrize("place", ["audit.alpha", "decoding.threads", "validate.min_prompts"])
def test_nothing_may_be_left_out(place: str) -> None:
    with pytest.raises(ConfigError, match=rf"^params\.yaml: {place} is missing$"):
        check(without(place))


def test_a_setting_must_say_its_temperature() -> None:
    with pytest.raises(ConfigError, match=r"decoding\.sampling\.0\.temperature is missing"):
        check(changed("decoding.sampling", [{"name": "greedy"}]))


def test_all_problems_are_told_at_once() -> None:
    params = changed("audit.alpha", 2.0)
    params["decoding"]["threads"] = "many"

    with pytest.raises(ConfigError, match=r"decoding\.threads: .*; audit\.alpha: "):
        check(params)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ({"prompts": {"limt": 2}}, "'limt', which is not a parameter"),
        ({"profile": "other"}, "sets 'profile'"),
        ({"profiles": {}}, "'profiles', which is not a parameter"),
        ({"decoding": {"max_tokens": 65}}, "decoding.max_tokens is 65"),
    ],
)
def test_a_profile_is_checked_as_laid_over_the_rest(override: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed("profiles.smoke", override))

    assert str(caught.value).startswith("params.yaml: profiles.smoke: ")
    assert told in str(caught.value)


@pytest.mark.parametrize("place", ["decoding.max_tokens", "decoding.sampling.1.max_tokens"])
def test_no_reply_may_be_longer_than_the_prompts_were_compiled_for(place: str) -> None:
    check(changed(place, PARAMS["prompts"]["max_tokens"]))

    with pytest.raises(ConfigError) as caught:
        check(changed(place, PARAMS["prompts"]["max_tokens"] + 1))
    assert f"{place} is 65, but must not exceed prompts.max_tokens, 64" in str(caught.value)


@pytest.mark.parametrize("extra", [{}, {"max_tokens": 32}, {"top_p": 1.0, "stop": []}])
def test_two_settings_with_equal_parameters_are_refused(extra: dict[str, Any]) -> None:
    twin = {"name": "again", "temperature": 1, **extra}
    params = changed("decoding.sampling", [*PARAMS["decoding"]["sampling"], twin])

    with pytest.raises(ConfigError, match="'sampled' and 'again' have equal parameters"):
        check(params)


def test_a_setting_takes_every_sampling_parameter_within_its_limits() -> None:
    ours, theirs = Sampling.model_fields, SamplingParams.model_fields
    assert set(ours) - {"name"} == set(theirs) - {"seed", "n"}
    for name in set(theirs) - {"seed", "n", "temperature", "max_tokens"}:
        default = () if name == "stop" else theirs[name].default
        assert (tuple(ours[name].default) if name == "stop" else ours[name].default) == default

    for name in ("top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "logprobs"):
        for value in (-1, 0, 1, 2, 20, 21, 0.5, float("inf")):
            assert accepts(Sampling, name, value) == accepts(SamplingParams, name, value)


def accepts(model: Any, name: str, value: object) -> bool:
    named = {"name": "x"} if model is Sampling else {}
    try:
        model(**named, temperature=1.0, **{name: value})
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n", "must hold a mapping, it holds list"),
        (b"a: [\n", "is not valid YAML"),
        (b"a: 2025-13-01\n", "is not valid YAML"),
        (b"a: \xff\n", "is not UTF-8: byte 3"),
    ],
)
def test_an_unreadable_file_ends_an_evaluation_before_any_stage_in_one_line(
    content: bytes,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        read_mapping(tmp_path / "params.yaml")

    real = evaluate.evaluate
    monkeypatch.setattr(
        evaluate, "evaluate", lambda profile, force: real(profile, tmp_path, force=force)
    )
    assert evaluate.main([]) == 2

    printed = capsys.readouterr().err
    assert told in printed
    assert printed.count("\n") == 1


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_mapping(tmp_path)


def test_the_check_loads_neither_torch_nor_great_expectations() -> None:
    code = (
        "import sys; from pipelines.stages.command import parameters; parameters(); "
        "sys.exit(bool({'torch', 'great_expectations', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

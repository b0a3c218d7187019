"""The audit's bench: both sides read the same tokens, and the ratio is that of their speeds."""

import pytest

from pipelines.bench import audit as bench
from specdecode.errors import ConfigError
from tests.audit.models import tiny_llama


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("target"))


def rows(count):
    return [
        {
            "prompt_id": f"p{index}",
            "prompt_token_ids": [1, 2 + index],
            "output_token_ids": [3 + (index + t) % 40 for t in range(10)],
            "sampling": {"temperature": 1.0, "ignore_eos": True},
        }
        for index in range(count)
    ]


@pytest.mark.parametrize("draft", [None, "prompt-lookup"])
def test_the_share_is_the_ratio_of_the_median_speeds(target, draft):
    report = bench.measure(target, rows(4), draft, repeats=3)

    assert report["tokens"] == 40
    assert len(report["bare_s"]) == len(report["audit_s"]) == 3
    bare, audited = sorted(report["bare_s"])[1], sorted(report["audit_s"])[1]
    assert report["share"] == pytest.approx(bare / audited)
    assert report["audit_tokens_per_s"] == pytest.approx(40 / audited)


def test_a_bench_without_rows_says_so(target):
    with pytest.raises(ConfigError, match="no rows"):
        bench.measure(target, [], None, repeats=1)


@pytest.mark.parametrize(("share", "code"), [(0.7, 0), (0.4, 1)])
def test_an_audit_slower_than_wanted_fails_the_command(monkeypatch, capsys, share, code):
    found = {
        "share": share, "audit_tokens_per_s": 1.0, "bare_tokens_per_s": 2.0, "measuring_s": 3.0,
    }  # fmt: skip
    monkeypatch.setattr("sys.argv", ["bench"])
    monkeypatch.setattr(bench, "load_model", lambda *_, **__: None)
    monkeypatch.setattr(bench, "records", lambda *_: [])
    monkeypatch.setattr(bench, "measure", lambda *_, **__: found)

    assert bench.main() == code
    assert f"at {share:.2f} of the bare pass's speed" in capsys.readouterr().err

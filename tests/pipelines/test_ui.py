from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import ui


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_before_the_first_evaluation_it_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ui.main([]) == 2
    assert "`make evaluate` writes the first" in capsys.readouterr().err


def test_a_tracking_server_has_its_own_pages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")

    assert ui.main([]) == 2
    assert "http://127.0.0.1:1, which has its own pages" in capsys.readouterr().err

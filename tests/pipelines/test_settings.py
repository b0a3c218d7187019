from __future__ import annotations

import re
from pathlib import Path

from pipelines import settings

ROOT = Path(__file__).resolve().parents[2]


def test_telemetry_is_off_unless_the_caller_decides_otherwise() -> None:
    environ = {"DO_NOT_TRACK": "0"}

    settings.apply(environ)

    assert environ["DO_NOT_TRACK"] == "0"
    assert all(
        environ[name] == value for name, value in settings.QUIET.items() if name != "DO_NOT_TRACK"
    )


def test_the_makefile_exports_the_same_settings() -> None:
    exported = re.findall(r"^export (\w+) = (\S+)$", (ROOT / "Makefile").read_text(), flags=re.M)

    assert dict(exported) == settings.QUIET


def test_dvc_itself_is_told_not_to_phone_home() -> None:
    config = (ROOT / ".dvc" / "config").read_text()

    assert "analytics = false" in config
    assert "check_update = false" in config


def test_only_stages_that_fetch_sources_may_reach_the_hub() -> None:
    stages = ROOT / "pipelines" / "stages"
    offline = {path.stem for path in stages.glob("*.py") if "work_offline()" in path.read_text()}

    assert {"measure", "audit"} <= offline
    assert not {"sources", "target", "draft"} & offline

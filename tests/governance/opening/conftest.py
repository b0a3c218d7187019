"""A confirmation set, locked and sealed."""

from __future__ import annotations

import pytest

from tests.governance.confirmations import build


@pytest.fixture
def site(tmp_path):
    return build(tmp_path)

"""Which addresses only this machine can reach."""

from __future__ import annotations

import pytest

from specdecode.workload.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_this_machine_alone(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "127.0.0.1.x"])  # noqa: S104
def test_all_others(host):
    assert not is_loopback(host)

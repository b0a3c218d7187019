"""Ports for servers that start slowly: free, different, and none that the system hands out."""

from __future__ import annotations

import socket

import pytest

from pipelines import ports


@pytest.fixture
def handed_out(monkeypatch, tmp_path):
    """Says from which port on the system hands them out."""

    def from_port(first):
        path = tmp_path / "range"
        path.write_text(f"{first}\t60999\n")
        monkeypatch.setattr(ports, "_HANDED_OUT", path)

    return from_port


def test_they_are_different_and_below_those_that_are_handed_out(handed_out):
    handed_out(10_050)
    found = ports.free_ports(20)

    assert len(set(found)) == 20
    assert all(10_000 <= port < 10_050 for port in found)


def test_one_that_somebody_has_is_left_alone(handed_out):
    handed_out(10_050)
    with socket.socket() as other:
        (taken,) = ports.free_ports()
        other.bind(("127.0.0.1", taken))

        assert taken not in ports.free_ports(40)


def test_where_all_are_handed_out_it_is_one_of_those(handed_out):
    handed_out(1024)
    (port,) = ports.free_ports()

    assert port >= 1024


def test_a_system_that_does_not_say_hands_out_the_usual_ones(monkeypatch, tmp_path):
    monkeypatch.setattr(ports, "_HANDED_OUT", tmp_path / "none")

    assert all(10_000 <= port < 32_768 for port in ports.free_ports(5))

"""The place to listen at is taken before the model is loaded."""

from __future__ import annotations

import socket

import pytest

from specdecode.errors import ConfigError
from specdecode.serving.listening import take_port
from specdecode.serving.run import make_server, make_service
from specdecode.serving.settings import ServerSettings
from tests.serving.servers import eventually, tiny_engine


def test_a_port_that_somebody_listens_at_by_the_time_the_model_is_loaded(tmp_path):
    """Two that bound one port: the second one to listen is told so."""
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        sockets = take_port("127.0.0.1", port)
        first.listen()
        service = make_service(tiny_engine(tmp_path / "tiny", None), ServerSettings("m"))
        server = make_server(service, ServerSettings("m", port=port), print)
        with pytest.raises(SystemExit):
            server.run(sockets)

    assert not server.started
    eventually(lambda: not service.scheduler.is_alive)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_name_takes_all_its_addresses_at_one_port(host):
    taken = take_port(host, 0)
    try:
        assert len({each.getsockname()[1] for each in taken}) == 1
        with pytest.raises(ConnectionRefusedError):  # until it listens
            socket.create_connection(("127.0.0.1", taken[0].getsockname()[1]))
    finally:
        for each in taken:
            each.close()


@pytest.mark.parametrize(
    ("host", "why"), [("no.such.host.invalid", "listen"), ("192.0.2.1", "no address of this")]
)
def test_a_host_that_is_not_here_is_said(host, why):
    with pytest.raises(ConfigError, match=why):
        take_port(host, 0)

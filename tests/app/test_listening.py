"""The listening socket: next free port unless one was asked for."""

import socket

import pytest

from app import listening
from app.listening import PortTakenError, open_listening_socket


@pytest.fixture
def taken() -> socket.socket:
    """A port that another program listens on, with a free one after it (as good as certain)."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


def test_a_taken_default_port_gives_the_next_free_one(
    taken: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = taken.getsockname()[1]
    monkeypatch.setattr(listening, "DEFAULT_PORT", port)
    with open_listening_socket("127.0.0.1", None) as listener:
        assert port < listener.getsockname()[1] < port + 100


def test_a_taken_port_that_was_asked_for_is_an_error(taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    with pytest.raises(PortTakenError, match=rf"Port {port} of 127\.0\.0\.1 .*--port NUMBER"):
        open_listening_socket("127.0.0.1", port)


def test_a_port_is_free_again_after_a_restart() -> None:
    with open_listening_socket("127.0.0.1", None) as first:
        port = first.getsockname()[1]
        first.listen()
        with socket.create_connection(("127.0.0.1", port)) as client:
            connection, _ = first.accept()
            connection.close()  # the server closes first: the port lingers in TIME_WAIT
            client.recv(1)
    with open_listening_socket("127.0.0.1", port) as second:
        assert second.getsockname()[1] == port

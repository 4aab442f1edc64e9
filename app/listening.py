"""The listening socket: the port the user asked for, or the first free one from 7860 on.

Knows no page. Called by the command line, which hands the open socket to the server, so that nobody
can take the port between finding it and using it.
"""

import errno
import os
import socket
import sys

__all__ = ["DEFAULT_PORT", "PortTakenError", "open_listening_socket"]

DEFAULT_PORT = 7860
_NUM_PORTS_TRIED = 100


class PortTakenError(Exception):
    """The port cannot be had. The message says which, and what to do."""


def open_listening_socket(host: str, port: int | None) -> socket.socket:
    """Bind `port` of `host`; None: the first free port from 7860 on.

    Raises:
        PortTakenError: the port asked for, or every port tried, is in use or not allowed.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _NUM_PORTS_TRIED) if port is None else (port,)
    for candidate in ports:
        try:
            return _bind(host, candidate)
        except OSError as error:
            reason = error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                break
    wanted = f"Port {port}" if port is not None else f"Every port from {ports[0]} to {ports[-1]}"
    raise PortTakenError(
        f"{wanted} of {host} cannot be used ({os.strerror(reason.errno or 0)}). "
        "Close the program that uses it, or choose another one with --port NUMBER."
    ) from reason


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening

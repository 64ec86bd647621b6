"""Ports that no other program can take."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port(*, for_server: bool = False) -> Iterator[int]:
    """Reserves a loopback port. Until a server listens on it, the port rejects connections, and no other program gets
    it.

    The socket that reserves the port is bound but does not listen. On Linux, a server with SO_REUSEADDR, which most
    servers set, can still bind to this port number.
    """
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        if for_server and sys.platform != "linux":
            bound.close()
        yield port

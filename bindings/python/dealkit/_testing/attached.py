"""A world on a sandbox that runs elsewhere, as its control interface over HTTP shows it."""

from __future__ import annotations

import re
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from os import getpid
from typing import TYPE_CHECKING

from dealkit import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 30.0
"""How many seconds each step of a call may take."""


class AttachedSandbox:
    """A world on a server that was started with ``--worlds``."""

    def __init__(self, url: str, ca_file: str | None, admin_token: str | None) -> None:
        self.ca_file = ca_file
        self.service_key = ""
        """The key of the world, once there is one."""
        self._connect, self.url = _connecting(url, ca_file)
        self._token = "" if admin_token is None else secret(admin_token)
        self._process: int | None = getpid()

    def call(self, method: str, target: str, body: str) -> tuple[int, bytes]:
        """Calls the control interface: the status and the body of its response."""
        if self._process is None:
            raise RuntimeError("this sandbox is closed")
        secrets = {"x-service-key": self.service_key, "x-sandbox-token": self._token}
        headers = {name: value for name, value in secrets.items() if value}
        # A connection that is kept would be shared with a process that was forked.
        connection = self._connect()
        try:
            connection.request(
                method, f"/__sandbox/{target}", body.encode(), {**headers, "content-type": "application/json"}
            )
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            why = str(error)
        finally:
            connection.close()
        raise RuntimeError(f"the sandbox at {self.url} cannot be reached: {why}")

    def close(self) -> None:
        """Ends the world, unless this process was forked from the one that began it."""
        if self._process == getpid() and self.service_key:
            try:
                self.call("DELETE", "world", "")
            except RuntimeError:
                pass  # The server is gone, and its worlds with it.
        self._process = None


def _connecting(url: str, ca_file: str | None) -> tuple[Callable[[], HTTPConnection], str]:
    """What connects to the server, and its URL."""
    matched = re.fullmatch(r"(https?)://((?:\[[0-9A-Fa-f:.]+\]|[^/?#@:\s]+)(?::\d+)?)/?", url)
    if matched is None:
        raise ConfigError(
            "the URL of a sandbox is http:// or https:// with a host and perhaps a port, such as http://127.0.0.1:8080"
        )
    scheme, where = matched.groups()
    if scheme == "http":
        return lambda: HTTPConnection(where, timeout=_PATIENCE), f"http://{where}"
    from ssl import SSLError, create_default_context

    try:
        context = create_default_context(cafile=ca_file)
    except (OSError, SSLError) as error:
        raise ConfigError(f"ca_file {ca_file} cannot be read: {error}") from None
    return lambda: HTTPSConnection(where, timeout=_PATIENCE, context=context), f"https://{where}"


def secret(text: str) -> str:
    """The text, if it is a valid key or token."""
    if not (text.isascii() and text.isprintable()) or " " in text or not 1 <= len(text) <= 1024:
        raise ConfigError("a service key or token must be 1 to 1,024 visible ASCII characters, without spaces")
    return text

"""A namespace on a sandbox server in another process, controlled over HTTP. A namespace is an isolated sandbox on the
server."""

from __future__ import annotations

import re
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from os import getpid
from typing import TYPE_CHECKING

from dealkit import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP_TIMEOUT = 30.0
"""Time limit for connecting and for each socket operation, in seconds."""


class AttachedSandbox:
    """A namespace on a server that was started with ``--namespaces``."""

    def __init__(self, url: str, ca_file: str | None, admin_token: str | None) -> None:
        self.ca_file = ca_file
        self.service_key = ""
        """The key of the namespace; empty until the namespace exists."""
        self._connect, self.url = _parse_url(url, ca_file)
        self._token = "" if admin_token is None else check_secret(admin_token)
        self._process: int | None = getpid()

    def call(self, method: str, target: str, body: str) -> tuple[int, bytes]:
        """Calls the server's control interface, ``/__sandbox``. Returns the status and the body of the response."""
        if self._process is None:
            raise RuntimeError("this sandbox is closed")
        secrets = {"x-service-key": self.service_key, "x-sandbox-token": self._token}
        headers = {name: value for name, value in secrets.items() if value}
        # A new connection for each call: a persistent one would be shared with forked processes.
        connection = self._connect()
        try:
            connection.request(
                method, f"/__sandbox/{target}", body.encode(), {**headers, "content-type": "application/json"}
            )
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException, ValueError, OverflowError) as error:
            reason = str(error)
        finally:
            connection.close()
        raise RuntimeError(f"the sandbox at {self.url} cannot be reached: {reason}")

    def close(self) -> None:
        """Deletes the namespace, unless this is a forked process and its parent created the namespace."""
        if self._process == getpid() and self.service_key:
            try:
                self.call("DELETE", "namespace", "")
            except RuntimeError:
                pass  # The server has stopped, so its namespaces no longer exist.
        self._process = None


def _parse_url(url: str, ca_file: str | None) -> tuple[Callable[[], HTTPConnection], str]:
    """Returns a function that connects to the server, and the normalized URL."""
    match = re.fullmatch(r"(https?)://((?:\[[0-9A-Fa-f:.]+\]|[^/?#@:\s]+)(?::\d+)?)/?", url)
    if match is None:
        raise ConfigError(
            "the URL of a sandbox is http:// or https:// with a host and perhaps a port, such as http://127.0.0.1:8080"
        )
    scheme, address = match.groups()
    if scheme == "http":
        return lambda: HTTPConnection(address, timeout=_STEP_TIMEOUT), f"http://{address}"
    from ssl import SSLError, create_default_context

    try:
        context = create_default_context(cafile=ca_file)
    except (OSError, SSLError) as error:
        raise ConfigError(f"ca_file {ca_file} cannot be read: {error}") from None
    return lambda: HTTPSConnection(address, timeout=_STEP_TIMEOUT, context=context), f"https://{address}"


def check_secret(secret: str) -> str:
    """Checks a service key or token, and returns it.

    Raises:
        ConfigError: The key or token is invalid.
    """
    if not (secret.isascii() and secret.isprintable()) or " " in secret or not 1 <= len(secret) <= 1024:
        raise ConfigError("a service key or token must be 1 to 1,024 visible ASCII characters, without spaces")
    return secret

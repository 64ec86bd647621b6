"""The sandbox: a server in this process, or a namespace on a server in another process."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from decimal import Decimal
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

from dealkit import AsyncClient, Client, ConfigError, Deal, _native
from dealkit._core.arguments import file_path
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import sealed, unwrap
from dealkit._testing.records import (
    CreatedAgent,
    PendingFault,
    RecordedRequest,
    agent_from_entry,
    fault_from_entry,
    request_from_entry,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import EllipsisType
    from typing import Literal, Unpack

    from dealkit._core.options import ClientOptions, Path
    from dealkit._testing.attached import AttachedSandbox

    DealLike = Mapping[str, object] | str | bytes | Deal

VARIANTS: tuple[str, ...] = _native.VARIANTS
"""The names of the variants that a ``Sandbox`` can simulate, such as ``"sparse"`` or ``"errors-html"``. A variant is a
behavior of real services where the specification leaves details open."""


_VERIFICATION_FAILED = "urn:dealkit:problem:verification-failed"
"""The type of problem in the response to a verification that failed."""


def _deal_to_json(name: str, deal: DealLike) -> str:
    if isinstance(deal, Deal):
        return deal.to_json()
    if isinstance(deal, str):
        return deal
    if isinstance(deal, bytes | bytearray):
        json_text = deal.decode("utf-8", "surrogateescape")
        if json_text.isascii() or json_text.encode("utf-8", "replace").decode() == json_text:
            return json_text
        raise ConfigError(f"{name} is not UTF-8")
    if not hasattr(deal, "keys"):
        raise TypeError(f"{name} must be a mapping, a JSON text or a Deal, not {type(deal).__name__}")
    return unwrap(_native.json_text(name, to_builtin_types(deal)))


def _start_server(settings: dict[str, Any]) -> _native.NativeSandbox:
    deals = settings.pop("deals")
    json_deals = None
    if settings["deals_file"] is not None:
        settings["deals_file"] = [file_path("deals_file", settings["deals_file"])]
    if deals is not None:
        if isinstance(deals, str | bytes) or hasattr(deals, "keys") or not hasattr(deals, "__iter__"):
            raise TypeError(f"deals must be an iterable of deals, not {type(deals).__name__}")
        json_deals = [_deal_to_json(f"deals[{index}]", deal) for index, deal in enumerate(deals)]
    tls, settings["tls"] = settings["tls"], None
    if settings["tls_client_ca"] is not None:
        settings["tls_client_ca"] = [file_path("tls_client_ca", settings["tls_client_ca"])]
    if tls is True:
        return _start_self_signed(json_deals, settings)
    if isinstance(tls, tuple | list) and len(tls) == 2:
        settings["tls"] = [file_path("tls", file) for file in tls]
    elif tls is not False:
        settings["tls"] = [file_path("tls", tls, ", a pair of them, or a bool")] * 2
    return unwrap(_native.start_sandbox(json_deals, settings))


def _start_self_signed(json_deals: list[str] | None, settings: dict[str, Any]) -> _native.NativeSandbox:
    from os import close, unlink
    from tempfile import mkstemp

    descriptor, ca_file = mkstemp(prefix="dealkit-", suffix=".pem")
    close(descriptor)
    try:
        return unwrap(_native.start_sandbox(json_deals, settings, ca_file))
    except BaseException:
        unlink(ca_file)
        raise


def _client_options(options: ClientOptions, sandbox: Sandbox) -> ClientOptions:
    defaults: ClientOptions = {"base_url": sandbox.url, "ca_file": sandbox.ca_file}
    if "service_key_file" not in options:
        defaults["service_key"] = sandbox.service_key
    return {**defaults, **options}


class Sandbox:
    """A running server that enforces all rules of the specification and stores everything in memory.

    The server listens on a loopback address, in a separate thread. It stops at ``close``, or at the end of the ``with``
    or ``async with`` block.
    """

    __slots__ = ("_server",)

    _server: _native.NativeSandbox | AttachedSandbox

    @sealed
    def __init__(
        self,
        deals: Iterable[DealLike] | None = None,
        *,
        deals_file: Path | None = None,
        generate: int | None = None,
        seed: int = 0,
        service_key: str | None = None,
        strict: bool = False,
        variant: str = "reference",
        rate_limit: int | None = None,
        max_agents: int | None = None,
        max_store_bytes: int | None = None,
        namespaces: str | None = None,
        max_namespaces: int | None = None,
        max_body_bytes: int | None = None,
        admin_token: str | None = None,
        tls: bool | Path | tuple[Path, Path] = False,
        tls_client_ca: Path | None = None,
        port: int = 0,
    ) -> None:
        """Starts the server.

        Args:
            deals: The deals to serve: mappings, JSON texts (served byte for byte) or ``Deal`` objects. Default: three
                sample deals, ``d_1``, ``d_2`` and ``d_3``.
            deals_file: A file of deals to serve, as written by ``save_deals``: a JSON array, or one deal per line.
            generate: The number of deals to generate, ``g_0``, ``g_1`` and so on; at most a million.
            seed: The random seed for generated deals. Equal seeds give equal deals.
            service_key: The key that requests must have. Default: ``sandbox-key``.
            strict: Whether to reject undocumented fields.
            variant: One of ``VARIANTS``, or several separated by commas, which apply one after another. A variant makes
                the server behave like a real service where the specification leaves details open.
            rate_limit: The number of requests per second that each namespace accepts. Further requests get a 429 with
                ``Retry-After``. Default: no limit.
            max_agents: The maximum number of agents. Default: 1,000,000. Beyond that, creates get a 507.
            max_store_bytes: The maximum size, in bytes of JSON, of the agents and added deals of all namespaces.
                Default: 1 GiB. Beyond that, creates get a 507.
            namespaces: The service keys for which ``Sandbox.attach`` may create namespaces, which are isolated
                sandboxes on this server: keys, or prefixes that end in ``*``, separated by commas, such as ``test-*``.
            max_namespaces: The maximum number of namespaces. Default: 1,000.
            max_body_bytes: The maximum length of a request's body. Default: 1 MiB. A request with a longer body gets a
                413.
            admin_token: The token that the server's control interface requires in the header ``x-sandbox-token``.
            tls: True for TLS with a self-signed certificate, for which clients need ``ca_file``. For your own
                certificate, pass the files ``(certificate, key)``, or one file with the certificate and the key (PEM,
                unencrypted).
            tls_client_ca: A file (PEM) of CA certificates. Clients must then present a certificate from one of these
                CAs.
            port: The port to listen on. 0 picks a free port.

        Raises:
            ConfigError: A deal or a setting is invalid, or the port is in use.
        """
        settings = {**locals()}
        del settings["self"]
        self._server = _start_server(settings)

    @classmethod
    @sealed
    def attach(
        cls,
        url: str,
        *,
        ca_file: Path | None = None,
        admin_token: str | None = None,
        service_key: str | None = None,
        variant: str | None = None,
        strict: bool | None = None,
    ) -> Self:
        """Creates a namespace on a running server, which was started with ``dealkit-server --namespaces 'test-*'``.

        The namespace has all methods of a sandbox, and is isolated from other namespaces on the server. It is deleted
        at ``close``, or at the end of the ``with`` block.

        >>> with Sandbox(namespaces="test-*") as server:  # in place of: dealkit-server --namespaces 'test-*'
        ...     with Sandbox.attach(server.url) as one, Sandbox.attach(server.url) as other:
        ...         one.insert_deal({"id": "mine"})
        ...         one.fail_next(status=503)
        ...         print(one.service_key != other.service_key, len(one.faults), len(other.faults))
        True 1 0

        Args:
            url: The server's URL, such as ``http://127.0.0.1:8080``.
            ca_file: A file (PEM) of CA certificates to trust. For a server with a self-signed certificate, pass the
                file that the server has written for ``--tls-ca-out``.
            admin_token: The server's ``--admin-token``. If the server has no such token, its ``--service-key``, if any.
            service_key: The namespace's key. Default: a new key, generated by the server.
            variant: The variants of this namespace. Default: the variants of the server.
            strict: Whether to reject undocumented fields in this namespace. Default: as on the server.

        Raises:
            ConfigError: The server cannot be reached, requires a token, does not permit the key, or has too many
                namespaces.
        """
        from dealkit._testing.attached import AttachedSandbox, check_secret

        file = None if ca_file is None else file_path("ca_file", ca_file)
        sandbox = object.__new__(cls)
        server = sandbox._server = AttachedSandbox(url, file, admin_token)
        try:
            key = sandbox._call("POST", "namespace")["service_key"] if service_key is None else service_key
            server.service_key = check_secret(key)
            sandbox._call("PUT", "namespace", {"variant": variant, "strict": strict})
        except RuntimeError as error:
            raise ConfigError(str(error)) from None
        except ConfigError:
            sandbox.close()
            raise
        return sandbox

    def _call(self, method: str, path: str, body: object = None, /, **query: object) -> Any:
        """Calls the control interface and returns its parsed response.

        Raises:
            ConfigError: The control interface rejects the call.
            AssertionError: A verification failed.
        """
        return self._parse(self._exchange(method, path, body, **query))

    def _exchange(self, method: str, path: str, body: object = None, /, **query: object) -> bytes:
        """Calls the control interface and returns the body of its response."""
        parameters = {name: value for name, value in query.items() if value is not None}
        text = (
            ""
            if body is None
            else body
            if isinstance(body, str)
            else unwrap(_native.json_text("body", to_builtin_types(body)))
        )
        status, response = unwrap(self._server.call(method, f"{path}?{urlencode(parameters)}", text))
        if status < 400:
            return response
        problem = self._parse(response)
        try:
            error = AssertionError if problem["type"] == _VERIFICATION_FAILED else ConfigError
            raise error(problem["detail"])
        except (LookupError, TypeError):
            raise self._not_a_sandbox() from None

    def _parse(self, response: bytes) -> Any:
        try:
            return json.loads(response, parse_float=Decimal) if response else None
        except ValueError:
            raise self._not_a_sandbox() from None

    def _not_a_sandbox(self) -> RuntimeError:
        return RuntimeError(f"{self.url} does not respond as a sandbox does")

    def _list_entries(self, name: str, /, **query: object) -> list[Any]:
        """Reads all pages of a list."""
        entries, after = [], None
        while True:
            page = self._call("GET", name, limit=1000, after=after, **query)
            entries += page[name]
            after = page["next"]
            if after is None:
                return entries

    @property
    def url(self) -> str:
        """The base URL for a client, such as ``http://127.0.0.1:40123``, or with ``tls`` ``https://…``."""
        return self._server.url

    @property
    def service_key(self) -> str:
        """The key that requests must have, unless ``accept_keys`` has replaced it."""
        return self._server.service_key

    @property
    def ca_file(self) -> str | None:
        """With ``tls=True``, the file (PEM) of the CA certificate that clients must trust, also for programs such as
        ``curl --cacert``. The file is deleted when the sandbox is closed. After ``attach``, the ``ca_file`` passed to
        it."""
        return self._server.ca_file

    @sealed
    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """Creates a client of this sandbox that trusts its certificate. Takes the options of ``Client``.

        >>> with Sandbox(tls=True) as sandbox, sandbox.client(timeout=5) as client:
        ...     deal = client.deals.retrieve("d_1")
        """
        return Client(**_client_options(options, self))

    @sealed
    def async_client(self, **options: Unpack[ClientOptions]) -> AsyncClient:
        """Creates an ``AsyncClient`` of this sandbox that trusts its certificate."""
        return AsyncClient(**_client_options(options, self))

    @sealed
    def accept_keys(self, *keys: str) -> None:
        """Accepts only these service keys from now on. To simulate a key rotation, first accept the old and the new
        key, and then only the new key.

        >>> with Sandbox() as sandbox:
        ...     sandbox.accept_keys("sandbox-key", "next-key")
        ...     sandbox.accept_keys("next-key")
        """
        self._call("PUT", "keys", [*keys])

    @property
    def agents(self) -> list[CreatedAgent]:
        """The agents created so far, in order. The attribute ``sent`` of each has the request that created it."""
        return [agent_from_entry(entry) for entry in self._list_entries("agents")]

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests to /v1, up to 1,000 and 16 MiB, in the order of their responses.

        A request is listed as soon as its client has the response. ``clear_requests`` clears the list.
        """
        return [request_from_entry(entry) for entry in self._list_entries("requests")]

    @sealed
    def wait_for(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        held: bool = False,
        count: int = 1,
        timeout: float = 30.0,
    ) -> list[RecordedRequest]:
        """Waits until ``count`` matching requests have received a response, and returns all matching requests. Use it
        in tests of background work. Requests before this call count too.

        >>> from threading import Thread
        >>> from dealkit import Client
        >>> with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
        ...     Thread(target=client.deals.retrieve, args=["d_1"]).start()
        ...     [request] = sandbox.wait_for(method="GET", path="/v1/deals/{id}", timeout=30)
        ...     print(request.status)
        200

        In async code: ``await asyncio.to_thread(sandbox.wait_for, path="/v1/agents")``.

        Args:
            method: Only requests with this method, such as ``"POST"``.
            path: Only requests to this path; a segment in braces, as in ``/v1/deals/{id}``, matches any segment.
            status: Only requests that received this status.
            held: Wait until ``count`` matching requests are held at the same time (``fail_next(hold=True)``), instead
                of waiting for responses.
            count: The number of requests, at most 1,000. Requests whose connection broke count too.
            timeout: The maximum time to wait, in seconds.

        Raises:
            TimeoutError: Fewer than ``count`` requests matched in that time. Held requests stay held.
        """
        filters = {"method": method, "path": path, "status": status, "held": "true" if held else None, "count": count}
        deadline = monotonic() + timeout
        # Waits in native code are short, because Python runs signal handlers only between native calls. Waits on a
        # socket may be longer, because signals interrupt them.
        max_wait = 0.05 if isinstance(self._server, _native.NativeSandbox) else 10.0
        while True:
            wait_seconds = max(0.0, min(deadline - monotonic(), max_wait))
            if not self._call("GET", "requests", **filters, wait=wait_seconds, limit=1)["timed_out"]:
                return [request_from_entry(entry) for entry in self._list_entries("requests", **filters, wait=0)]
            if wait_seconds < max_wait:
                break
        matching_count = len(self._list_entries("requests", **filters, wait=0))
        raise TimeoutError(f"{matching_count} of {count} requests arrived in time")

    @sealed
    def verify(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        headers: Mapping[str, str | Literal[True]] | None = None,
        body: Mapping[str, object] | None = None,
        times: int = 1,
    ) -> None:
        """Checks that exactly ``times`` of the ``requests`` match the arguments.

        >>> with Sandbox() as sandbox, sandbox.client() as client:
        ...     agent = client.agents.create(email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={})
        ...     sandbox.verify(method="POST", path="/v1/agents", body={"email": "ada@example.com"})
        ...     sandbox.verify(path="/v1/agents", body={"email": "bob@example.com"})
        Traceback (most recent call last):
        ...
        AssertionError: expected 1 request: /v1/agents with a body; found 0
        These requests have arrived:
          1. POST /v1/agents 201: differs in body /email

        Args:
            method: Only requests with this method, such as ``"POST"``.
            path: Only requests to this path; a segment in braces, as in ``/v1/deals/{id}``, matches any segment.
            headers: Only requests with these headers: names, which are case-insensitive, and for each its value, or
                True for any value. The values of secrets such as ``x-service-key`` are not recorded.
            body: Only requests whose body contains this object: all its fields, at every depth. Lists must have the
                same length, and numbers the same value.
            times: The number of matching requests.

        Raises:
            AssertionError: Another number of requests match. The message lists the requests that arrived and what
                differs, without values.
            ValueError: The arguments are invalid, or no request can have this method and path.
        """
        pattern = {"method": method, "path": path, "headers": headers, "body": body, "times": times}
        self._call("POST", "verify", {name: value for name, value in pattern.items() if value is not None})

    def clear_requests(self) -> None:
        """Clears the list of requests."""
        self._call("DELETE", "requests")

    @sealed
    def fail_next(
        self,
        *,
        status: int | None = None,
        retry_after: float | str | None = None,
        body: str | Mapping[str, object] | Sequence[object] | None = None,
        hold: bool = False,
        delay: float | None = None,
        cut: str | None = None,
        after_cut: Literal["reset", "eof", "stall"] | None = None,
        malformed: bool = False,
        process_then_reset: bool = False,
        method: str | None = None,
        path: str | None = None,
        request_header: Mapping[str, str | Literal[True]] | None = None,
        request_body: Mapping[str, object] | None = None,
        after: int | None = None,
        times: int | EllipsisType | None = ...,
        probability: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Adds a fault: a failure that the sandbox simulates. The fault applies to the next request to /v1, or to the
        requests that the arguments select.

        >>> with Sandbox() as sandbox:
        ...     sandbox.fail_next(status=503, times=2, retry_after=1)
        ...     sandbox.fail_next(delay=0.5, path="/v1/deals/{id}")
        ...     sandbox.fail_next(hold=True, status=503, path="/v1/deals/{id}")
        ...     sandbox.fail_next(cut="after-bytes:10", after_cut="eof", times=None, probability=0.1, seed=7)
        ...     sandbox.fail_next(process_then_reset=True, method="POST", after=3)
        ...     sandbox.fail_next(status=422, request_body={"email": "ada@example.com"}, times=None)

        If several faults match a request, only the fault that was added first applies. A fault is removed when it has
        applied ``times`` times.

        Args:
            status: Respond with this status (200 to 599); the request is not processed.
            retry_after: The header ``Retry-After`` of the response with ``status``: a number of seconds, or any text.
            body: The body of the response with ``status``: a str, or a mapping or list, which is sent as JSON. Default:
                problem details.
            hold: Hold the request until ``release`` is called. All other effects of the fault follow the release.
            delay: Delay the response by this many seconds, at most 3600, from the request's arrival or release.
            cut: Cut the response at this position: ``"before-head"`` (the request is not processed), ``"in-head"``
                (after the status line and four bytes) or ``"after-bytes:N"`` (after N bytes of the body).
            after_cut: After the cut, reset the connection (``"reset"``, the default), close it normally (``"eof"``), or
                leave it open but send nothing more (``"stall"``).
            malformed: Send a malformed HTTP response and close the connection; the request is not processed.
            process_then_reset: Process the request (create the agent), then reset the connection without a response.
            method: Only requests with this method, such as ``"POST"``.
            path: Only requests to this path; a segment in braces, as in ``/v1/deals/{id}``, matches any segment.
            request_header: Only requests with these headers: names, which are case-insensitive, and for each its value,
                or True for any value.
            request_body: Only requests whose body contains this object: all its fields, at every depth. Lists must have
                the same length, and numbers the same value.
            after: Skip this many matching requests.
            times: Apply the fault this many times; None for no limit. Default: once.
            probability: Apply the fault with this probability, from 0 to 1. Default: 1.
            seed: The random seed for ``probability``. With equal seeds, the fault applies to the same requests.
                Default: 0.

        Raises:
            ValueError: The fault is invalid, or no request can have its method and path. The message contains the
                allowed values.
        """
        arguments = {**locals()}
        del arguments["self"]
        # An argument with its default is not sent. The default is None, except for `times`, where None means no limit.
        default_values = {name: ... if name == "times" else None for name in arguments}
        fault = {name: value for name, value in arguments.items() if value is not default_values[name]}
        self._call("POST", "faults", unwrap(_native.json_text("the fault", to_builtin_types(fault))))

    def release(self) -> int:
        """Releases all requests held by ``fail_next(hold=True)``, so that they are processed, and returns their number.

        A fault that is still pending holds later requests too. A held request that is never released ends without a
        response when its client disconnects, or when the sandbox is reset or closed.

        >>> from threading import Thread
        >>> with Sandbox() as sandbox, sandbox.client() as client:
        ...     sandbox.fail_next(hold=True)
        ...     call = Thread(target=client.deals.retrieve, args=["d_1"])
        ...     call.start()
        ...     [request] = sandbox.wait_for(held=True)
        ...     print(request.method, request.status, call.is_alive())
        ...     print(sandbox.release())
        ...     call.join()
        GET None True
        1
        """
        released: int = self._call("POST", "release")["released"]
        return released

    @property
    def faults(self) -> list[PendingFault]:
        """The pending faults, in the order of addition.

        >>> with Sandbox() as sandbox:
        ...     sandbox.fail_next(status=503, times=2)
        ...     sandbox.faults[0].arguments
        {'status': 503, 'times': 2}
        """
        return [fault_from_entry(entry) for entry in self._list_entries("faults")]

    def clear_faults(self) -> None:
        """Removes all pending faults."""
        self._call("DELETE", "faults")

    @sealed
    def insert_deal(self, deal: DealLike) -> None:
        """Adds a deal, or replaces the deal with the same id."""
        json_deal = _deal_to_json("deal", deal)
        try:
            id = str(json.loads(json_deal)["id"])
        except (ValueError, LookupError, TypeError):
            id = "unknown"  # The deal is invalid. The sandbox's response reports the error.
        self._call("PUT", f"deals/{quote(id, safe='', errors='replace')}", json_deal)

    @sealed
    def save_deals(self, path: Path) -> None:
        """Saves the present deals to a file, a JSON array with each deal as it is served, byte for byte.
        ``Sandbox(deals_file=…)`` and ``dealkit-server --deals`` read such a file.

        Raises:
            OSError: The file cannot be written. An existing file stays unchanged.
        """
        file_name = file_path("path", path)
        new_file_name = f"{file_name}.part"
        try:
            with open(new_file_name, "wb") as file:
                separator, after = b"[\n", None
                while (deals := self._exchange("GET", "deals.json", limit=1000, after=after)) != b"[]\n":
                    file.write(separator + deals.removeprefix(b"[\n").removesuffix(b"\n]\n"))
                    separator, after = b",\n", json.loads(deals)[-1]["id"]
                file.write(b"[]\n" if after is None else b"\n]\n")
            os.replace(new_file_name, file_name)
        except BaseException:
            with suppress(OSError):
                os.unlink(new_file_name)
            raise

    @sealed
    def reload_deals(self) -> None:
        """Reads the file of deals again, and replaces all deals. Agents, faults and requests stay. The file is
        ``deals_file``, or after ``attach`` the file of the server's flag ``--deals``.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "deals.json"
        ...     with Sandbox([{"id": "won", "status": "CLOSED"}]) as sandbox:
        ...         sandbox.save_deals(file)
        ...     with Sandbox(deals_file=file) as sandbox, sandbox.client() as client:
        ...         _ = file.write_text(file.read_text().replace("CLOSED", "OPEN"))
        ...         sandbox.reload_deals()
        ...         print(client.deals.retrieve("won").status)
        OPEN

        Raises:
            ValueError: There is no file, it cannot be read, or deals are invalid. The message names each invalid deal
                by its file, line or index, and JSON pointer. The deals stay unchanged.
        """
        self._call("POST", "reload")

    def reset(self) -> None:
        """Restores the initial state: removes all agents, added deals, faults and recorded requests, drops held
        requests without a response, and accepts the initial key.

        The next agent's id is ``a_1``.
        """
        self._call("POST", "reset")

    def close(self) -> None:
        """Stops the server immediately, or deletes the attached namespace."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception_details: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception_details: object) -> None:
        self.close()

    def __repr__(self) -> str:
        # `_server` is missing if the sandbox could not start. Error trackers may show such an object.
        return f"Sandbox(url={self.url!r})" if hasattr(self, "_server") else "Sandbox()"

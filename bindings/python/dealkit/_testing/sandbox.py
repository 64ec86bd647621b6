"""The server to test against, inside this process or elsewhere."""

from __future__ import annotations

import json
from decimal import Decimal
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

from dealkit import AsyncClient, Client, ConfigError, Deal, _native
from dealkit._core.arguments import file_path
from dealkit._core.builtin_types import to_builtin_types
from dealkit._core.errors import sealed, unwrap
from dealkit._testing.recorded import CreatedAgent, PendingFault, RecordedRequest, created, pending, recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import EllipsisType
    from typing import Literal, Unpack

    from dealkit._core.options import ClientOptions, Path
    from dealkit._testing.attached import AttachedSandbox

    DealLike = Mapping[str, object] | str | bytes | Deal

READINGS: tuple[str, ...] = _native.READINGS
"""The names of the readings that a ``Sandbox`` can have: other ways in which a service may interpret the
specification where it leaves something open, such as ``"sparse"`` or ``"errors-html"``."""


def _text(name: str, deal: DealLike) -> str:
    """The JSON text of a deal."""
    if isinstance(deal, Deal):
        return deal.to_json()
    if isinstance(deal, str):
        return deal
    if isinstance(deal, bytes | bytearray):
        text = deal.decode("utf-8", "surrogateescape")
        if text.isascii() or text.encode("utf-8", "replace").decode() == text:
            return text
        raise ConfigError(f"{name} is not UTF-8")
    if not hasattr(deal, "keys"):
        raise TypeError(f"{name} must be a mapping, a JSON text or a Deal, not {type(deal).__name__}")
    return unwrap(_native.json_text(name, to_builtin_types(deal)))


def _start(given: dict[str, Any]) -> _native.NativeSandbox:
    deals = given.pop("deals")
    texts = None
    if deals is not None:
        if isinstance(deals, str | bytes) or hasattr(deals, "keys") or not hasattr(deals, "__iter__"):
            raise TypeError(f"deals must be an iterable of deals, not {type(deals).__name__}")
        texts = [_text(f"deals[{at}]", deal) for at, deal in enumerate(deals)]
    tls, given["tls"] = given["tls"], None
    if given["tls_client_ca"] is not None:
        given["tls_client_ca"] = [file_path("tls_client_ca", given["tls_client_ca"])]
    if tls is True:
        return _start_self_signed(texts, given)
    if isinstance(tls, tuple | list) and len(tls) == 2:
        given["tls"] = [file_path("tls", file) for file in tls]
    elif tls is not False:
        given["tls"] = [file_path("tls", tls, ", a pair of them, or a bool")] * 2
    return unwrap(_native.start_sandbox(texts, given))


def _start_self_signed(texts: list[str] | None, given: dict[str, Any]) -> _native.NativeSandbox:
    from os import close, unlink
    from tempfile import mkstemp

    descriptor, ca_file = mkstemp(prefix="dealkit-", suffix=".pem")
    close(descriptor)
    try:
        return unwrap(_native.start_sandbox(texts, given, ca_file))
    except BaseException:
        unlink(ca_file)
        raise


def _options(given: ClientOptions, sandbox: Sandbox) -> ClientOptions:
    own: ClientOptions = {"base_url": sandbox.url, "ca_file": sandbox.ca_file}
    if "service_key_file" not in given:
        own["service_key"] = sandbox.service_key
    return {**own, **given}


class Sandbox:
    """A running server that enforces every rule of the contract and keeps everything in memory.

    It listens on a loopback address as soon as it is created, on a thread of its own, and stops when it is closed or
    when its ``with`` or ``async with`` block is left.
    """

    __slots__ = ("_server",)

    _server: _native.NativeSandbox | AttachedSandbox

    @sealed
    def __init__(
        self,
        deals: Iterable[DealLike] | None = None,
        *,
        generate: int | None = None,
        seed: int = 0,
        service_key: str | None = None,
        strict: bool = False,
        reading: str = "reference",
        rate_limit: int | None = None,
        max_agents: int | None = None,
        max_store_bytes: int | None = None,
        worlds: str | None = None,
        max_worlds: int | None = None,
        max_body_bytes: int | None = None,
        admin_token: str | None = None,
        tls: bool | Path | tuple[Path, Path] = False,
        tls_client_ca: Path | None = None,
        port: int = 0,
    ) -> None:
        """Starts the server.

        Args:
            deals: The deals to serve: mappings, JSON texts (served byte for byte) or ``Deal`` objects. By default, it
                serves three samples, ``d_1``, ``d_2`` and ``d_3``.
            generate: How many deals to generate, ``g_0``, ``g_1`` and so on; at most a million.
            seed: The seed for generated deals: the same seed gives the same deals.
            service_key: The key that requests must have. Default: ``sandbox-key``.
            strict: Whether undocumented fields are violations.
            reading: How to read the specification where it is open: one of ``READINGS``, or several separated by
                commas, which apply one after another.
            rate_limit: How many requests to accept per second, in each world; the rest get a 429 with ``Retry-After``.
            max_agents: How many agents can be created. Default: 1,000,000. Beyond that, creates get a 507.
            max_store_bytes: How many bytes of JSON to keep for agents, and for deals beyond the initial ones, in all
                worlds together. Default: 1 GiB. Beyond that, creates get a 507.
            worlds: Keys that have worlds of their own, which ``Sandbox.attach`` creates: keys, and prefixes that end in
                ``*``, separated by commas, such as ``test-*``.
            max_worlds: How many of them there can be. Default: 1,000.
            max_body_bytes: How long the body of a request can be. Default: 1 MiB. A longer one gets a 413.
            admin_token: The token that the control interface requires in ``x-sandbox-token``.
            tls: True speaks TLS with a self-signed certificate, which its clients trust through ``ca_file``. For your
                own certificate, give the files ``(certificate, key)``, or one file with both (PEM, unencrypted).
            tls_client_ca: A file (PEM) of CAs; clients must then present a certificate from one of them.
            port: The port to listen on; 0 picks a free one.

        Raises:
            ConfigError: A deal or a setting is wrong, or the port is taken.
        """
        given = {**locals()}
        del given["self"]
        self._server = _start(given)

    @classmethod
    @sealed
    def attach(
        cls,
        url: str,
        *,
        ca_file: Path | None = None,
        admin_token: str | None = None,
        service_key: str | None = None,
        reading: str | None = None,
        strict: bool | None = None,
    ) -> Self:
        """A separate world on a server that runs elsewhere, started with ``dealkit-server --worlds 'test-*'``.

        It has the methods of a sandbox, and neither sees nor affects what other tests do on that server. It ends when
        it is closed or when its ``with`` block is left.

        >>> with Sandbox(worlds="test-*") as server:  # in place of: dealkit-server --worlds 'test-*'
        ...     with Sandbox.attach(server.url) as one, Sandbox.attach(server.url) as other:
        ...         one.insert_deal({"id": "mine"})
        ...         one.fail_next(status=503)
        ...         print(one.service_key != other.service_key, len(one.faults), len(other.faults))
        True 1 0

        Args:
            url: The server, such as ``http://127.0.0.1:8080``.
            ca_file: A file (PEM) of the certificates to trust, if it uses a self-signed one for TLS: what it wrote to
                ``--tls-ca-out``.
            admin_token: The server's ``--admin-token`` or, if it has none, the service key you chose for it.
            service_key: The world's key. Default: one that the server makes up.
            reading: How this world reads the specification. Default: like the server.
            strict: Whether undocumented fields are violations in this world. Default: as on the server.

        Raises:
            ConfigError: The server cannot be reached, requires the token, or has no such world or no room for another
                one.
        """
        from dealkit._testing.attached import AttachedSandbox, secret

        file = None if ca_file is None else file_path("ca_file", ca_file)
        sandbox = object.__new__(cls)
        server = sandbox._server = AttachedSandbox(url, file, admin_token)
        try:
            key = sandbox._ask("POST", "world")["service_key"] if service_key is None else service_key
            server.service_key = secret(key)
            sandbox._ask("PUT", "world", {"reading": reading, "strict": strict})
        except RuntimeError as error:
            raise ConfigError(str(error)) from None
        except ConfigError:
            sandbox.close()
            raise
        return sandbox

    def _ask(self, method: str, path: str, body: object = None, /, **query: object) -> Any:
        """What the control interface responds. If it refuses the call, a ConfigError says why."""
        given = {name: value for name, value in query.items() if value is not None}
        text = (
            ""
            if body is None
            else body
            if isinstance(body, str)
            else unwrap(_native.json_text("body", to_builtin_types(body)))
        )
        status, response = unwrap(self._server.call(method, f"{path}?{urlencode(given)}", text))
        try:
            read: Any = json.loads(response, parse_float=Decimal) if response else None
            refused = read["detail"] if status >= 400 else None
        except (ValueError, LookupError, TypeError):
            raise RuntimeError(f"{self.url} does not respond as a sandbox does") from None
        if refused is not None:
            raise ConfigError(refused)
        return read

    def _list(self, name: str, /, **query: object) -> list[Any]:
        """All entries of a list, on however many pages."""
        entries, after = [], None
        while True:
            page = self._ask("GET", name, limit=1000, after=after, **query)
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
        """With ``tls=True``, the file (PEM) of the certificate to trust, for clients and programs such as ``curl
        --cacert``, until the sandbox is closed; for a server that runs elsewhere, the file given to ``attach``."""
        return self._server.ca_file

    @sealed
    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """A client for this sandbox, which trusts its certificate; it takes the options of ``Client``.

        >>> with Sandbox(tls=True) as sandbox, sandbox.client(timeout=5) as client:
        ...     deal = client.deals.retrieve("d_1")
        """
        return Client(**_options(options, self))

    @sealed
    def async_client(self, **options: Unpack[ClientOptions]) -> AsyncClient:
        """The same as an ``AsyncClient``."""
        return AsyncClient(**_options(options, self))

    @sealed
    def accept_keys(self, *keys: str) -> None:
        """From now on, accepts only these service keys, like a service whose keys are rotated: first the old and the
        new one, then only the new one.

        >>> with Sandbox() as sandbox:
        ...     sandbox.accept_keys("sandbox-key", "next-key")
        ...     sandbox.accept_keys("next-key")
        """
        self._ask("PUT", "keys", [*keys])

    @property
    def agents(self) -> list[CreatedAgent]:
        """The agents created so far, in order: as the response showed them, and as ``sent``."""
        return [created(entry) for entry in self._list("agents")]

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests to /v1, in the order of their responses: up to 1,000, and 16 MiB.

        A request is listed by the time its client has the response. ``clear_requests`` forgets them.
        """
        return [recorded(entry) for entry in self._list("requests")]

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
        """Waits until the sandbox has responded to ``count`` requests, and returns all that match: for tests of
        background work. Earlier requests count too.

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
            status: Only requests that got this status.
            held: Wait until requests are held at the same time (``fail_next(hold=True)``) instead of answered.
            count: How many requests, at most 1,000. Those whose connection broke are included.
            timeout: The seconds to wait.

        Raises:
            TimeoutError: Fewer than ``count`` requests matched in that time. Held ones stay held.
        """
        wanted = {"method": method, "path": path, "status": status, "held": "true" if held else None, "count": count}
        deadline = monotonic() + timeout
        # Python handles signals between two calls of native code, and while it waits for a response of another process.
        longest = 0.05 if isinstance(self._server, _native.NativeSandbox) else 10.0
        while True:
            left = max(0.0, min(deadline - monotonic(), longest))
            if not self._ask("GET", "requests", **wanted, wait=left, limit=1)["timed_out"]:
                return [recorded(entry) for entry in self._list("requests", **wanted, wait=0)]
            if left < longest:
                break
        came = len(self._list("requests", **wanted, wait=0))
        raise TimeoutError(f"{came} of {count} requests came in time")

    def clear_requests(self) -> None:
        """Forgets the requests so far."""
        self._ask("DELETE", "requests")

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
        how: Literal["reset", "eof", "stall"] | None = None,
        garbage: bool = False,
        act_then_reset: bool = False,
        method: str | None = None,
        path: str | None = None,
        after: int | None = None,
        times: int | EllipsisType | None = ...,
        probability: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Makes the next request to /v1, or those that the arguments select, go wrong.

        >>> with Sandbox() as sandbox:
        ...     sandbox.fail_next(status=503, times=2, retry_after=1)
        ...     sandbox.fail_next(delay=0.5, path="/v1/deals/{id}")
        ...     sandbox.fail_next(hold=True, status=503, path="/v1/deals/{id}")
        ...     sandbox.fail_next(cut="after-bytes:10", how="eof", times=None, probability=0.1, seed=7)
        ...     sandbox.fail_next(act_then_reset=True, method="POST", after=3)

        If several faults match a request, the first one applies; a fault that has happened as often as it should is
        removed.

        Args:
            status: Respond with this status (200 to 599) instead of the real response; the request is not acted on.
            retry_after: The ``Retry-After`` of that response: a number of seconds, or any text.
            body: The body of that response: a str, or a mapping or list, which is sent as JSON. Default: problem
                details.
            hold: Hold the request until ``release`` is called, before anything else happens to it.
            delay: Delay the response by this many seconds, at most 3600, from the request's arrival or release.
            cut: Where to break off the response: ``"before-head"`` (the request is not acted on), ``"in-head"`` (after
                the status line and four bytes) or ``"after-bytes:N"`` (after N bytes of the body).
            how: What happens to the connection at that point: ``"reset"`` (the default), ``"eof"`` (an orderly close)
                or ``"stall"`` (nothing more is sent).
            garbage: Send an invalid HTTP response and close the connection; the request is not acted on.
            act_then_reset: Act on the request (create the agent), then reset the connection without a response.
            method: Only requests with this method, such as ``"POST"``.
            path: Only requests to this path; a segment in braces, as in ``/v1/deals/{id}``, matches any segment.
            after: Only after this many matching requests.
            times: How often it happens; None for ever. Default: once.
            probability: How likely it is, from 0 to 1. Default: always.
            seed: The seed for ``probability``: the same seed affects the same requests. Default: 0.

        Raises:
            ValueError: The fault is invalid, or no request can have its method and path. The message says what is
                wrong, and what is allowed.
        """
        given = {**locals()}
        del given["self"]
        # For `times`, None means no limit; for the others, it means not given.
        absent = {name: ... if name == "times" else None for name in given}
        fault = {name: value for name, value in given.items() if value is not absent[name]}
        self._ask("POST", "faults", unwrap(_native.json_text("the fault", to_builtin_types(fault))))

    def release(self) -> int:
        """Releases all requests that ``fail_next(hold=True)`` holds, so that each is acted on and gets its response, and
        returns how many there were.

        A request that arrives later is held again if the fault is still pending. A held request that is never released
        ends without a response when its client disconnects, or the sandbox is reset or closed.

        >>> from threading import Thread
        >>> with Sandbox() as sandbox, sandbox.client() as client:
        ...     sandbox.fail_next(hold=True)
        ...     call = Thread(target=client.deals.retrieve, args=["d_1"])
        ...     call.start()
        ...     [request] = sandbox.wait_for(held=True)
        ...     print(request.method, request.status, call.is_alive())  # until it is released
        ...     print(sandbox.release())
        ...     call.join()
        GET None True
        1
        """
        released: int = self._ask("POST", "release")["released"]
        return released

    @property
    def faults(self) -> list[PendingFault]:
        """The pending faults, in the order in which they were added.

        >>> with Sandbox() as sandbox:
        ...     sandbox.fail_next(status=503, times=2)
        ...     sandbox.faults[0].arguments
        {'status': 503, 'times': 2}
        """
        return [pending(fields) for fields in self._list("faults")]

    def clear_faults(self) -> None:
        """Removes all pending faults."""
        self._ask("DELETE", "faults")

    @sealed
    def insert_deal(self, deal: DealLike) -> None:
        """Adds a deal, or replaces the one with the same id."""
        text = _text("deal", deal)
        try:
            id = str(json.loads(text)["id"])
        except (ValueError, LookupError, TypeError):
            id = "unknown"  # The sandbox says what is wrong.
        self._ask("PUT", f"deals/{quote(id, safe='', errors='replace')}", text)

    def reset(self) -> None:
        """Restores the initial state: no agents, faults or recorded requests, the initial deals and key. Held requests
        get no response.

        Ids start at ``a_1`` again.
        """
        self._ask("POST", "reset")

    def close(self) -> None:
        """Stops the server at once, or ends the attached world."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        # Works also for one that could not be started: an error tracker may want to show it.
        return f"Sandbox(url={self.url!r})" if hasattr(self, "_server") else "Sandbox()"

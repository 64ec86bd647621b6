"""The options of a client and of a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, TypedDict

from dealkit._core.arguments import file_path

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]
"""Names and values: a mapping, or an iterable of pairs. In an iterable, a name may occur more than once."""

Path = str | PathLike[str]
"""The path of a file."""

Key = str | tuple[str, float]
"""A service key, or a pair of a service key and its lifetime in seconds."""


class Timeout(NamedTuple):
    """Timeouts, in seconds. None means the default.

    ``total`` limits the whole call, over all its attempts. Default: 60.

    ``connect`` limits making a connection. Default: 5.

    ``attempt`` limits one attempt, including connecting. Default: 30 for a call that is retried after a timeout, such
    as a retrieve. A call that is not retried after a timeout, such as a create, has no such default: one attempt may
    take all of ``total``.
    """

    total: float | None = None
    attempt: float | None = None
    connect: float | None = None


class Retry(NamedTuple):
    """A retry policy. None means the default. The option ``max_retries=`` of a client or a call is short for
    ``retry=Retry(max_retries=…)``.

    ``max_retries`` is the maximum number of retries after the first attempt. Default: 2.

    ``initial_backoff`` is the longest wait before the first retry, in seconds. Default: 0.2. This limit doubles with
    each retry, up to ``max_backoff`` seconds. Default: 5. The actual wait is a random time within the limit.

    ``retry_non_idempotent=True`` retries every method as if it were a GET, even if the service may have acted on the
    request. Retrying a create this way can create a second agent.
    """

    max_retries: int | None = None
    initial_backoff: float | None = None
    max_backoff: float | None = None
    retry_non_idempotent: bool | None = None


class ClientOptions(TypedDict, total=False):
    """The options of a client: keywords of its constructor, of ``shared`` and of ``with_options``. None means the
    default."""

    base_url: str | None
    """The service's URL, without ``/v1``. Default: the environment variable ``DEALKIT_BASE_URL``."""
    service_key: str | Callable[[], Key | Awaitable[Key]] | None
    """Your key, or a function that returns the key, for example from a vault. The function is called when a key is
    needed. A returned key is cached until the service responds with a 401. If the function returns ``(key, seconds)``,
    the key is also replaced after that time. The function runs in its own thread. A coroutine function, which only
    ``AsyncClient`` takes, runs on the event loop. Default: the environment variable ``DEALKIT_SERVICE_KEY``."""
    service_key_file: Path | None
    """A file with the key, such as a mounted secret. The file is reread when it changes. Default: the environment
    variable ``DEALKIT_SERVICE_KEY_FILE``."""
    timeout: float | Timeout | None
    """The timeout of a call in seconds, over all its attempts, or a ``Timeout``. Default: 60."""
    max_retries: int | None
    """The maximum number of retries after the first attempt. Default: 2."""
    retry: Retry | None
    """The retry policy. The option ``max_retries`` takes precedence over the policy's number of retries."""
    rate_limit: float | None
    """The maximum number of requests per second, over all attempts of all the client's calls: 0.5 means one request
    every two seconds. Default: no limit. Calls wait in order of arrival. A call that would have to wait for longer than
    its timeout raises ``ThrottledError`` immediately."""
    headers: Pairs | None
    """Headers to send with every request."""
    proxy: str | None
    """The URL of a proxy, such as ``http://proxy.example.com:3128``. Default: the proxy in the environment, if any. A
    service on a loopback address is always called directly."""
    ca_file: Path | None
    """A file of CA certificates (PEM) to trust in addition to the system's CA certificates."""
    client_cert: Path | tuple[Path, Path] | None
    """The certificate to present to a service that requires one (mutual TLS): a file with the certificate and its
    private key (PEM, unencrypted), or the two files ``(certificate, key)``. The files are reread for new
    connections."""
    http2: bool | None
    """Whether to use HTTP/2 over TLS if the service supports it. Default: True."""
    max_idle_connections: int | None
    """The maximum number of idle connections to retain for later calls. Default: no limit. The client then retains as
    many connections as were recently in use at the same time."""
    max_response_bytes: int | None
    """The maximum size of a response body, in bytes. Default: 16 MiB."""
    allow_http: bool | None
    """Whether to allow plain HTTP to other machines. Anyone on the network path can then read the service key. Default:
    False."""
    user_agent: str | None
    """The ``User-Agent`` header. Default: ``dealkit/`` and the version."""
    on_unreadable: Literal["raise", "skip"] | None
    """The handling of an optional field of a response that cannot be read, such as a date in an unknown format.
    ``"raise"`` raises DecodeError. ``"skip"`` reads the field as None, or as empty, and lists it in the model's
    ``unreadable``. Default: ``"raise"``."""


class CallOptions(TypedDict, total=False):
    """The options of a call: keywords of every call, which override the client's options. None means the client's
    value."""

    extra_headers: Pairs | None
    """Headers to send in addition to the client's headers. A header replaces the client's header with the same name."""
    timeout: float | None
    """The timeout of the call in seconds, over all its attempts."""
    max_retries: int | None
    """The maximum number of retries after the first attempt."""
    on_unreadable: Literal["raise", "skip"] | None
    """The handling of an optional field of the response that cannot be read: ``"raise"`` or ``"skip"``, as for the
    client."""
    retry: Retry | None
    """The retry policy. The option ``max_retries`` takes precedence over the policy's number of retries."""


class Omitted:
    """The type of ``OMITTED``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OMITTED"

    def __reduce__(self) -> str:
        return "OMITTED"


OMITTED: Final = Omitted()
"""The default of optional arguments. An omitted argument is not sent, whereas None is sent as null."""


def client_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a client's options to settings for native code."""
    settings = _without_none(options, ClientOptions)
    if isinstance(timeout := settings.get("timeout"), Timeout):
        settings.update(connect=timeout.connect, attempt=timeout.attempt, timeout=timeout.total)
    _expand_retry(settings)
    for name in ("connect", "attempt", "timeout", "rate_limit"):
        if name in settings:
            settings[name] = _to_float(settings[name])
    if "headers" in settings:
        settings["headers"] = pairs("headers", settings["headers"])
    for name in ("service_key_file", "ca_file"):
        if name in settings:
            settings[name] = file_path(name, settings[name])
    if "client_cert" in settings:
        paths = settings["client_cert"]
        if isinstance(paths, tuple | list) and len(paths) == 2:
            settings["client_cert"] = [file_path("client_cert", path) for path in paths]
        else:
            settings["client_cert"] = [file_path("client_cert", paths, " or a pair of them")] * 2
    return settings


def call_settings(options: CallOptions) -> dict[str, Any]:
    """Converts a call's options to settings for native code."""
    settings = _without_none(options, CallOptions)
    _expand_retry(settings)
    if "timeout" in settings:
        settings["timeout"] = _to_float(settings["timeout"])
    if "extra_headers" in settings:
        settings["extra_headers"] = pairs("extra_headers", settings["extra_headers"])
    return settings


def _without_none(options: Any, options_type: Any) -> dict[str, Any]:
    """Returns the options that are not None. Raises TypeError for an unknown option."""
    for name in options:
        if name not in options_type.__annotations__:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    return {name: value for name, value in options.items() if value is not None}


def _expand_retry(settings: dict[str, Any]) -> None:
    """Replaces the setting ``retry`` with one setting for each field of its ``Retry``."""
    retry = settings.pop("retry", None)
    if retry is None:
        return
    if not isinstance(retry, Retry):
        raise TypeError(f"retry must be a Retry, not {type(retry).__name__}")
    retry_settings = {name: _to_float(value) for name, value in retry._asdict().items() if value is not None}
    # With `has_retry`, the policy of a call replaces the client's policy even if all its fields have their defaults.
    settings.update({**retry_settings, **settings, "has_retry": True})


def _to_float(value: Any) -> Any:
    """Converts a number that is no int or float, such as a Decimal, to a float. Returns other values unchanged: native code
    checks them."""
    is_convertible_number = not isinstance(value, bool | int | float | str) and hasattr(type(value), "__float__")
    return float(value) if is_convertible_number else value


def pairs(argument_name: str, value: Any) -> list[tuple[Any, Any]]:
    """Returns the items of a mapping, or the pairs of an iterable. ``argument`` is the name of the argument for
    errors."""
    if value is None:
        return []
    if hasattr(value, "items"):
        return list(value.items())
    message_start = f"{argument_name} must be a mapping or an iterable of pairs, not"
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{message_start} {type(value).__name__}")
    items = list(value)
    for pair in items:
        if not isinstance(pair, tuple | list):
            raise TypeError(f"{message_start} a {type(value).__name__} that holds a {type(pair).__name__}")
        if len(pair) != 2:
            raise TypeError(
                f"{message_start} a {type(value).__name__} that holds a {type(pair).__name__} of {len(pair)}"
            )
    return [(name, value) for name, value in items]

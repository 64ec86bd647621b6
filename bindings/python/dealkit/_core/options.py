"""The options of a client and of a call; each is defined here once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, TypedDict

from dealkit._core.arguments import file_path

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]
"""Names and values: a mapping, or an iterable of pairs, in which a name may occur more than once."""

Path = str | PathLike[str]
"""The path of a file."""

Key = str | tuple[str, float]
"""A service key, or a pair of a service key and its lifetime in seconds."""


class Timeout(NamedTuple):
    """Timeouts, in seconds. None means the default.

    ``total`` limits the whole call, including all attempts (default: 60). ``connect`` limits making a connection (5).
    ``attempt`` limits one attempt, including connecting. Its default is 30 if a timeout is retried, as for a retrieve. If a
    timeout is not retried, as for a create, an attempt may by default take as long as the call.
    """

    total: float | None = None
    attempt: float | None = None
    connect: float | None = None


class Retry(NamedTuple):
    """A retry policy. Fields that are not given keep their defaults. ``max_retries=`` of a client or call is short for one with
    that number.

    ``max_retries`` is the number of retries after the first attempt (2). Before the first retry, a call waits for a random time of
    up to ``initial_backoff`` seconds (0.2); the limit doubles with each retry, up to ``max_backoff`` (5).
    ``retry_non_idempotent=True`` retries all methods like GET, even if the service may have acted on the request: retrying a create
    this way can create a second agent.
    """

    max_retries: int | None = None
    initial_backoff: float | None = None
    max_backoff: float | None = None
    retry_non_idempotent: bool | None = None


class ClientOptions(TypedDict, total=False):
    """A client's options: keywords of its constructor, of ``shared`` and of ``with_options``. None means the default."""

    base_url: str | None
    """The service's URL, without ``/v1``. Default: the environment variable ``DEALKIT_BASE_URL``."""
    service_key: str | Callable[[], Key | Awaitable[Key]] | None
    """Your key, or a function that returns it, such as one that calls a vault. The function is called when a key is needed. Its
    result is cached until the service responds with a 401 or, if it returns ``(key, seconds)``, for that long. It runs in a
    thread of its own; a coroutine function, for an ``AsyncClient``, runs on the event loop. Default: ``DEALKIT_SERVICE_KEY``."""
    service_key_file: Path | None
    """A file with the key, such as a mounted secret. It is reread when it changes. Default: ``DEALKIT_SERVICE_KEY_FILE``."""
    timeout: float | Timeout | None
    """The timeout of a call in seconds, including all attempts (60), or a ``Timeout``."""
    max_retries: int | None
    """The number of retries after the first attempt (2)."""
    retry: Retry | None
    """The retry policy. ``max_retries`` takes precedence for the number."""
    rate_limit: float | None
    """The maximum number of requests per second, over all of the client's calls and their attempts; 0.5 is one every two seconds
    (no limit). Calls are admitted in order of arrival; a call that would be admitted after its timeout raises
    ``ThrottledError`` immediately."""
    headers: Pairs | None
    """Headers to send with every request."""
    proxy: str | None
    """A proxy, such as ``http://proxy.example.com:3128``, instead of the one in the environment. A service on a loopback address is
    always called directly."""
    ca_file: Path | None
    """A file of CA certificates (PEM) to trust in addition to the system's."""
    client_cert: Path | tuple[Path, Path] | None
    """The certificate to present to a service that requires one (mutual TLS): a file with it and its private key (PEM, unencrypted),
    or the two files ``(certificate, key)``, reread for new connections."""
    http2: bool | None
    """Whether to speak HTTP/2 over TLS if the service does (True)."""
    max_idle_connections: int | None
    """The maximum number of idle connections to keep for the next calls (no limit: as many as were in use at the same time in the
    last seconds)."""
    max_response_bytes: int | None
    """The largest response body to read, in bytes (16 MiB)."""
    allow_http: bool | None
    """Allows plain HTTP to other machines. Anyone along the way can then read the service key."""
    user_agent: str | None
    """The ``User-Agent`` header. Default: ``dealkit/`` and the version."""
    on_unreadable: Literal["raise", "skip"] | None
    """The handling of an unreadable optional field of a response, such as a date in another format: ``"raise"`` (the default) raises
    DecodeError; ``"none"`` makes it None and lists it in the model's ``unreadable``."""


class CallOptions(TypedDict, total=False):
    """The options of a call: keywords of every call, which override the client's options. None means the client's option."""

    extra_headers: Pairs | None
    """Headers to add to the client's. A header replaces the client's header with the same name."""
    timeout: float | None
    """The timeout of the call in seconds, including all attempts."""
    max_retries: int | None
    """Maximum number of retries after the first attempt."""
    on_unreadable: Literal["raise", "skip"] | None
    """Handling of an unreadable optional field of the response."""
    retry: Retry | None
    """The retry policy. ``max_retries`` takes precedence over its number of retries."""


class Omitted:
    """The type of ``OMITTED``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OMITTED"

    def __reduce__(self) -> str:
        return "OMITTED"


OMITTED: Final = Omitted()
"""The default of an optional argument, which is then not sent. None, in contrast, is sent as null."""


def client_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a client's options to settings for native code."""
    settings = _without_none(options, ClientOptions)
    if isinstance(timeout := settings.get("timeout"), Timeout):
        settings.update(connect=timeout.connect, attempt=timeout.attempt, timeout=timeout.total)
    _expand_retry(settings)
    for name in ("connect", "attempt", "timeout", "rate_limit"):
        if name in settings:
            settings[name] = _float(settings[name])
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
        settings["timeout"] = _float(settings["timeout"])
    if "extra_headers" in settings:
        settings["extra_headers"] = pairs("extra_headers", settings["extra_headers"])
    return settings


def _without_none(options: Any, known: Any) -> dict[str, Any]:
    """Returns the options that are not None. Raises TypeError for an unknown one."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    return {name: value for name, value in options.items() if value is not None}


def _expand_retry(settings: dict[str, Any]) -> None:
    """Replaces a ``Retry`` by a setting for each of its fields."""
    retry = settings.pop("retry", None)
    if retry is None:
        return
    if not isinstance(retry, Retry):
        raise TypeError(f"retry must be a Retry, not {type(retry).__name__}")
    given = {name: _float(value) for name, value in retry._asdict().items() if value is not None}
    # The client's own policy is replaced even if all fields have their defaults.
    settings.update({**given, **settings, "has_retry": True})


def _float(value: Any) -> Any:
    """Converts a number of any class to a float. Returns other values unchanged: native code rejects them."""
    is_other_number = not isinstance(value, bool | int | float | str) and hasattr(type(value), "__float__")
    return float(value) if is_other_number else value


def pairs(argument: str, value: Any) -> list[tuple[Any, Any]]:
    """Returns the items of a mapping, or the pairs of an iterable. ``argument`` is the name of the argument."""
    if value is None:
        return []
    if hasattr(value, "items"):
        return list(value.items())
    problem = f"{argument} must be a mapping or an iterable of pairs, not"
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{problem} {type(value).__name__}")
    found = list(value)
    for pair in found:
        if not isinstance(pair, tuple | list):
            raise TypeError(f"{problem} a {type(value).__name__} that holds a {type(pair).__name__}")
        if len(pair) != 2:
            raise TypeError(f"{problem} a {type(value).__name__} that holds a {type(pair).__name__} of {len(pair)}")
    return [(name, value) for name, value in found]

"""Options of a client and of a call."""

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
    """The retry policy. ``max_retries=5`` as an option of a client or call is short for ``retry=Retry(max_retries=5)``.

    Before the first retry, a call waits for a random time of up to ``initial_backoff`` seconds. The limit doubles with
    each retry, up to ``max_backoff``. ``retry_non_idempotent=True`` retries all methods like GET, even if the service
    may have processed the request: retrying a create this way can create a second agent.
    """

    max_retries: int = 2
    initial_backoff: float = 0.2
    max_backoff: float = 5.0
    retry_non_idempotent: bool = False


class ClientOptions(TypedDict, total=False):
    """The options of a client: keywords of its constructor, which documents them, and of ``with_options``."""

    base_url: str | None
    service_key: str | Callable[[], Key | Awaitable[Key]] | None
    service_key_file: Path | None
    timeout: float | Timeout | None
    max_retries: int | None
    retry: Retry | None
    rate_limit: float | None
    headers: Pairs | None
    proxy: str | None
    ca_file: Path | None
    client_cert: Path | tuple[Path, Path] | None
    http2: bool | None
    max_idle_connections: int | None
    max_response_bytes: int | None
    allow_http: bool | None
    user_agent: str | None
    on_unreadable: Literal["raise", "skip"] | None


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
    settings.setdefault("max_retries", retry.max_retries)
    settings.update(
        initial_backoff=_float(retry.initial_backoff),
        max_backoff=_float(retry.max_backoff),
        retry_non_idempotent=retry.retry_non_idempotent,
    )


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

"""The options of a client and of a call; each is stated here once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, TypedDict

from dealkit._core.arguments import file_path

Pairs = Mapping[str, str] | Iterable[tuple[str, str]]
"""Names and values: a mapping, or pairs where a name comes more than once."""

Path = str | PathLike[str]
"""The path of a file."""

Key = str | tuple[str, float]
"""A service key, and perhaps for how many seconds it is good."""


class Timeout(NamedTuple):
    """Timeouts, in seconds. Those that are not given keep their defaults.

    ``total`` limits the whole call, including all attempts (60), and ``connect`` making a connection (5). ``attempt`` limits
    one attempt, including connecting: by default to 30 seconds if a timeout is retried, as for a retrieve; an attempt that is not
    repeated, as for a create, may take as long as the call.
    """

    total: float | None = None
    attempt: float | None = None
    connect: float | None = None


class Retry(NamedTuple):
    """What is retried, and when. ``max_retries=`` of a client or call is short for one with that number.

    Before the first retry, a call waits for a random time of up to ``initial_backoff`` seconds; the limit doubles with
    each retry, up to ``max_backoff``. ``retry_non_idempotent=True`` retries all methods like GET, even if the service
    may have acted on the request: retrying a create this way can create a second agent.
    """

    max_retries: int = 2
    initial_backoff: float = 0.2
    max_backoff: float = 5.0
    retry_non_idempotent: bool = False


class ClientOptions(TypedDict, total=False):
    """A client's options: keywords of its constructor, which documents them, and of ``with_options``."""

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
    """A call's options: keywords that every call takes, and that override the client's own. None keeps the client's."""

    extra_headers: Pairs | None
    """Headers to send in addition to the client's; they replace those with the same name."""
    timeout: float | None
    """The timeout of the call in seconds, including all attempts."""
    max_retries: int | None
    """How often the request is retried after the first attempt."""
    on_unreadable: Literal["raise", "skip"] | None
    """What to do about an unreadable optional field of the response."""
    retry: Retry | None
    """What is retried, and when. ``max_retries`` takes precedence for the number."""


class Omitted:
    """The type of ``OMITTED``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "OMITTED"

    def __reduce__(self) -> str:
        return "OMITTED"


OMITTED: Final = Omitted()
"""The default of an argument that is not sent. Omitting an argument is not the same as None, which is sent as null."""


def client_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a client as the native half takes them."""
    settings = _given(options, ClientOptions)
    if isinstance(timeout := settings.get("timeout"), Timeout):
        settings.update(connect=timeout.connect, attempt=timeout.attempt, timeout=timeout.total)
    _take_retry(settings)
    for name in ("connect", "attempt", "timeout", "rate_limit"):
        if name in settings:
            settings[name] = _float(settings[name])
    if "headers" in settings:
        settings["headers"] = pairs("headers", settings["headers"])
    for name in ("service_key_file", "ca_file"):
        if name in settings:
            settings[name] = file_path(name, settings[name])
    if "client_cert" in settings:
        given = settings["client_cert"]
        if isinstance(given, tuple | list) and len(given) == 2:
            settings["client_cert"] = [file_path("client_cert", path) for path in given]
        else:
            settings["client_cert"] = [file_path("client_cert", given, " or a pair of them")] * 2
    return settings


def call_settings(options: CallOptions) -> dict[str, Any]:
    """The options of a call as the native half takes them."""
    settings = _given(options, CallOptions)
    _take_retry(settings)
    if "timeout" in settings:
        settings["timeout"] = _float(settings["timeout"])
    if "extra_headers" in settings:
        settings["extra_headers"] = pairs("extra_headers", settings["extra_headers"])
    return settings


def _given(options: Any, known: Any) -> dict[str, Any]:
    """The options that are not None."""
    for name in options:
        if name not in known.__annotations__:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    return {name: value for name, value in options.items() if value is not None}


def _take_retry(settings: dict[str, Any]) -> None:
    """Replaces a ``Retry`` by its own settings."""
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
    """A number of any class as a float; the native half refuses anything else."""
    is_other_number = not isinstance(value, bool | int | float | str) and hasattr(type(value), "__float__")
    return float(value) if is_other_number else value


def pairs(what: str, value: Any) -> list[tuple[Any, Any]]:
    """The items of a mapping, or the pairs that an iterable holds."""
    if value is None:
        return []
    if hasattr(value, "items"):
        return list(value.items())
    wrong = f"{what} must be a mapping or an iterable of pairs, not"
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"{wrong} {type(value).__name__}")
    found = list(value)
    for pair in found:
        if not isinstance(pair, tuple | list):
            raise TypeError(f"{wrong} a {type(value).__name__} that holds a {type(pair).__name__}")
        if len(pair) != 2:
            raise TypeError(f"{wrong} a {type(value).__name__} that holds a {type(pair).__name__} of {len(pair)}")
    return [(name, value) for name, value in found]

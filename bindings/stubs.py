"""Writes `_native.pyi`: the models from the fields that the built module lists, the rest from this file.

    python bindings/stubs.py            # writes the file
    python bindings/stubs.py --check    # fails if it is not what would be written

The rest is what the Python half calls; stubtest checks it against the module.
"""

import inspect
import sys
import textwrap
from pathlib import Path

# Importing `_models.classes` adds the methods that are Python code.
from dealkit import _native
from dealkit._models import classes
from dealkit._models.types import given_type, read_type

STUB = Path(__file__).parent / "python" / "dealkit" / "_native.pyi"

HEAD = """\
# Written by bindings/stubs.py: do not change it here.
import datetime
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, Final, Generic, Self, TypeVar, final

from dealkit._core.headers import Headers
from dealkit.enums import Role
from dealkit.exceptions import Outcome

__version__: Final[str]
READINGS: Final[tuple[str, ...]]
PROFILE_FIELDS: Final[tuple[tuple[str, str], ...]]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
"""

TAIL = '''
@final
class RawJson:
    """{RawJson}"""

    def __new__(cls, text: str, /) -> Self: ...
    @property
    def text(self) -> str:
        """{RawJson.text}"""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class RawResponse(Generic[_T_co]):
    """{RawResponse}"""

    @property
    def status_code(self) -> int:
        """{RawResponse.status_code}"""

    @property
    def http_version(self) -> str:
        """{RawResponse.http_version}"""

    @property
    def headers(self) -> Headers:
        """{RawResponse.headers}"""

    @property
    def request_id(self) -> str | None:
        """{RawResponse.request_id}"""

    @property
    def attempts(self) -> int:
        """{RawResponse.attempts}"""

    @property
    def body(self) -> bytes:
        """{RawResponse.body}"""

    def parse(self) -> _T_co:
        """{RawResponse.parse}"""

    def json(self) -> Any:
        """{RawResponse.json}"""

    def _headers(self) -> list[tuple[str, str]]: ...
    def _parse(self) -> _T_co | Failure: ...
    def _json(self) -> Any: ...

@final
class Failure:
    """{Failure}"""

    def parts(self) -> tuple[str, str, dict[str, Any]]:
        """{Failure.parts}"""

@final
class Call(Generic[_T_co]):
    """{Call}"""

    @property
    def id(self) -> str | None:
        """{Call.id}"""

def retrieve(model: type[_T_co], id: str) -> Call[_T_co] | Failure:
    """{retrieve}"""

def create_agent(
    given: dict[str, Any], omitted: object, validate: bool, is_converted: bool
) -> Call[Agent] | Failure | None:
    """{create_agent}"""

def raw_request(
    method: str,
    segments: tuple[str, ...],
    json: tuple[object] | None,
    query: list[tuple[str, str]],
    headers: list[tuple[str, str]],
) -> Call[Any] | Failure:
    """{raw_request}"""

def json_text(name: str, value: object) -> str | Failure:
    """{json_text}"""

def raw_json(text: str) -> RawJson | Failure:
    """{raw_json}"""

def violation_texts(pointer: str, code: str, detail: str) -> tuple[str, str]:
    """{violation_texts}"""

def made_error(kind: str, settings: dict[str, Any]) -> tuple[Failure] | Failure:
    """{made_error}"""

def prepare(decimal: type[Decimal], context: Context, roles: dict[str, Role], gc: object) -> None:
    """{prepare}"""

def end() -> None:
    """{end}"""

def watch(level: int, headers: list[tuple[str, str]]) -> Watch | Failure:
    """{watch}"""

@final
class Watch:
    """{Watch}"""

    def take(self) -> list[tuple[int, dict[str, Any]]] | Failure:
        """{Watch.take}"""

@final
class Options:
    """{Options}"""

def call_options(settings: dict[str, Any]) -> Options | Failure:
    """{call_options}"""

def open_engine(settings: dict[str, Any], shared: Engine | None) -> Engine | Failure:
    """{open_engine}"""

@final
class Engine:
    """{Engine}"""

    @property
    def base_url(self) -> str:
        """{Engine.base_url}"""

    @property
    def service_key(self) -> str:
        """{Engine.service_key}"""

    @property
    def timeout(self) -> float:
        """{Engine.timeout}"""

    @property
    def max_retries(self) -> int:
        """{Engine.max_retries}"""

    def send(self, call: Call[Any], options: Options | None, raw: bool, watch: Watch | None) -> Any:
        """{Engine.send}"""

    def start(
        self,
        call: Call[Any],
        options: Options | None,
        raw: bool,
        watch: Watch | None,
        mailbox: Mailbox,
        future: Any,
    ) -> Pending | Failure:
        """{Engine.start}"""

    def describe(self, call: Call[Any]) -> tuple[str, str, str, int] | Failure:
        """{Engine.describe}"""

    def many(self, ordered: bool, options: Options | None, raw: bool) -> Many | Failure:
        """{Engine.many}"""

    def create_many(
        self,
        ordered: bool,
        options: Options | None,
        raw: bool,
        ledger: tuple[str, str | None, bool] | None,
    ) -> Many | Failure:
        """{Engine.create_many}"""

    def deal_stream(
        self,
        ordered: bool,
        concurrency: int,
        options: Options | None,
        batch_size: int,
        scale: int | None,
        returns_errors: bool,
        own_thread: bool,
    ) -> DealStream | Failure:
        """{Engine.deal_stream}"""

@final
class Waiting:
    """{Waiting}"""

    def wait(self) -> Any:
        """{Waiting.wait}"""

    def abort(self) -> None:
        """{Waiting.abort}"""

def settle_ledger(path: str, found: list[tuple[str, str | None]], dry_run: bool) -> int | Failure:
    """{settle_ledger}"""

def unsettle_ledger(path: str, rows: list[str]) -> int | Failure:
    """{unsettle_ledger}"""

def look_up_in_ledger(
    path: str, keys: str | None, rows: list[str]
) -> list[tuple[Outcome, str | None, int | None, bool] | None] | Failure:
    """{look_up_in_ledger}"""

def show_ledger(
    path: str,
) -> tuple[str, str | None, list[int], list[tuple[int, int | None, str | None]]] | Failure:
    """{show_ledger}"""

def ledgers_in_folder(folder: str) -> list[str] | Failure:
    """{ledgers_in_folder}"""

def move_ledger(path: str, base_url: str) -> Failure | None:
    """{move_ledger}"""

def open_mailbox(event_loop: Any, deliver: Any) -> Mailbox:
    """{open_mailbox}"""

@final
class Mailbox:
    """{Mailbox}"""

    def first(self) -> tuple[Any, Any] | None:
        """{Mailbox.first}"""

    def next(self, future: Any) -> tuple[Any, Any] | None:
        """{Mailbox.next}"""

@final
class Pending:
    """{Pending}"""

    def abort(self) -> None:
        """{Pending.abort}"""

@final
class Many:
    """{Many}"""

    def push(self, inputs: list[tuple[Any, Watch | None]], index: int) -> Failure | None:
        """{Many.push}"""

    def cancel(self, inputs: list[tuple[Any, Watch | None]], index: int) -> Failure | None:
        """{Many.cancel}"""

    @property
    def pushed(self) -> int:
        """{Many.pushed}"""

    @property
    def has_stopped(self) -> bool:
        """Whether further inputs would only be refused, so that none should be pushed."""

    @property
    def in_flight(self) -> int:
        """{Many.in_flight}"""

    def take(self, ready: list[tuple[int, str | None, Any, tuple[bool, str | None, Failure | None] | None]]) -> Failure | None:
        """{Many.take}"""

    def wait(self) -> Failure | None:
        """{Many.wait}"""

    def wait_for_end(self) -> bool:
        """{Many.wait_for_end}"""

    def tell(self, mailbox: Mailbox, future: Any) -> Failure | None:
        """{Many.tell}"""

    def close(self) -> None:
        """{Many.close}"""

@final
class DealStream:
    """{DealStream}"""

    def push(
        self, ids: list[str], watches: list[Watch] | Watch | None, index: int, is_last: bool
    ) -> Failure | None:
        """{DealStream.push}"""

    def news(self) -> tuple[int, bool, list[tuple[int, Failure | None]], bool] | Failure:
        """{DealStream.news}"""

    def batch(self) -> Table | Failure | None:
        """{DealStream.batch}"""

    def failed(self) -> tuple[int, str, Failure] | Failure | None:
        """{DealStream.failed}"""

    def whole(self, tables: list[Table]) -> Table | Failure:
        """{DealStream.whole}"""

    def errors(self) -> Table | Failure | None:
        """{DealStream.errors}"""

    def wait(self, for_the_end: bool) -> Failure | None:
        """{DealStream.wait}"""

    def tell(self, mailbox: Mailbox, future: Any) -> Failure | None:
        """{DealStream.tell}"""

    def capsule(self) -> object:
        """{DealStream.capsule}"""

    def close(self) -> None:
        """{DealStream.close}"""

def deal_schema(scale: int | None) -> Schema | Failure:
    """{deal_schema}"""

@final
class Schema:
    """{Schema}"""

    @property
    def names(self) -> list[str]:
        """{Schema.names}"""

    def __arrow_c_schema__(self) -> object:
        """{Schema.__arrow_c_schema__}"""

@final
class Table:
    """{Table}"""

    @property
    def schema(self) -> Schema:
        """{Table.schema}"""

    @property
    def errors(self) -> Table | None:
        """{Table.errors}"""

    def __arrow_c_schema__(self) -> object:
        """{Table.__arrow_c_schema__}"""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """{Table.__arrow_c_stream__}"""

    def __len__(self) -> int: ...

def open_table_builder(scale: int | None, returns_errors: bool) -> TableBuilder | Failure:
    """{open_table_builder}"""

@final
class TableBuilder:
    """{TableBuilder}"""

    def push(self, documents: list[str | bytes | bytearray]) -> tuple[int, Failure] | Failure | None:
        """{TableBuilder.push}"""

    def finish(self) -> Table | Failure:
        """{TableBuilder.finish}"""

def start_sandbox(deals: list[str] | None, settings: dict[str, Any]) -> NativeSandbox | Failure:
    """{start_sandbox}"""

@final
class NativeSandbox:
    """{NativeSandbox}"""

    @property
    def url(self) -> str:
        """{NativeSandbox.url}"""

    @property
    def service_key(self) -> str:
        """{NativeSandbox.service_key}"""

    def agents(self) -> list[tuple[Agent, dict[str, Any]]] | Failure:
        """{NativeSandbox.agents}"""

    def requests(self) -> list[dict[str, Any]] | Failure:
        """{NativeSandbox.requests}"""

    def clear_requests(self) -> Failure | None:
        """{NativeSandbox.clear_requests}"""

    def fail_next(self, fault: str) -> Failure | None:
        """{NativeSandbox.fail_next}"""

    def clear_faults(self) -> Failure | None:
        """{NativeSandbox.clear_faults}"""

    def insert_deal(self, json: str) -> Failure | None:
        """{NativeSandbox.insert_deal}"""

    def reset(self) -> Failure | None:
        """{NativeSandbox.reset}"""

    def close(self) -> None:
        """{NativeSandbox.close}"""

def run_server(arguments: list[str]) -> int:
    """{run_server}"""
'''


def models() -> list[type]:
    """The models, in the order of their names."""
    return sorted(classes.MODELS, key=lambda model: model.__name__)


def doc(of: object, indent: str) -> str:
    """A docstring, indented as the code around it."""
    text = inspect.getdoc(of)
    if text is None:
        raise SystemExit(f"{of} has no docstring")
    return textwrap.indent(text, indent).strip()


METHODS = ("from_json", "list_from_json", "from_json_lines", "from_dict", "to_json", "to_dict", "replace", "extra")


def model_stub(model: type) -> str:
    """The stub of one model."""
    fields = model.__dealkit_fields__  # type: ignore[attr-defined]
    arguments = "".join(
        f"        {name}: {given_type(kind, need)}{'' if need == 'required' else ' = None'},\n"
        for name, _, kind, need, _, _ in fields
    )
    properties = "".join(
        f"    @property\n    def {name}(self) -> {read_type(kind, need)}:\n"
        f'        """{textwrap.indent(text, " " * 8).strip()}"""\n\n'
        for name, _, kind, need, _, text in fields
    )
    names = ", ".join(f'"{name}"' for name, *_ in fields)
    method = {name: doc(getattr(model, name), " " * 8) for name in METHODS}
    return f'''
@final
class {model.__name__}:
    """{doc(model, " " * 4)}"""

    __match_args__: Final = ({names},)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

    def __new__(
        cls,
        *,
{arguments}        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
{properties}    @property
    def extra(self) -> Mapping[str, Any]:
        """{method["extra"]}"""

    @classmethod
    def from_json(cls, document: str | bytes | bytearray, /) -> Self:
        """{method["from_json"]}"""

    @classmethod
    def list_from_json(cls, document: str | bytes | bytearray, /) -> list[Self]:
        """{method["list_from_json"]}"""

    @classmethod
    def from_json_lines(cls, lines: Iterable[str | bytes], /) -> Iterator[Self]:
        """{method["from_json_lines"]}"""

    @staticmethod
    def _read(document: str | bytes | bytearray, line: int | None = None) -> {model.__name__} | Failure: ...
    @staticmethod
    def _read_list(document: str | bytes | bytearray) -> tuple[{model.__name__}, ...] | Failure: ...
    @staticmethod
    def _build(given: dict[str, Any]) -> {model.__name__} | Failure: ...
    def _replace(self, changes: dict[str, Any]) -> {model.__name__} | Failure: ...
    def _attribute(self, at: int) -> Any: ...
    def _to_json(self) -> str: ...
    @classmethod
    def from_dict(cls, attributes: Mapping[str, Any], /) -> Self:
        """{method["from_dict"]}"""

    def to_json(self, *, indent: int | None = None) -> str:
        """{method["to_json"]}"""

    def to_dict(self) -> dict[str, Any]:
        """{method["to_dict"]}"""

    def replace(self, /, **changes: Any) -> Self:
        """{method["replace"]}"""

    def _repr_html_(self) -> str: ...
    def _repr_pretty_(self, printer: Any, cycle: bool, /) -> None: ...
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any: ...
    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any, /) -> Any: ...
    def __replace__(self, /, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...
'''


def tail() -> str:
    """The rest, with the docstrings of the module."""
    lines = []
    for line in TAIL.splitlines():
        start = line.find('"""{')
        if start >= 0:
            path = line[start + 4 : line.index("}")]
            of: object = _native
            for name in path.split("."):
                of = getattr(of, name)
            line = line[: start + 3] + doc(of, " " * start) + '"""'
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or checks the file."""
    text = HEAD + "".join(map(model_stub, models())) + tail()
    if "--check" in sys.argv[1:]:
        if STUB.read_text() != text:
            print(f"{STUB.name} is out of date: run bindings/stubs.py", file=sys.stderr)
            return 1
        return 0
    STUB.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

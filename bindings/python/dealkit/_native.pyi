# The native half. stubtest holds this against the built module; bindings/stubs.py writes the models at the end. What users
# do not see has its documentation in bindings/src, and in `help()`.
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

@final
class RawJson:
    """JSON that is kept as text: a value nested too deep for Python objects."""

    def __new__(cls, text: str, /) -> Self: ...
    @property
    def text(self) -> str:
        """The exact JSON text."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class RawResponse(Generic[_T_co]):
    """A whole response: status, headers and raw body, along with the value."""

    @property
    def status_code(self) -> int:
        """The status, a 2xx."""

    @property
    def http_version(self) -> str:
        """The HTTP version: `HTTP/1.1` or `HTTP/2`."""

    @property
    def headers(self) -> Headers:
        """The headers; names are case-insensitive."""

    @property
    def request_id(self) -> str | None:
        """The request's id in the service's logs, if the service sent one."""

    @property
    def attempts(self) -> int:
        """How many times the request was sent, at least 1."""

    @property
    def body(self) -> bytes:
        """The raw body."""

    def parse(self) -> _T_co:
        """The body as the model that the call returns. Raises DecodeError if it is something else."""

    def json(self) -> Any:
        """The body as any JSON: ints, Decimals, strings, booleans, None, lists and dicts.

        Values nested deeper than 127 levels are a RawJson."""

    def _headers(self) -> list[tuple[str, str]]: ...
    def _parse(self) -> _T_co | Failure: ...
    def _json(self) -> Any: ...

@final
class Failure:
    def parts(self) -> tuple[str, str, dict[str, Any]]: ...

@final
class Call(Generic[_T_co]):
    @property
    def id(self) -> str | None: ...

def retrieve(model: type[_T_co], id: str) -> Call[_T_co] | Failure: ...
def create_agent(
    given: dict[str, Any], omitted: object, validate: bool, is_converted: bool
) -> Call[Agent] | Failure | None: ...
def raw_request(
    method: str,
    segments: tuple[str, ...],
    json: tuple[object] | None,
    query: list[tuple[str, str]],
    headers: list[tuple[str, str]],
) -> Call[Any] | Failure: ...
def json_text(name: str, value: object) -> str | Failure: ...
def raw_json(text: str) -> RawJson | Failure: ...
def violation_texts(pointer: str, code: str, detail: str) -> tuple[str, str]: ...
def made_error(kind: str, settings: dict[str, Any]) -> tuple[Failure] | Failure: ...
def prepare(decimal: type[Decimal], context: Context, roles: dict[str, Role], gc: object) -> None: ...
def end() -> None: ...
def watch(level: int, headers: list[tuple[str, str]]) -> Watch | Failure: ...

@final
class Watch:
    def take(self) -> list[tuple[int, dict[str, Any]]] | Failure: ...

@final
class Options: ...

def call_options(settings: dict[str, Any]) -> Options | Failure: ...
def open_engine(settings: dict[str, Any], shared: Engine | None) -> Engine | Failure: ...

@final
class Engine:
    @property
    def base_url(self) -> str: ...
    @property
    def service_key(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def max_retries(self) -> int: ...
    def send(self, call: Call[Any], options: Options | None, raw: bool, watch: Watch | None) -> Any: ...
    def start(
        self,
        call: Call[Any],
        options: Options | None,
        raw: bool,
        watch: Watch | None,
        mailbox: Mailbox,
        future: Any,
    ) -> Pending | Failure: ...
    def describe(self, call: Call[Any]) -> tuple[str, str, str, int] | Failure: ...
    def many(
        self,
        ordered: bool,
        options: Options | None,
        raw: bool,
        table: tuple[int, int, int | None, bool, bool] | None = None,
    ) -> Many | Failure: ...
    def create_many(
        self,
        ordered: bool,
        options: Options | None,
        raw: bool,
        ledger: tuple[str, str | None, bool] | None,
    ) -> Many | Failure: ...

@final
class Waiting:
    def wait(self) -> Any: ...
    def abort(self) -> None: ...

def settle_ledger(path: str, found: list[tuple[str, str | None]], dry_run: bool) -> int | Failure: ...
def unsettle_ledger(path: str, rows: list[str]) -> int | Failure: ...
def look_up_in_ledger(
    path: str, keys: str | None, rows: list[str]
) -> list[tuple[Outcome, str | None, int | None, bool] | None] | Failure: ...
def show_ledger(
    path: str,
) -> tuple[str, str | None, list[int], list[tuple[int, int | None, str | None]]] | Failure: ...
def ledgers_in_folder(folder: str) -> list[str] | Failure: ...
def move_ledger(path: str, base_url: str) -> Failure | None: ...
def open_mailbox(event_loop: Any, deliver: Any) -> Mailbox: ...

@final
class Mailbox:
    def first(self) -> tuple[Any, Any] | None: ...
    def next(self, future: Any) -> tuple[Any, Any] | None: ...

@final
class Pending:
    def abort(self) -> None: ...

@final
class Many:
    def push(self, inputs: list[tuple[Any, Watch | None]], index: int, is_last: bool = False) -> Failure | None: ...
    def cancel(self, inputs: list[tuple[Any, Watch | None]], index: int) -> Failure | None: ...
    @property
    def pushed(self) -> int: ...
    @property
    def has_stopped(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def recording(self) -> int: ...
    def take(self, ready: list[tuple[int, str | None, Any, tuple[bool, str | None, Failure | None] | None]]) -> Failure | None: ...
    def wait(self) -> Failure | None: ...
    def wait_for_end(self) -> bool: ...
    def tell(self, mailbox: Mailbox, future: Any) -> Failure | None: ...
    def close(self) -> None: ...
    def news(self) -> tuple[int, bool, list[tuple[int, Failure | None]], bool] | Failure: ...
    def batch(self) -> Table | Failure | None: ...
    def failed(self) -> tuple[int, str, Failure] | Failure | None: ...
    def whole(self, tables: list[Table]) -> Table | Failure: ...
    def errors(self) -> Table | Failure | None: ...
    def capsule(self) -> object: ...

def deal_schema(scale: int | None) -> Schema | Failure: ...

@final
class Schema:
    """The columns of a table of deals. Its text form lists them."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def __arrow_c_schema__(self) -> object:
        """The schema for another library, as Arrow's PyCapsule interface has it."""

@final
class Table:
    """Deals, or errors of deals, as a table in memory.

    It has Arrow's PyCapsule interface: ``polars.DataFrame(table)``, ``pyarrow.table(table)``,
    ``pandas.DataFrame.from_arrow(table)`` and others take it, as often as they like, without a copy. ``len(table)`` is
    the number of rows."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    @property
    def errors(self) -> Table | None:
        """The errors of the deals that failed, as a table, if they were to be returned; otherwise None."""

    def __arrow_c_schema__(self) -> object:
        """The schema for another library, as Arrow's PyCapsule interface has it."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows for another library, as Arrow's PyCapsule interface has it. A requested schema is not applied:
        casting to it is up to the caller."""

    def __len__(self) -> int: ...

def open_table_builder(scale: int | None, returns_errors: bool) -> TableBuilder | Failure: ...

@final
class TableBuilder:
    def push(self, documents: list[str | bytes | bytearray]) -> tuple[int, Failure] | Failure | None: ...
    def finish(self) -> Table | Failure: ...

def start_sandbox(deals: list[str] | None, settings: dict[str, Any]) -> NativeSandbox | Failure: ...

@final
class NativeSandbox:
    @property
    def url(self) -> str: ...
    @property
    def service_key(self) -> str: ...
    def agents(self) -> list[tuple[Agent, dict[str, Any]]] | Failure: ...
    def requests(self) -> list[dict[str, Any]] | Failure: ...
    def clear_requests(self) -> Failure | None: ...
    def fail_next(self, fault: str) -> Failure | None: ...
    def clear_faults(self) -> Failure | None: ...
    def insert_deal(self, json: str) -> Failure | None: ...
    def reset(self) -> Failure | None: ...
    def close(self) -> None: ...

def run_server(arguments: list[str]) -> int: ...

class _Model:
    """What all models have. It exists for type checkers only: the native classes have no base of their own."""

    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

    @property
    def extra(self) -> Mapping[str, Any]:
        """Undocumented fields, by name: a fresh copy each time."""

    @classmethod
    def from_json(cls, document: str | bytes | bytearray, /) -> Self:
        """Reads a model from a JSON document, bytes or str.

        Raises DecodeError, which names the path of the value that could not be read and keeps the document."""

    @classmethod
    def list_from_json(cls, document: str | bytes | bytearray, /) -> list[Self]:
        """Reads a list of models from a JSON document that is an array.

        Raises DecodeError, as ``from_json`` does; the path begins with the index, as in ``[2].expiry_date``."""

    @classmethod
    def from_json_lines(cls, lines: Iterable[str | bytes], /) -> Iterator[Self]:
        """Reads documents, one per line (NDJSON), such as an export, holding one line at a time.

        Blank lines are skipped. A line that cannot be read raises DecodeError, which has its number in ``line`` and
        its text in ``body``; after that, ``next()`` continues with the following line.

        >>> with open("deals.ndjson", "rb") as lines:
        ...     for deal in Deal.from_json_lines(lines):
        ...         print(deal.id)

        Args:
            lines: The lines: an open file, or any other iterable."""

    @staticmethod
    def _read(document: str | bytes | bytearray, line: int | None = None) -> Any: ...
    @staticmethod
    def _read_list(document: str | bytes | bytearray) -> Any: ...
    @staticmethod
    def _build(given: dict[str, Any]) -> Any: ...
    def _replace(self, changes: dict[str, Any]) -> Self | Failure: ...
    def _attribute(self, at: int) -> Any: ...
    def _to_json(self) -> str: ...
    @classmethod
    def from_dict(cls, attributes: Mapping[str, Any], /) -> Self:
        """Makes a model from what ``to_dict`` returns: attributes by name, nested models as dicts or as models."""

    def to_json(self, *, indent: int | None = None) -> str:
        """The JSON, with the names that the service uses and every digit of every number.

        It holds every value and every undocumented field, but not whether the service sent null, an empty list or
        nothing at all.

        Args:
            indent: How many spaces each level is indented by; None writes one line."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: nested models as dicts, tuples as lists, and undocumented fields, if there are
        any, under ``extra``. ``from_dict`` turns it back into a model."""

    def replace(self, /, **changes: Any) -> Self:
        """A copy with other values for these attributes; since Python 3.13, ``copy.replace`` does the same."""

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

# The models, written by bindings/stubs.py from the table of the fields: do not change them here.

@final
class Address(_Model):
    """A postal address."""

    __match_args__: Final = ("line1", "line2", "city", "state", "zip",)

    def __new__(
        cls,
        *,
        line1: str | None = None,
        line2: str | None = None,
        city: str | None = None,
        state: str | None = None,
        zip: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def line1(self) -> str | None:
        """First line."""

    @property
    def line2(self) -> str | None:
        """Second line."""

    @property
    def city(self) -> str | None:
        """City."""

    @property
    def state(self) -> str | None:
        """State."""

    @property
    def zip(self) -> str | None:
        """Postal code."""

@final
class Agent(_Model):
    """An agent, as the service returns it after creating one. The length limits of the names are not
    enforced on what a service sends."""

    __match_args__: Final = ("id", "email", "date_of_birth", "first_name", "last_name", "profile", "current_brokerage_id", "role_assignments",)

    def __new__(
        cls,
        *,
        id: str,
        email: str,
        date_of_birth: datetime.date | None = None,
        first_name: str,
        last_name: str,
        profile: AgentProfileResponse,
        current_brokerage_id: str | None = None,
        role_assignments: Iterable[RoleAssignment],
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The agent's identifier."""

    @property
    def email(self) -> str:
        """E-mail address."""

    @property
    def date_of_birth(self) -> datetime.date | None:
        """Date of birth, if the service knows it."""

    @property
    def first_name(self) -> str:
        """First name."""

    @property
    def last_name(self) -> str:
        """Last name."""

    @property
    def profile(self) -> AgentProfileResponse:
        """The agent's profile."""

    @property
    def current_brokerage_id(self) -> str | None:
        """The brokerage the agent is currently associated with; an agent is active with at most one."""

    @property
    def role_assignments(self) -> tuple[RoleAssignment, ...]:
        """The roles that the agent has, each with its scope."""

@final
class AgentProfileResponse(_Model):
    """The profile of an agent in a response. It differs from the profile in a request, whose fields have
    other names."""

    __match_args__: Final = ("onboarding_complete", "client_metadata", "external_id",)

    def __new__(
        cls,
        *,
        onboarding_complete: bool | None = None,
        client_metadata: Mapping[str, object] | None = None,
        external_id: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def onboarding_complete(self) -> bool | None:
        """Whether the agent's onboarding is complete."""

    @property
    def client_metadata(self) -> Mapping[str, Any] | None:
        """Metadata that the caller attached to the agent: a JSON object in which every number is exact."""

    @property
    def external_id(self) -> str | None:
        """The caller's own identifier of the agent."""

@final
class Application(_Model):
    """The application of a deal."""

    __match_args__: Final = ("id", "status", "decisioned_on", "created_at", "deal_id", "requested_amount", "offers",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        status: str | None = None,
        decisioned_on: str | None = None,
        created_at: str | None = None,
        deal_id: str | None = None,
        requested_amount: Decimal | int | None = None,
        offers: Iterable[Offer] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The application's identifier."""

    @property
    def status(self) -> str | None:
        """Status, an open set; PENDING is the one documented value."""

    @property
    def decisioned_on(self) -> str | None:
        """When the application was decided. The specification states no format, so it is kept as a string."""

    @property
    def created_at(self) -> str | None:
        """When the application was created. The specification states no format, so it is kept as a string."""

    @property
    def deal_id(self) -> str | None:
        """The deal that the application belongs to."""

    @property
    def requested_amount(self) -> Decimal | None:
        """The amount requested."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers made."""

@final
class Contact(_Model):
    """A contact of a deal."""

    __match_args__: Final = ("id", "contact_schema_id", "type", "fields",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        contact_schema_id: str | None = None,
        type: str | None = None,
        fields: Iterable[ContactField] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The contact's identifier."""

    @property
    def contact_schema_id(self) -> str | None:
        """The schema that the contact follows."""

    @property
    def type(self) -> str | None:
        """Type, an open set."""

    @property
    def fields(self) -> tuple[ContactField, ...]:
        """The contact's data, field by field."""

@final
class ContactField(_Model):
    """One field of a contact."""

    __match_args__: Final = ("id", "field_schema_id", "label", "type", "value",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        field_schema_id: str | None = None,
        label: str | None = None,
        type: str | None = None,
        value: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The field's identifier."""

    @property
    def field_schema_id(self) -> str | None:
        """The schema that the field follows."""

    @property
    def label(self) -> str | None:
        """The field's name as shown to people."""

    @property
    def type(self) -> str | None:
        """Type, an open set."""

    @property
    def value(self) -> str | None:
        """The field's value."""

@final
class Deal(_Model):
    """A deal. Only `id` is always present: anything that the service omits or sends as null is None, an
    empty list or an empty map. The specification does not say in what unit or scale money, percentages
    and splits are, so the numbers are passed on unchanged."""

    __match_args__: Final = ("id", "status", "phase", "expiry_date", "created_at", "listing_contract", "application", "quotes", "contacts", "sides", "metadata", "external_id",)

    def __new__(
        cls,
        *,
        id: str,
        status: str | None = None,
        phase: str | None = None,
        expiry_date: datetime.date | None = None,
        created_at: datetime.datetime | None = None,
        listing_contract: ListingContract | None = None,
        application: Application | None = None,
        quotes: Iterable[Quote] | None = None,
        contacts: Iterable[Contact] | None = None,
        sides: Iterable[Side] | None = None,
        metadata: Mapping[str, str] | None = None,
        external_id: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str:
        """The deal's identifier."""

    @property
    def status(self) -> str | None:
        """Status, an open set; CLOSED is the one documented value."""

    @property
    def phase(self) -> str | None:
        """Phase, an open set; APPLICATION is the one documented value."""

    @property
    def expiry_date(self) -> datetime.date | None:
        """The day on which the deal expires."""

    @property
    def created_at(self) -> datetime.datetime | None:
        """When the deal was created."""

    @property
    def listing_contract(self) -> ListingContract | None:
        """The listing contract."""

    @property
    def application(self) -> Application | None:
        """The application, with its offers."""

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The quotes."""

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The contacts."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """The commission sides."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Free-form metadata: strings by name."""

    @property
    def external_id(self) -> str | None:
        """The caller's own identifier of the deal."""

@final
class ListingAgent(_Model):
    """The agent of a listing contract."""

    __match_args__: Final = ("id", "email", "first_name", "last_name",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        email: str | None = None,
        first_name: str | None = None,
        last_name: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The agent's identifier."""

    @property
    def email(self) -> str | None:
        """E-mail address."""

    @property
    def first_name(self) -> str | None:
        """First name."""

    @property
    def last_name(self) -> str | None:
        """Last name."""

@final
class ListingContract(_Model):
    """The listing contract of a deal."""

    __match_args__: Final = ("id", "side", "side_split", "sale_price", "net_agent_commission", "gross_agent_commission", "commission_rate", "expected_close_date", "created_at", "address", "agent",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        side: str | None = None,
        side_split: int | None = None,
        sale_price: int | None = None,
        net_agent_commission: int | None = None,
        gross_agent_commission: int | None = None,
        commission_rate: int | None = None,
        expected_close_date: datetime.date | None = None,
        created_at: datetime.datetime | None = None,
        address: Address | None = None,
        agent: ListingAgent | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The contract's identifier."""

    @property
    def side(self) -> str | None:
        """The side that the agent is on, an open set."""

    @property
    def side_split(self) -> int | None:
        """The split of the side."""

    @property
    def sale_price(self) -> int | None:
        """The sale price."""

    @property
    def net_agent_commission(self) -> int | None:
        """The agent's net commission."""

    @property
    def gross_agent_commission(self) -> int | None:
        """The agent's gross commission."""

    @property
    def commission_rate(self) -> int | None:
        """The commission rate."""

    @property
    def expected_close_date(self) -> datetime.date | None:
        """The day on which the sale is expected to close."""

    @property
    def created_at(self) -> datetime.datetime | None:
        """When the contract was created."""

    @property
    def address(self) -> Address | None:
        """The address of what is sold."""

    @property
    def agent(self) -> ListingAgent | None:
        """The listing's agent."""

@final
class Offer(_Model):
    """An offer of an application."""

    __match_args__: Final = ("id", "expiry_date_time", "origination_fee_percent", "percent_of_commission", "created_at",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        expiry_date_time: datetime.datetime | None = None,
        origination_fee_percent: Decimal | int | None = None,
        percent_of_commission: Decimal | int | None = None,
        created_at: datetime.datetime | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The offer's identifier."""

    @property
    def expiry_date_time(self) -> datetime.datetime | None:
        """When the offer expires."""

    @property
    def origination_fee_percent(self) -> Decimal | None:
        """Origination fee in percent."""

    @property
    def percent_of_commission(self) -> Decimal | None:
        """Percent of the commission."""

    @property
    def created_at(self) -> datetime.datetime | None:
        """When the offer was created."""

@final
class Quote(_Model):
    """A quote."""

    __match_args__: Final = ("id", "created_at", "estimated_percent_min", "estimated_percent_max", "estimated_amount_min", "estimated_amount_max",)

    def __new__(
        cls,
        *,
        id: str | None = None,
        created_at: datetime.datetime | None = None,
        estimated_percent_min: int | None = None,
        estimated_percent_max: int | None = None,
        estimated_amount_min: int | None = None,
        estimated_amount_max: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def id(self) -> str | None:
        """The quote's identifier."""

    @property
    def created_at(self) -> datetime.datetime | None:
        """When the quote was created."""

    @property
    def estimated_percent_min(self) -> int | None:
        """Lower end of the estimated percentage."""

    @property
    def estimated_percent_max(self) -> int | None:
        """Upper end of the estimated percentage."""

    @property
    def estimated_amount_min(self) -> int | None:
        """Lower end of the estimated amount."""

    @property
    def estimated_amount_max(self) -> int | None:
        """Upper end of the estimated amount."""

@final
class RoleAssignment(_Model):
    """A role of an agent, and its scope."""

    __match_args__: Final = ("brokerage_id", "office_id", "collective_id", "role",)

    def __new__(
        cls,
        *,
        brokerage_id: str | None = None,
        office_id: str | None = None,
        collective_id: str | None = None,
        role: str,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def brokerage_id(self) -> str | None:
        """The brokerage that the role is for."""

    @property
    def office_id(self) -> str | None:
        """The office that the role is for."""

    @property
    def collective_id(self) -> str | None:
        """The collective that the role is for."""

    @property
    def role(self) -> Role | str:
        """The role: one that a request can name, or any other string, unchanged."""

@final
class Side(_Model):
    """A commission side of a deal."""

    __match_args__: Final = ("contact_id", "gross_commission", "agent_units", "side_percentage",)

    def __new__(
        cls,
        *,
        contact_id: str | None = None,
        gross_commission: Decimal | int | None = None,
        agent_units: Decimal | int | None = None,
        side_percentage: Decimal | int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def contact_id(self) -> str | None:
        """The contact that the side belongs to."""

    @property
    def gross_commission(self) -> Decimal | None:
        """Gross commission."""

    @property
    def agent_units(self) -> Decimal | None:
        """The agent's units."""

    @property
    def side_percentage(self) -> Decimal | None:
        """Percentage of the side."""

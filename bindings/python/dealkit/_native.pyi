# What users see of the native half. stubtest holds this against the built module; bindings/stubs.py writes the models at the end.
# The rest has its types and documentation in bindings/src.
import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, final

from dealkit._core.headers import Headers
from dealkit.enums import Role

@final
class Failure:
    def parts(self) -> tuple[str, str, dict[str, Any]]: ...

# It needs the class above, where this file stands in for the module.
from dealkit._models.methods import ModelMethods  # noqa: E402

__version__: Final[str]
READINGS: Final[tuple[str, ...]]

# What only dealkit's own code sees.
def __getattr__(name: str) -> Any: ...

Call: TypeAlias = Any
Engine: TypeAlias = Any
KeyAnswer: TypeAlias = Any
KeySource: TypeAlias = Any
Mailbox: TypeAlias = Any
Many: TypeAlias = Any
Options: TypeAlias = Any
Question: TypeAlias = Any
TableBuilder: TypeAlias = Any
Watch: TypeAlias = Any

def violation_texts(pointer: str, code: str, detail: str) -> tuple[str, str]: ...
def raw_json(text: str) -> RawJson | Failure: ...
def json_text(name: str, value: object) -> str | Failure: ...
def deal_schema(scale: int | None) -> Schema | Failure: ...
def start_sandbox(
    deals: list[str] | None, settings: dict[str, Any], ca_file: str | None = None
) -> NativeSandbox | Failure: ...

@final
class NativeSandbox:
    @property
    def url(self) -> str: ...
    @property
    def service_key(self) -> str: ...
    @property
    def ca_file(self) -> str | None: ...
    def call(self, method: str, target: str, body: str) -> tuple[int, bytes] | Failure: ...
    def close(self) -> None: ...

def run_server(arguments: list[str]) -> int: ...

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

class _Model(ModelMethods):
    """The base class of all models."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """The fields that no attribute holds, by their names on the wire: those that this version of dealkit does not know,
        and those that could not be read (see ``unreadable``). A fresh copy each time. For one of them, ``get`` is better: it
        still finds the field when a later version knows it."""

# Written by bindings/stubs.py: do not change what follows.

@final
class Address(_Model):
    """A postal address."""

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
    line1: Final[str | None]
    """First line."""
    line2: Final[str | None]
    """Second line."""
    city: Final[str | None]
    """City."""
    state: Final[str | None]
    """State."""
    zip: Final[str | None]
    """Postal code."""

@final
class Agent(_Model):
    """An agent, as the service returns it after creating one. The length limits of the names are not
    enforced on what a service sends."""

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
    id: Final[str]
    """The agent's identifier."""
    email: Final[str]
    """E-mail address."""
    date_of_birth: Final[datetime.date | None]
    """Date of birth, if the service knows it."""
    first_name: Final[str]
    """First name."""
    last_name: Final[str]
    """Last name."""
    profile: Final[AgentProfileResponse]
    """The agent's profile."""
    current_brokerage_id: Final[str | None]
    """The brokerage the agent is currently associated with; an agent is active with at most one."""
    role_assignments: Final[tuple[RoleAssignment, ...]]
    """The roles that the agent has, each with its scope."""

@final
class AgentProfileResponse(_Model):
    """The profile of an agent in a response. It differs from the profile in a request, whose fields have
    other names."""

    def __new__(
        cls,
        *,
        onboarding_complete: bool | None = None,
        client_metadata: Mapping[str, object] | None = None,
        external_id: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    onboarding_complete: Final[bool | None]
    """Whether the agent's onboarding is complete."""
    client_metadata: Final[Mapping[str, Any] | None]
    """Metadata that the caller attached to the agent: a JSON object in which every number is exact."""
    external_id: Final[str | None]
    """The caller's own identifier of the agent."""

@final
class Application(_Model):
    """The application of a deal."""

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
    id: Final[str | None]
    """The application's identifier."""
    status: Final[str | None]
    """Status, an open set; PENDING is the one documented value."""
    decisioned_on: Final[str | None]
    """When the application was decided. The specification states no format, so it is kept as a string."""
    created_at: Final[str | None]
    """When the application was created. The specification states no format, so it is kept as a string."""
    deal_id: Final[str | None]
    """The deal that the application belongs to."""
    requested_amount: Final[Decimal | None]
    """The amount requested."""
    offers: Final[tuple[Offer, ...]]
    """The offers made."""

@final
class Contact(_Model):
    """A contact of a deal."""

    def __new__(
        cls,
        *,
        id: str | None = None,
        contact_schema_id: str | None = None,
        type: str | None = None,
        fields: Iterable[ContactField] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    id: Final[str | None]
    """The contact's identifier."""
    contact_schema_id: Final[str | None]
    """The schema that the contact follows."""
    type: Final[str | None]
    """Type, an open set."""
    fields: Final[tuple[ContactField, ...]]
    """The contact's data, field by field."""

@final
class ContactField(_Model):
    """One field of a contact."""

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
    id: Final[str | None]
    """The field's identifier."""
    field_schema_id: Final[str | None]
    """The schema that the field follows."""
    label: Final[str | None]
    """The field's name as shown to people."""
    type: Final[str | None]
    """Type, an open set."""
    value: Final[str | None]
    """The field's value."""

@final
class Deal(_Model):
    """A deal. Only `id` is always present: anything that the service omits or sends as null is None, an
    empty list or an empty map. The specification does not say in what unit or scale money, percentages
    and splits are, so the numbers are passed on unchanged."""

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
    id: Final[str]
    """The deal's identifier."""
    status: Final[str | None]
    """Status, an open set; CLOSED is the one documented value."""
    phase: Final[str | None]
    """Phase, an open set; APPLICATION is the one documented value."""
    expiry_date: Final[datetime.date | None]
    """The day on which the deal expires."""
    created_at: Final[datetime.datetime | None]
    """When the deal was created."""
    listing_contract: Final[ListingContract | None]
    """The listing contract."""
    application: Final[Application | None]
    """The application, with its offers."""
    quotes: Final[tuple[Quote, ...]]
    """The quotes."""
    contacts: Final[tuple[Contact, ...]]
    """The contacts."""
    sides: Final[tuple[Side, ...]]
    """The commission sides."""
    metadata: Final[Mapping[str, str]]
    """Free-form metadata: strings by name."""
    external_id: Final[str | None]
    """The caller's own identifier of the deal."""

@final
class ListingAgent(_Model):
    """The agent of a listing contract."""

    def __new__(
        cls,
        *,
        id: str | None = None,
        email: str | None = None,
        first_name: str | None = None,
        last_name: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    id: Final[str | None]
    """The agent's identifier."""
    email: Final[str | None]
    """E-mail address."""
    first_name: Final[str | None]
    """First name."""
    last_name: Final[str | None]
    """Last name."""

@final
class ListingContract(_Model):
    """The listing contract of a deal."""

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
    id: Final[str | None]
    """The contract's identifier."""
    side: Final[str | None]
    """The side that the agent is on, an open set."""
    side_split: Final[int | None]
    """The split of the side."""
    sale_price: Final[int | None]
    """The sale price."""
    net_agent_commission: Final[int | None]
    """The agent's net commission."""
    gross_agent_commission: Final[int | None]
    """The agent's gross commission."""
    commission_rate: Final[int | None]
    """The commission rate."""
    expected_close_date: Final[datetime.date | None]
    """The day on which the sale is expected to close."""
    created_at: Final[datetime.datetime | None]
    """When the contract was created."""
    address: Final[Address | None]
    """The address of what is sold."""
    agent: Final[ListingAgent | None]
    """The listing's agent."""

@final
class Offer(_Model):
    """An offer of an application."""

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
    id: Final[str | None]
    """The offer's identifier."""
    expiry_date_time: Final[datetime.datetime | None]
    """When the offer expires."""
    origination_fee_percent: Final[Decimal | None]
    """Origination fee in percent."""
    percent_of_commission: Final[Decimal | None]
    """Percent of the commission."""
    created_at: Final[datetime.datetime | None]
    """When the offer was created."""

@final
class Quote(_Model):
    """A quote."""

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
    id: Final[str | None]
    """The quote's identifier."""
    created_at: Final[datetime.datetime | None]
    """When the quote was created."""
    estimated_percent_min: Final[int | None]
    """Lower end of the estimated percentage."""
    estimated_percent_max: Final[int | None]
    """Upper end of the estimated percentage."""
    estimated_amount_min: Final[int | None]
    """Lower end of the estimated amount."""
    estimated_amount_max: Final[int | None]
    """Upper end of the estimated amount."""

@final
class RoleAssignment(_Model):
    """A role of an agent, and its scope."""

    def __new__(
        cls,
        *,
        brokerage_id: str | None = None,
        office_id: str | None = None,
        collective_id: str | None = None,
        role: str,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    brokerage_id: Final[str | None]
    """The brokerage that the role is for."""
    office_id: Final[str | None]
    """The office that the role is for."""
    collective_id: Final[str | None]
    """The collective that the role is for."""
    role: Final[Role | str]
    """The role: one that a request can name, or any other string, unchanged."""

@final
class Side(_Model):
    """A commission side of a deal."""

    def __new__(
        cls,
        *,
        contact_id: str | None = None,
        gross_commission: Decimal | int | None = None,
        agent_units: Decimal | int | None = None,
        side_percentage: Decimal | int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    contact_id: Final[str | None]
    """The contact that the side belongs to."""
    gross_commission: Final[Decimal | None]
    """Gross commission."""
    agent_units: Final[Decimal | None]
    """The agent's units."""
    side_percentage: Final[Decimal | None]
    """Percentage of the side."""

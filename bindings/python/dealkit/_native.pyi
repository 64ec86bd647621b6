# The stub of the native module, with its public classes. stubtest compares it with the built module. bindings/stubs.py writes the
# models at the end. The private classes and functions are in bindings/src.
import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, dataclass_transform, final

from dealkit._core.headers import Headers
from dealkit.enums import Role

@final
class Failure:
    def parts(self) -> tuple[str, str, dict[str, Any]]: ...

# This import needs Failure if this file replaces the native module, so it is below Failure.
from dealkit._models.methods import ModelMethods  # noqa: E402

__version__: Final[str]
EFFECTS: Final[dict[tuple[str, str, str], str]]
VARIANTS: Final[tuple[str, ...]]

# Stands for all private functions, which only dealkit's own code uses.
def __getattr__(name: str) -> Any: ...

BackgroundCall: TypeAlias = Any
BlockingCall: TypeAlias = Any
BulkCalls: TypeAlias = Any
BulkResult: TypeAlias = Any
Call: TypeAlias = Any
CallTrace: TypeAlias = Any
CreateOnce: TypeAlias = Any
CreateRow: TypeAlias = Any
KeyRequest: TypeAlias = Any
KeySource: TypeAlias = Any
LedgerOptions: TypeAlias = Any
Mailbox: TypeAlias = Any
NativeClient: TypeAlias = Any
Options: TypeAlias = Any
ResolveRequest: TypeAlias = Any
TableBuilder: TypeAlias = Any

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

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

@final
class RawJson:
    """JSON that stays text: a value nested too deep for Python objects."""

    def __new__(cls, text: str, /) -> Self: ...
    @property
    def text(self) -> str:
        """The exact JSON text."""

@final
class RawResponse(Generic[_T_co]):
    """A whole response: status, headers and raw body, along with the value."""

    @property
    def status_code(self) -> int:
        """The status code, 200 to 299."""

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
        """The number of times that the request was sent, at least 1."""

    @property
    def body(self) -> bytes:
        """The raw body."""

    def parse(self) -> _T_co:
        """Returns the body as the model that the call returns. Raises DecodeError if the body is invalid."""

    def json(self) -> Any:
        """Returns the body as plain Python objects: int, Decimal, str, bool, None, list and dict.

        Values nested deeper than 127 levels are RawJson objects."""

@final
class Schema:
    """The columns of a table of deals. ``print`` lists them."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema as an Arrow schema (PyCapsule)."""

@final
class Table:
    """A table of deals, or of deals that failed, in memory.

    Libraries read it through Arrow's PyCapsule interface, without a copy: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``pandas.DataFrame.from_arrow(table)``. ``len(table)`` is the number of rows."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    @property
    def errors(self) -> Table | None:
        """A table of the deals that failed; None unless ``on_error="return"`` was given."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema as an Arrow schema (PyCapsule)."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports the rows as an Arrow stream (PyCapsule). Ignores the requested schema: the caller must cast."""

    def __len__(self) -> int: ...

_Given = TypeVar("_Given")
_Read = TypeVar("_Read")

class _Attribute(Generic[_Given, _Read]):
    """An attribute whose constructor keyword accepts more types than the attribute returns."""

    def __get__(self, model: object, of_class: object = None) -> _Read: ...
    def __set__(self, model: object, value: _Given) -> None: ...

_Number: TypeAlias = _Attribute[Decimal | int | None, Decimal | None]
_Items: TypeAlias = _Attribute[Iterable[_T] | None, tuple[_T, ...]]
_Texts: TypeAlias = _Attribute[Mapping[str, str] | None, Mapping[str, str]]

@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class _Attributes:
    """Declares, for type checkers, that the attributes of a subclass are keywords of its constructor."""

class _Model(_Attributes, ModelMethods):
    """The base class of all models."""

    extra: Mapping[str, Any] = ...
    """The fields that no attribute holds, by the names that the service uses: fields that this version of dealkit does not
    know, and unreadable fields (see ``unreadable``). Each access makes a copy. To read a single field, use ``get``, which
    also finds the field if a later version of dealkit has an attribute for it."""

# Written by bindings/stubs.py: do not change what follows.

@final
class Address(_Model):
    """A postal address."""

    line1: str | None = ...
    """First line."""
    line2: str | None = ...
    """Second line."""
    city: str | None = ...
    """City."""
    state: str | None = ...
    """State."""
    zip: str | None = ...
    """Postal code."""

    def replace(
        self,
        /,
        *,
        line1: str | None = ...,
        line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        zip: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        line1: str | None = ...,
        line2: str | None = ...,
        city: str | None = ...,
        state: str | None = ...,
        zip: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Agent(_Model):
    """An agent, as the service returns it after creating it. The length limits of the names are not checked in a
    response."""

    id: str
    """The agent's identifier."""
    email: str
    """E-mail address."""
    date_of_birth: datetime.date | None = ...
    """Date of birth, if the service knows it."""
    first_name: str
    """First name."""
    last_name: str
    """Last name."""
    profile: AgentProfileResponse
    """The agent's profile."""
    current_brokerage_id: str | None = ...
    """The brokerage the agent is currently associated with; an agent is active with at most one."""
    role_assignments: _Items[RoleAssignment]
    """The roles that the agent has, each with its scope."""

    def replace(
        self,
        /,
        *,
        id: str = ...,
        email: str = ...,
        date_of_birth: datetime.date | None = ...,
        first_name: str = ...,
        last_name: str = ...,
        profile: AgentProfileResponse = ...,
        current_brokerage_id: str | None = ...,
        role_assignments: Iterable[RoleAssignment] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str = ...,
        email: str = ...,
        date_of_birth: datetime.date | None = ...,
        first_name: str = ...,
        last_name: str = ...,
        profile: AgentProfileResponse = ...,
        current_brokerage_id: str | None = ...,
        role_assignments: Iterable[RoleAssignment] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class AgentProfileResponse(_Model):
    """The profile of an agent in a response. The profile in a request has fields with other names."""

    onboarding_complete: bool | None = ...
    """Whether the agent's onboarding is complete."""
    client_metadata: Mapping[str, Any] | None = ...
    """Metadata that the caller attached to the agent: a JSON object in which every number is exact."""
    external_id: str | None = ...
    """The caller's own identifier of the agent."""

    def replace(
        self,
        /,
        *,
        onboarding_complete: bool | None = ...,
        client_metadata: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        onboarding_complete: bool | None = ...,
        client_metadata: Mapping[str, Any] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Application(_Model):
    """The application of a deal."""

    id: str | None = ...
    """The application's identifier."""
    status: str | None = ...
    """Status, an extensible enum; PENDING is the one documented value."""
    decisioned_on: str | None = ...
    """When the application was decided: a string, because the specification states no format."""
    created_at: str | None = ...
    """When the application was created: a string, because the specification states no format."""
    deal_id: str | None = ...
    """The deal that the application belongs to."""
    requested_amount: _Number = ...
    """The amount requested."""
    offers: _Items[Offer] = ...
    """The offers made."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        status: str | None = ...,
        decisioned_on: str | None = ...,
        created_at: str | None = ...,
        deal_id: str | None = ...,
        requested_amount: Decimal | int | None = ...,
        offers: Iterable[Offer] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        status: str | None = ...,
        decisioned_on: str | None = ...,
        created_at: str | None = ...,
        deal_id: str | None = ...,
        requested_amount: Decimal | int | None = ...,
        offers: Iterable[Offer] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Contact(_Model):
    """A contact of a deal."""

    id: str | None = ...
    """The contact's identifier."""
    contact_schema_id: str | None = ...
    """The schema that the contact follows."""
    type: str | None = ...
    """Type, an extensible enum."""
    fields: _Items[ContactField] = ...
    """The contact's data, field by field."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        contact_schema_id: str | None = ...,
        type: str | None = ...,
        fields: Iterable[ContactField] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        contact_schema_id: str | None = ...,
        type: str | None = ...,
        fields: Iterable[ContactField] | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class ContactField(_Model):
    """One field of a contact."""

    id: str | None = ...
    """The field's identifier."""
    field_schema_id: str | None = ...
    """The schema that the field follows."""
    label: str | None = ...
    """The field's name as shown to people."""
    type: str | None = ...
    """Type, an extensible enum."""
    value: str | None = ...
    """The field's value."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        field_schema_id: str | None = ...,
        label: str | None = ...,
        type: str | None = ...,
        value: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        field_schema_id: str | None = ...,
        label: str | None = ...,
        type: str | None = ...,
        value: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Deal(_Model):
    """A deal. Only `id` is always present: any other field that the service omits or sends as null is None, an
    empty list or an empty map. The specification does not define the unit or scale of money, percentages and
    splits, so the numbers are the service's, unchanged."""

    id: str
    """The deal's identifier."""
    status: str | None = ...
    """Status, an extensible enum; CLOSED is the one documented value."""
    phase: str | None = ...
    """Phase, an extensible enum; APPLICATION is the one documented value."""
    expiry_date: datetime.date | None = ...
    """The day on which the deal expires."""
    created_at: datetime.datetime | None = ...
    """When the deal was created."""
    listing_contract: ListingContract | None = ...
    """The listing contract."""
    application: Application | None = ...
    """The application, with its offers."""
    quotes: _Items[Quote] = ...
    """The quotes."""
    contacts: _Items[Contact] = ...
    """The contacts."""
    sides: _Items[Side] = ...
    """The commission sides."""
    metadata: _Texts = ...
    """Free-form metadata: a map of strings."""
    external_id: str | None = ...
    """The caller's own identifier of the deal."""

    def replace(
        self,
        /,
        *,
        id: str = ...,
        status: str | None = ...,
        phase: str | None = ...,
        expiry_date: datetime.date | None = ...,
        created_at: datetime.datetime | None = ...,
        listing_contract: ListingContract | None = ...,
        application: Application | None = ...,
        quotes: Iterable[Quote] | None = ...,
        contacts: Iterable[Contact] | None = ...,
        sides: Iterable[Side] | None = ...,
        metadata: Mapping[str, str] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str = ...,
        status: str | None = ...,
        phase: str | None = ...,
        expiry_date: datetime.date | None = ...,
        created_at: datetime.datetime | None = ...,
        listing_contract: ListingContract | None = ...,
        application: Application | None = ...,
        quotes: Iterable[Quote] | None = ...,
        contacts: Iterable[Contact] | None = ...,
        sides: Iterable[Side] | None = ...,
        metadata: Mapping[str, str] | None = ...,
        external_id: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class ListingAgent(_Model):
    """The agent of a listing contract."""

    id: str | None = ...
    """The agent's identifier."""
    email: str | None = ...
    """E-mail address."""
    first_name: str | None = ...
    """First name."""
    last_name: str | None = ...
    """Last name."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        email: str | None = ...,
        first_name: str | None = ...,
        last_name: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        email: str | None = ...,
        first_name: str | None = ...,
        last_name: str | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class ListingContract(_Model):
    """The listing contract of a deal."""

    id: str | None = ...
    """The contract's identifier."""
    side: str | None = ...
    """The side that the agent is on, an extensible enum."""
    side_split: int | None = ...
    """The split of the side."""
    sale_price: int | None = ...
    """The sale price."""
    net_agent_commission: int | None = ...
    """The agent's net commission."""
    gross_agent_commission: int | None = ...
    """The agent's gross commission."""
    commission_rate: int | None = ...
    """The commission rate."""
    expected_close_date: datetime.date | None = ...
    """The day on which the sale is expected to close."""
    created_at: datetime.datetime | None = ...
    """When the contract was created."""
    address: Address | None = ...
    """The address of the property."""
    agent: ListingAgent | None = ...
    """The listing's agent."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        side: str | None = ...,
        side_split: int | None = ...,
        sale_price: int | None = ...,
        net_agent_commission: int | None = ...,
        gross_agent_commission: int | None = ...,
        commission_rate: int | None = ...,
        expected_close_date: datetime.date | None = ...,
        created_at: datetime.datetime | None = ...,
        address: Address | None = ...,
        agent: ListingAgent | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        side: str | None = ...,
        side_split: int | None = ...,
        sale_price: int | None = ...,
        net_agent_commission: int | None = ...,
        gross_agent_commission: int | None = ...,
        commission_rate: int | None = ...,
        expected_close_date: datetime.date | None = ...,
        created_at: datetime.datetime | None = ...,
        address: Address | None = ...,
        agent: ListingAgent | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Offer(_Model):
    """An offer of an application."""

    id: str | None = ...
    """The offer's identifier."""
    expiry_date_time: datetime.datetime | None = ...
    """When the offer expires."""
    origination_fee_percent: _Number = ...
    """Origination fee in percent."""
    percent_of_commission: _Number = ...
    """Percent of the commission."""
    created_at: datetime.datetime | None = ...
    """When the offer was created."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        expiry_date_time: datetime.datetime | None = ...,
        origination_fee_percent: Decimal | int | None = ...,
        percent_of_commission: Decimal | int | None = ...,
        created_at: datetime.datetime | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        expiry_date_time: datetime.datetime | None = ...,
        origination_fee_percent: Decimal | int | None = ...,
        percent_of_commission: Decimal | int | None = ...,
        created_at: datetime.datetime | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Quote(_Model):
    """A quote."""

    id: str | None = ...
    """The quote's identifier."""
    created_at: datetime.datetime | None = ...
    """When the quote was created."""
    estimated_percent_min: int | None = ...
    """Lower end of the estimated percentage."""
    estimated_percent_max: int | None = ...
    """Upper end of the estimated percentage."""
    estimated_amount_min: int | None = ...
    """Lower end of the estimated amount."""
    estimated_amount_max: int | None = ...
    """Upper end of the estimated amount."""

    def replace(
        self,
        /,
        *,
        id: str | None = ...,
        created_at: datetime.datetime | None = ...,
        estimated_percent_min: int | None = ...,
        estimated_percent_max: int | None = ...,
        estimated_amount_min: int | None = ...,
        estimated_amount_max: int | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        id: str | None = ...,
        created_at: datetime.datetime | None = ...,
        estimated_percent_min: int | None = ...,
        estimated_percent_max: int | None = ...,
        estimated_amount_min: int | None = ...,
        estimated_amount_max: int | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class RoleAssignment(_Model):
    """A role of an agent, and its scope."""

    brokerage_id: str | None = ...
    """The brokerage that the role is for."""
    office_id: str | None = ...
    """The office that the role is for."""
    collective_id: str | None = ...
    """The collective that the role is for."""
    role: Role | str
    """The role: one of the roles that a request can name, or any other string, unchanged."""

    def replace(
        self,
        /,
        *,
        brokerage_id: str | None = ...,
        office_id: str | None = ...,
        collective_id: str | None = ...,
        role: Role | str = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        brokerage_id: str | None = ...,
        office_id: str | None = ...,
        collective_id: str | None = ...,
        role: Role | str = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

@final
class Side(_Model):
    """A commission side of a deal."""

    contact_id: str | None = ...
    """The contact that the side belongs to."""
    gross_commission: _Number = ...
    """Gross commission."""
    agent_units: _Number = ...
    """The agent's units."""
    side_percentage: _Number = ...
    """Percentage of the side."""

    def replace(
        self,
        /,
        *,
        contact_id: str | None = ...,
        gross_commission: Decimal | int | None = ...,
        agent_units: Decimal | int | None = ...,
        side_percentage: Decimal | int | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
        contact_id: str | None = ...,
        gross_commission: Decimal | int | None = ...,
        agent_units: Decimal | int | None = ...,
        side_percentage: Decimal | int | None = ...,
        extra: Mapping[str, Any] | None = ...,
    ) -> Self: ...

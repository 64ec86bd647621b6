# Written by bindings/stubs.py: do not change it here.
import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Literal, Self, TypeVar, final, overload

from dealkit._headers import Headers
from dealkit.enums import Role

__version__: Final[str]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

@final
class Address:
    """A postal address."""

    __match_args__: Final = ("line1", "line2", "city", "state", "zip",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Address:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Agent:
    """An agent, as the service answers with after creating one."""

    __match_args__: Final = ("id", "email", "date_of_birth", "first_name", "last_name", "profile", "current_brokerage_id", "role_assignments",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Agent:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class AgentProfileResponse:
    """The profile of an agent in a response."""

    __match_args__: Final = ("onboarding_complete", "client_metadata", "external_id",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

    def __new__(
        cls,
        *,
        onboarding_complete: bool | None = None,
        client_metadata: Mapping[str, Any] | None = None,
        external_id: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
    @property
    def onboarding_complete(self) -> bool | None:
        """Whether the agent's onboarding is complete."""

    @property
    def client_metadata(self) -> Mapping[str, Any] | None:
        """What the caller attached to the agent: any JSON object."""

    @property
    def external_id(self) -> str | None:
        """The caller's own identifier of the agent."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> AgentProfileResponse:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Application:
    """The application of a deal."""

    __match_args__: Final = ("id", "status", "decisioned_on", "created_at", "deal_id", "requested_amount", "offers",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """Status, an open set; PENDING is the one value that the specification shows."""

    @property
    def decisioned_on(self) -> str | None:
        """When the application was decided. The specification states no format, so it stays a string."""

    @property
    def created_at(self) -> str | None:
        """When the application was created. The specification states no format, so it stays a string."""

    @property
    def deal_id(self) -> str | None:
        """The deal that the application belongs to."""

    @property
    def requested_amount(self) -> Decimal | None:
        """The amount asked for."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The offers made."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Application:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Contact:
    """A contact of a deal."""

    __match_args__: Final = ("id", "contact_schema_id", "type", "fields",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """What is known of the contact, field by field."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Contact:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class ContactField:
    """One field of a contact."""

    __match_args__: Final = ("id", "field_schema_id", "label", "type", "value",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """What the field is called where people see it."""

    @property
    def type(self) -> str | None:
        """Type, an open set."""

    @property
    def value(self) -> str | None:
        """The field's value."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> ContactField:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Deal:
    """A deal. Only `id` is always there: what the service left out or sent as null is None, an empty
    tuple or an empty mapping."""

    __match_args__: Final = ("id", "status", "phase", "expiry_date", "created_at", "listing_contract", "application", "quotes", "contacts", "sides", "metadata", "external_id",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """Status, an open set; CLOSED is the one value that the specification shows."""

    @property
    def phase(self) -> str | None:
        """Phase, an open set; APPLICATION is the one value that the specification shows."""

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Deal:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class ListingAgent:
    """The agent of a listing contract."""

    __match_args__: Final = ("id", "email", "first_name", "last_name",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> ListingAgent:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class ListingContract:
    """The listing contract of a deal."""

    __match_args__: Final = ("id", "side", "side_split", "sale_price", "net_agent_commission", "gross_agent_commission", "commission_rate", "expected_close_date", "created_at", "address", "agent",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """The side that the agent stands on, an open set."""

    @property
    def side_split(self) -> int | None:
        """The split of the side."""

    @property
    def sale_price(self) -> int | None:
        """The sale price."""

    @property
    def net_agent_commission(self) -> int | None:
        """The agent's commission, net."""

    @property
    def gross_agent_commission(self) -> int | None:
        """The agent's commission, gross."""

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> ListingContract:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Offer:
    """An offer of an application."""

    __match_args__: Final = ("id", "expiry_date_time", "origination_fee_percent", "percent_of_commission", "created_at",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Offer:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Quote:
    """A quote."""

    __match_args__: Final = ("id", "created_at", "estimated_percent_min", "estimated_percent_max", "estimated_amount_min", "estimated_amount_max",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Quote:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class RoleAssignment:
    """A role of an agent and where it holds."""

    __match_args__: Final = ("brokerage_id", "office_id", "collective_id", "role",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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
        """The role: a Role, or the string as it came when it is none of those."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> RoleAssignment:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class Side:
    """A commission side of a deal."""

    __match_args__: Final = ("contact_id", "gross_commission", "agent_units", "side_percentage",)
    __dealkit_fields__: Final[tuple[tuple[str, str, str, str, str, str], ...]]

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

    @property
    def extra(self) -> Mapping[str, Any]:
        """Members that the specification does not show, by name."""

    @staticmethod
    def from_json(document: str | bytes | bytearray, /) -> Side:
        """Reads one from a JSON document, bytes or str.

        Raises DecodeError, which names the path of what could not be read and keeps the document."""

    @staticmethod
    def _by_the_core(document: str | bytes | bytearray, /) -> str: ...
    def to_json(self) -> str:
        """The JSON, with the names that the service uses and every digit of every number."""

    def to_dict(self) -> dict[str, Any]:
        """The attributes as a dict: models in it as dicts, tuples as lists, and unknown members, if
        there are any, under extra."""

    def _repr_html_(self) -> str: ...
    def __replace__(self, **changes: Any) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: Any) -> Self: ...

@final
class RawResponse(Generic[_T_co]):
    """A whole response: status, headers and raw body, beside the value."""

    @property
    def status_code(self) -> int:
        """The status, a 2xx."""

    @property
    def headers(self) -> Headers:
        """The headers; names in any case."""

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
        """The body as what the call answers with. Raises DecodeError where it is something else."""

    def json(self) -> Any:
        """The body as any JSON: ints, Decimals, strings, booleans, None, lists and dicts."""

@final
class Call(Generic[_T_co]):
    """A call that can be made: with an Engine, as often as need be."""

def retrieve_deal(id: str) -> Call[Deal]:
    """The call that retrieves a deal."""

def create_agent(members: dict[str, Any], validate: bool) -> Call[Agent]:
    """The call that creates an agent of the members of the request, by name."""

def other(
    method: str,
    segments: Iterable[str],
    json: tuple[object] | None,
    query: list[tuple[str, str]],
    headers: list[tuple[str, str]],
) -> Call[Any]:
    """A call of an operation that the specification does not show."""

def note_log(is_read: bool) -> None:
    """Notes whether anybody reads the log."""

def check_options(settings: dict[str, Any]) -> None:
    """Checks the settings in which clients that share their connections can differ."""

@final
class Engine:
    """Connection pools of one configuration.

    There are two, made when they are needed: a connection lives on the runtime that made it, and waiting
    callers have another one than awaiting callers."""

    def __new__(cls, settings: dict[str, Any], awaits: bool) -> Self: ...
    @property
    def base_url(self) -> str:
        """The base URL."""

    @property
    def service_key(self) -> str:
        """The key. For pickling only."""

    @overload
    def send(
        self, call: Call[_T], timeout: float | None, max_retries: int | None, raw: Literal[False]
    ) -> _T:
        """Makes a call and waits for its end."""

    @overload
    def send(
        self, call: Call[_T], timeout: float | None, max_retries: int | None, raw: Literal[True]
    ) -> RawResponse[_T]: ...

    def start(
        self,
        call: Call[Any],
        timeout: float | None,
        max_retries: int | None,
        raw: bool,
        mailbox: Mailbox,
        future: Any,
    ) -> Pending:
        """Begins a call whose outcome goes to a future of the mailbox's event loop."""

    def many(self, ordered: bool, timeout: float | None, max_retries: int | None) -> Many:
        """Begins to retrieve many deals, whose identifiers are pushed one at a time."""

@final
class Mailbox:
    """The mailbox of one event loop."""

    def __new__(cls, event_loop: Any, deliver: Any) -> Self: ...
    def take(self) -> list[tuple[Any, Parcel]]:
        """Takes out what has come: futures, and a parcel for each."""

@final
class Parcel:
    """Something for a future."""

    def open(self) -> tuple[Any, BaseException | None]:
        """What is in it: a value, or an exception in its place. There is nothing in it afterwards.

        The exception is not raised here: its traceback would hold on to the future, and the future to it."""

@final
class Pending:
    """A call that is under way."""

    def abort(self) -> None:
        """Aborts the call, if it is still under way."""

@final
class Many:
    """Deals on their way. The caller pushes identifiers, and never has more of them out than it wants to."""

    def push(self, id: str, index: int) -> None:
        """Adds an identifier to what is on its way; `index` is its place, for the error text."""

    def take(self) -> tuple[int, str, Any] | None:
        """The next deal that has come, as (index, id, deal or exception); None if none has."""

    def wait(self) -> None:
        """Waits until a deal has come, on the calling thread."""

    def tell(self, mailbox: Mailbox, future: Any) -> None:
        """Resolves the future of the mailbox's event loop once a deal has come."""

    def close(self) -> None:
        """Cancels what is on its way."""

@final
class NativeSandbox:
    """A running server."""

    def __new__(cls, deals: list[Any] | None, settings: dict[str, Any]) -> Self: ...
    @property
    def url(self) -> str:
        """The base URL for a client."""

    @property
    def service_key(self) -> str:
        """The key that requests must carry."""

    def agents(self) -> list[Agent]:
        """The agents created so far, in the order of creation."""

    def insert_deal(self, deal: Any) -> None:
        """Adds a deal; one with the same id is replaced."""

    def reset(self) -> None:
        """Drops every agent, and every deal but those that the server started with."""

    def close(self) -> None:
        """Stops the server at once."""

def run_server(arguments: list[str]) -> int:
    """Runs the server with these arguments, the command's name first, until a signal ends it. Returns the
    exit code."""

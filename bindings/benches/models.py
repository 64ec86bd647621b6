"""Models of a deal for msgspec and pydantic, as a careful user would write them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec
import pydantic


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Address(Struct, frozen=True, kw_only=True):
    line1: str | None = None
    line2: str | None = None
    city: str | None = None
    state: str | None = None
    zip: str | None = None


class ListingAgent(Struct, frozen=True, kw_only=True):
    id: str | None = None
    email: str | None = None
    first_name: str | None = None
    last_name: str | None = None


class ListingContract(Struct, frozen=True, kw_only=True):
    id: str | None = None
    side: str | None = None
    side_split: int | None = None
    sale_price: int | None = None
    net_agent_commission: int | None = None
    gross_agent_commission: int | None = None
    commission_rate: int | None = None
    expected_close_date: datetime.date | None = None
    created_at: datetime.datetime | None = None
    address: Address | None = None
    agent: ListingAgent | None = None


class Offer(Struct, frozen=True, kw_only=True):
    id: str | None = None
    expiry_date_time: datetime.datetime | None = None
    origination_fee_percent: Decimal | None = None
    percent_of_commission: Decimal | None = None
    created_at: datetime.datetime | None = None


class Application(Struct, frozen=True, kw_only=True):
    id: str | None = None
    status: str | None = None
    decisioned_on: str | None = None
    created_at: str | None = None
    deal_id: str | None = None
    requested_amount: Decimal | None = None
    offers: tuple[Offer, ...] = ()


class Quote(Struct, frozen=True, kw_only=True):
    id: str | None = None
    created_at: datetime.datetime | None = None
    estimated_percent_min: int | None = None
    estimated_percent_max: int | None = None
    estimated_amount_min: int | None = None
    estimated_amount_max: int | None = None


class ContactField(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str | None = None
    field_schema_id: str | None = None
    label: str | None = None
    type: str | None = None
    value: str | None = None


class Contact(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str | None = None
    contact_schema_id: str | None = None
    type: str | None = None
    fields: tuple[ContactField, ...] = ()


class Side(Struct, frozen=True, kw_only=True):
    contact_id: str | None = None
    gross_commission: Decimal | None = None
    agent_units: Decimal | None = None
    side_percentage: Decimal | None = None


class Deal(Struct, frozen=True, kw_only=True):
    id: str
    status: str | None = None
    phase: str | None = None
    expiry_date: datetime.date | None = None
    created_at: datetime.datetime | None = None
    listing_contract: ListingContract | None = None
    application: Application | None = None
    quotes: tuple[Quote, ...] = ()
    contacts: tuple[Contact, ...] = ()
    sides: tuple[Side, ...] = ()
    metadata: dict[str, str] = {}
    external_id: str | None = None


def for_pydantic(struct: type[msgspec.Struct]) -> type[pydantic.BaseModel]:
    """Converts a msgspec model into a pydantic model."""
    if struct in _made:
        return _made[struct]
    fields = {
        field.name: (_translated(field.type), pydantic.Field(_default(field), alias=field.encode_name))
        for field in msgspec.structs.fields(struct)
    }
    config = pydantic.ConfigDict(frozen=True)
    _made[struct] = pydantic.create_model(struct.__name__, __config__=config, **fields)  # type: ignore[call-overload]
    return _made[struct]


_made: dict[type[msgspec.Struct], type[pydantic.BaseModel]] = {}


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.required:
        return ...
    return {} if field.default_factory is not msgspec.NODEFAULT else field.default


def _translated(kind: object) -> object:
    inner = msgspec.inspect.type_info(kind)
    match inner:
        case msgspec.inspect.UnionType(types=types):
            for one in types:
                if isinstance(one, msgspec.inspect.StructType):
                    return for_pydantic(one.cls) | None
        case msgspec.inspect.StructType(cls=struct):
            return for_pydantic(struct)
        case msgspec.inspect.VarTupleType(item_type=msgspec.inspect.StructType(cls=struct)):
            return tuple[for_pydantic(struct), ...]  # type: ignore[misc]
        case _:
            pass
    return kind


decode_msgspec = msgspec.json.Decoder(Deal).decode
decode_pydantic = for_pydantic(Deal).model_validate_json

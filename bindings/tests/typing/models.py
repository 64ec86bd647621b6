"""The types that a type checker must infer for the models. Checked, and run."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, assert_type

from dealkit import (
    Agent,
    AgentProfileResponse,
    Application,
    Contact,
    ContactField,
    Deal,
    Field,
    ListingContract,
    Offer,
    Quote,
    Role,
    RoleAssignment,
    Side,
    fields,
)

deal = Deal.from_json(b'{"id": "d_1", "application": {"offers": [{}]}, "listing_contract": {}}')

assert_type(deal, Deal)
assert_type(deal.id, str)
assert_type(deal.status, str | None)
assert_type(deal.expiry_date, date | None)
assert_type(deal.created_at, datetime | None)
assert_type(deal.listing_contract, ListingContract | None)
assert_type(deal.application, Application | None)
assert_type(deal.quotes, tuple[Quote, ...])
assert_type(deal.contacts, tuple[Contact, ...])
assert_type(deal.sides, tuple[Side, ...])
assert_type(deal.metadata, Mapping[str, str])
assert_type(deal.extra, Mapping[str, Any])
assert_type(deal.to_json(), str)
assert_type(deal.to_json(indent=2), str)
assert_type(deal.to_dict(), dict[str, Any])
assert_type(deal.replace(status="OPEN", sides=[Side()], metadata={"a": "b"}, extra={"c": 1}), Deal)
assert_type(deal.__replace__(expiry_date=None), Deal)
assert_type(fields(Deal), tuple[Field, ...])
assert_type(fields(deal)[0].wire_name, str)

if deal.application is not None:
    assert_type(deal.application.requested_amount, Decimal | None)
    assert_type(deal.application.decisioned_on, str | None)
    for offer in deal.application.offers:
        assert_type(offer, Offer)
        assert_type(offer.percent_of_commission, Decimal | None)
        assert_type(offer.expiry_date_time, datetime | None)
if deal.listing_contract is not None:
    assert_type(deal.listing_contract.sale_price, int | None)
for contact in deal.contacts:
    assert_type(contact.contact_schema_id, str | None)
    assert_type(contact.type, str | None)
    assert_type(contact.fields, tuple[ContactField, ...])

# Tests can create models from lists and from tuples.
made = Deal(id="d_1", status="CLOSED", quotes=[Quote(estimated_amount_min=1)], metadata={"a": "b"}, extra={"c": 1})
assert_type(made, Deal)
assert_type(hash(made), int)
assert_type(made == deal, bool)

match made:
    case Deal(id=id, status="CLOSED"):
        assert_type(id, str)
    case _:
        raise AssertionError

agent = Agent(
    id="a_1",
    email="ada@example.com",
    first_name="Ada",
    last_name="Lovelace",
    profile=AgentProfileResponse(),
    role_assignments=(RoleAssignment(role=Role.AGENT),),
)
assert_type(agent.date_of_birth, date | None)
assert_type(agent.current_brokerage_id, str | None)
assert_type(agent.profile, AgentProfileResponse)
assert_type(agent.profile.onboarding_complete, bool | None)
assert_type(agent.role_assignments, tuple[RoleAssignment, ...])
assert_type(agent.role_assignments[0].role, Role | str)

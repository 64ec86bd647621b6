"""Decoding a deal from JSON, beside msgspec and pydantic with models of the same types.

Usage: python decode.py [rounds]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import models
from rounds import Turn, compare

import dealkit

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "dealkit": dealkit.Deal.from_json,
    "msgspec": models.decode_msgspec,
    "pydantic": models.decode_pydantic,
    "json.loads, no types": json.loads,
}


def three(deal: Any) -> object:
    """What a script reads of a deal."""
    return deal.status, deal.application.offers[0].percent_of_commission, deal.listing_contract.sale_price


def every(deal: Any) -> None:
    """Every field of the deal and of what is in it."""
    contract, application = deal.listing_contract, deal.application
    _ = deal.id, deal.status, deal.phase, deal.expiry_date, deal.created_at, deal.metadata, deal.external_id
    _ = contract.id, contract.side, contract.side_split, contract.sale_price, contract.net_agent_commission
    _ = contract.gross_agent_commission, contract.commission_rate, contract.expected_close_date, contract.created_at
    address, agent = contract.address, contract.agent
    _ = address.line1, address.line2, address.city, address.state, address.zip
    _ = agent.id, agent.email, agent.first_name, agent.last_name
    _ = application.id, application.status, application.decisioned_on, application.created_at
    _ = application.deal_id, application.requested_amount
    for offer in application.offers:
        _ = offer.id, offer.expiry_date_time, offer.origination_fee_percent, offer.percent_of_commission
        _ = offer.created_at
    for quote in deal.quotes:
        _ = quote.id, quote.created_at, quote.estimated_percent_min, quote.estimated_percent_max
        _ = quote.estimated_amount_min, quote.estimated_amount_max
    for contact in deal.contacts:
        _ = contact.id, contact.contact_schema_id, contact.type
        for field in contact.fields:
            _ = field.id, field.field_schema_id, field.label, field.type, field.value
    for side in deal.sides:
        _ = side.contact_id, side.gross_commission, side.agent_units, side.side_percentage


def turn(decode: Callable[[bytes], Any], body: bytes, use: Callable[[Any], object] | None, times: int) -> Turn:
    def run() -> float:
        start = time.perf_counter()
        for _ in range(times):
            deal = decode(body)
            if use is not None:
                use(deal)
        return (time.perf_counter() - start) / times

    return run


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    typical, large = models.document(), models.document(1_500)
    of_dealkit, of_msgspec = dealkit.Deal.from_json(typical), models.decode_msgspec(typical)
    assert of_dealkit.application is not None and of_msgspec.application is not None
    assert of_dealkit.application.requested_amount == of_msgspec.application.requested_amount
    for title, body, use, times in [
        (f"Typical deal, {len(typical)} bytes", typical, None, 400),
        ("… and three fields read", typical, three, 400),
        ("… and every field read", typical, every, 400),
        (f"Large deal, {len(large)} bytes", large, None, 2),
        ("… and every field read ", large, every, 2),
    ]:
        typed = {name: decode for name, decode in DECODERS.items() if use is None or name != "json.loads, no types"}
        contenders = {name: turn(decode, body, use, times) for name, decode in typed.items()}
        compare(title, "µs", contenders, rounds)


if __name__ == "__main__":
    main()

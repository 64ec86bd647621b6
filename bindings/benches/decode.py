"""Decoding a deal from JSON, compared with msgspec and pydantic with models of the same types.

Usage: python decode.py [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import documents
import models
import msgspec
from rounds import Bench, MeasuredTask, Table, make_parser, point

import dealkit

UNIT = "µs CPU"
Decode = Callable[[bytes], Any]
CONTENDERS: dict[str, Decode] = {
    "dealkit": dealkit.Deal.from_json,
    "msgspec": models.decode_msgspec,
    "pydantic": models.decode_pydantic,
}


def every(deal: Any) -> None:
    """Reads every field of the deal and of its nested models."""
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


def check(ours: object, its: object) -> None:
    """Checks that dealkit and a peer read the same values with the same types, field by field."""
    if isinstance(its, msgspec.Struct):
        for field in msgspec.structs.fields(its):
            check(getattr(ours, field.name), getattr(its, field.name))
    elif isinstance(its, tuple):
        assert isinstance(ours, tuple)
        for one, other in zip(ours, its, strict=True):
            check(one, other)
    else:
        assert ours == its, "dealkit and msgspec have not read the same"
        assert isinstance(ours, type(its)) or isinstance(its, dict), f"{type(ours)} is not {type(its)}"


def make_task(decode: Decode, bodies: Sequence[bytes], use: Callable[[Any], object] | None, times: int) -> MeasuredTask:
    following = itertools.cycle(bodies)

    def run() -> float:
        batch = list(itertools.islice(following, times))
        start = time.thread_time()
        for body in batch:
            deal = decode(body)
            if use is not None:
                use(deal)
        return (time.thread_time() - start) / times

    return run


def main() -> None:
    bench = Bench(make_parser(__doc__, rounds=31).parse_args())
    typical, large = [documents.deal()], [documents.deal(documents.LARGE)]
    new = documents.deals_with_new_decimals(2_000)
    for body in [*typical, *large, new[0], new[-1]]:
        check(CONTENDERS["dealkit"](body), CONTENDERS["msgspec"](body))
    for name, title, bodies, times, use in [
        ("typical", f"a typical deal, {len(typical[0]):,} bytes", typical, 100, None),
        ("typical, every field", f"a typical deal, {len(typical[0]):,} bytes, every field", typical, 100, every),
        ("new decimals", f"typical deals of {len(new[0]):,} bytes, every decimal new", new, 100, None),
        ("large", f"a large deal, {len(large[0]):,} bytes", large, 1, None),
    ]:
        tasks = {contender: make_task(decode, bodies, use, times) for contender, decode in CONTENDERS.items()}
        bench.compare(Table(f"python decode {name}", f"Python: decode {title}", UNIT), tasks)
    for contacts in [1, 10, 100, 1_000, 10_000]:
        bodies, times = [documents.deal(contacts)], min(max(1_000 // contacts, 1), 200)
        tasks = {contender: make_task(decode, bodies, every, times) for contender, decode in CONTENDERS.items()}
        bench.compare(point("python decode by contacts", "contacts", contacts, UNIT), tasks, rounds=11)
    bench.finish()


if __name__ == "__main__":
    main()

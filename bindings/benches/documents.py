"""The benchmarks' documents: the same deal as in the Rust benchmarks, and an agent to create."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_DEAL = Path(__file__).parents[2] / "sdk" / "benches" / "documents" / "deal.json"

# The number of contacts in a typical deal of 4.4 KB, and in a large deal of 1 MB.
TYPICAL, LARGE = 4, 1_500

# The fields of an agent to create, as arguments and as in the body.
AGENT: dict[str, Any] = {
    "email": "ada@example.com",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "profile": {"tier": "A", "externalId": "crm-000017", "onboardingComplete": True},
    "role": "AGENT",
    "phone": "+18025550117",
    "date_of_birth": "1985-12-10",
    "office_id": "o_1",
}


def deal(contacts: int = TYPICAL) -> bytes:
    """Returns a deal with 2 offers, 2 quotes, 2 sides and the given number of contacts with 5 fields each."""
    before, rest = _DEAL.read_text(encoding="utf-8").rstrip().split('"contacts": [', 1)
    contact, after = rest.split('], "sides"', 1)
    made = (contact.replace("c_0", f"c_{n}").replace("contact 0", f"contact {n}") for n in range(contacts))
    return f'{before}"contacts": [{", ".join(made)}], "sides"{after}'.encode()


def deals_with_new_decimals(count: int) -> list[bytes]:
    """Returns typical deals without common decimals: every number with a point has different digits."""
    pieces = [part.partition(b".") for part in deal().split(b": ")]
    made, fresh = [], 0
    for _ in range(count):
        document = []
        for whole, dot, rest in pieces:
            if dot and whole.isdigit():
                fresh += 1
                # The same number of digits as in a deal's amounts.
                whole, rest = b"%d" % (1_000 + fresh // 90), b"%02d" % (10 + fresh % 90) + rest.lstrip(b"0123456789")
            document.append(whole + dot + rest)
        made.append(b": ".join(document))
    return made

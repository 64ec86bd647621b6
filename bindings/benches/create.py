"""Validating and encoding the arguments of a create, compared with pydantic and msgspec with the same rules.

pydantic is the fairer peer, because it parses e-mail addresses (with email-validator) and URLs, as dealkit does. msgspec has only
patterns, so it checks less, and does not check URLs. All contenders have every field of the specification and reject other arguments.
Only dealkit accepts undocumented fields of the profile. It reports every violation; msgspec stops at the first.

Usage: python create.py [--rounds N] [--results FILE]
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import documents
import models
import msgspec
import pydantic
from msgspec import Meta, field
from pydantic import Field
from rounds import Bench, MeasuredTask, Table, make_parser

import dealkit

TIMES = 500
EMAIL, PHONE = r"^[^@\s]+@[^@\s]+\.[^@\s]+$", r"^\+[0-9]+$"
Role = Literal["COLLECTIVE_ADMIN", "BROKER_ADMIN", "OFFICE_ADMIN", "ADMIN", "AGENT"]
Text = Annotated[str, Meta(min_length=1, max_length=255)]
PydanticText = Annotated[str, Field(min_length=1, max_length=255)]


class Profile(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    tier: str | None = None
    id: str | None = None
    user_id: str | None = None
    partner_uuid: str | None = field(default=None, name="partnerUUID")
    partner_office_id: str | None = None
    partner_mls_agent_id: str | None = None
    partner_mls_id: str | None = None
    partner_status: str | None = None
    mls_id: str | None = None
    onboarding_complete: bool | None = None
    processor_connected_account_id: str | None = None
    processor_onboarding_complete: bool | None = None
    client_metadata: dict[str, Any] | None = None
    external_id: str | None = None


class CreateAgent(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    email: Annotated[str, Meta(pattern=EMAIL)]
    first_name: Text
    last_name: Text
    profile: Profile
    role: Role = "AGENT"
    phone: Annotated[str, Meta(pattern=PHONE)] | None = None
    image_url: str | None = None
    date_of_birth: datetime.date | None = None
    brokerage_id: str | None = None
    office_id: str | None = None
    collective_id: str | None = None


class PydanticCreateAgent(models.for_pydantic(CreateAgent)):  # type: ignore[misc]
    model_config = pydantic.ConfigDict(extra="forbid")
    email: pydantic.EmailStr
    first_name: PydanticText
    last_name: PydanticText
    phone: Annotated[str, Field(pattern=PHONE)] | None = None
    image_url: pydantic.AnyUrl | None = None


def with_msgspec() -> bytes:
    return msgspec.json.encode(msgspec.convert(documents.AGENT, CreateAgent))


def with_pydantic() -> bytes:
    agent = PydanticCreateAgent.model_validate(documents.AGENT)
    return agent.model_dump_json(exclude_unset=True, by_alias=True).encode()


def make_task(write: Callable[[], object]) -> MeasuredTask:
    def run() -> float:
        start = time.thread_time()
        for _ in range(TIMES):
            write()
        return (time.thread_time() - start) / TIMES

    return run


def main() -> None:
    bench = Bench(make_parser(__doc__, rounds=31).parse_args())
    for write in (with_msgspec, with_pydantic):
        assert {"role": "AGENT", **json.loads(write())} == documents.AGENT, f"{write.__name__} writes something else"
    with dealkit.Client(base_url="http://127.0.0.1:9", service_key="k") as client:
        # Validation includes encoding, because the encoded document is validated.
        validate = client.agents.validate

        def with_dealkit() -> None:
            if validate(**documents.AGENT):
                raise AssertionError("dealkit takes the agent for wrong")

        assert validate(**{**documents.AGENT, "phone": "1"}), "dealkit has validated nothing"
        contenders = {
            "dealkit": with_dealkit,
            "msgspec": with_msgspec,
            "pydantic": with_pydantic,
        }
        table = Table("python create", "Python: validate and encode a create request (msgspec checks less)", "µs CPU")
        bench.compare(table, {name: make_task(write) for name, write in contenders.items()})
    bench.finish()


if __name__ == "__main__":
    main()

"""Code that a type checker must reject. An ignore comment without an error is itself an error."""

from collections.abc import Mapping
from datetime import date

import dealkit
from dealkit import (
    Agent,
    AsyncClient,
    AsyncOperations,
    Client,
    CreateAgentParams,
    Creation,
    Deal,
    Offer,
    Operations,
)
from dealkit.testing import Stub


def text() -> str:
    return "AGENT"


def mapping() -> Mapping[str, object]:
    return {}


def sync(client: Client) -> None:
    Client("https://deals.example.com")  # type: ignore[call-arg, arg-type, unused-ignore]  # pyright: ignore[reportCallIssue]
    Client(timeout="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Client(retries=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.with_options(max_retries="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.deals.retrieve(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.deals.retrieve_many([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.agents.create(email=None, first_name="A", last_name="B", profile={})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={"teir": "A"})  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={"tier": 5})  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={}, role="AGNT")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={}, role=text())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.agents.create(email="a@b.co", first_name="A", last_name="B", profile=mapping())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.agents.validate(email="no", first_name="A", last_name="B")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.agents.validate(emial="no", first_name="A", last_name="B", profile={})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.agents.create_many([{"email": "a@b.co", "first_name": "A", "last_name": "B"}])  # type: ignore[typeddict-item]  # pyright: ignore[reportArgumentType]
    client.agents.create_many([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    client.agents.create_many([], on_error="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    params: CreateAgentParams = {"email": "a@b.co", "first_name": "A", "profile": {}}  # type: ignore[typeddict-item]  # pyright: ignore[reportAssignmentType]
    params["role"] = "AGNT"  # type: ignore[typeddict-item]  # pyright: ignore[reportGeneralTypeIssues]
    client.request("GET", "deals", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for _ in client.deals.retrieve_many(["d_1"], on_error="ignore"):  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        pass


async def awaited(client: AsyncClient) -> None:
    client.deals.retrieve("d_1").id  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    for _ in client.agents.create_many([]):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        pass
    for _ in client.deals.retrieve_many(["d_1"]):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        pass


def models(deal: Deal) -> None:
    Deal()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Deal("d_1")  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue]
    Deal(id="d_1", expiry_date="2026-03-31")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Offer(percent_of_commission=10.1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    deal.replace(expiry_date="2026-03-31")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    deal.replace(staus="OPEN")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    deal.replace(id=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    deal.status = "OPEN"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    deal.metadata["a"] = "b"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    deal.to_json(indent="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    dealkit.Clinet  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    deal.contactSchemaId  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    deal.application.offers  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    day: date = deal.expiry_date  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(day)


def creations(creation: Creation[Agent]) -> None:
    id: str = creation.agent_id  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    creation.agent_id = id  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def stand_in(client: Client, operations: Operations, async_client: AsyncClient) -> None:
    operations.agents.create(email="a@b.co", first_name="A", last_name="B")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    operations.deals.retrieve(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _sync: Operations = async_client  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    _async: AsyncOperations = client  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    Stub(retrieve=lambda id: 5)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]

"""The types that a type checker must infer for clients and calls. Checked, but never run."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack, assert_type

from dealkit import (
    Agent,
    AgentProfileParams,
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncClient,
    AsyncCreationIterator,
    AsyncDealIterator,
    AsyncOperations,
    Client,
    CreateAgentParams,
    Creation,
    CreationIterator,
    CreationOfRow,
    Deal,
    DealIterator,
    DealkitError,
    DecodeError,
    Headers,
    IdempotencyKeyReusedError,
    LedgerError,
    Operations,
    Problem,
    RawResponse,
    Role,
    Timeout,
    ValidationError,
    Violation,
)
from dealkit.arrow import AsyncDealTable, DealTable, Table, deals_to_arrow
from dealkit.ledger import UnresolvedRow
from dealkit.params import RoleName
from dealkit.testing import AsyncStub, CreatedAgent, RecordedRequest, Sandbox, Stub


def ids() -> Iterator[str]:
    yield "d_1"


def sync() -> None:
    with Client(base_url="https://deals.example.com", service_key="k", timeout=5) as client:
        assert_type(client, Client)
        assert_type(client.with_options(timeout=Timeout(connect=1, total=5), max_retries=0), Client)
        assert_type(client.base_url, str)
        assert_type(client.is_closed, bool)

        assert_type(client.deals.retrieve("d_1"), Deal)
        deals = client.deals.retrieve_many(["d_1"], concurrency=4, ordered=False, progress=True)
        assert_type(deals, DealIterator[Deal])
        for deal in deals:
            assert_type(deal, Deal)
        for result in client.deals.retrieve_many(ids(), on_error="return"):
            assert_type(result, Deal | DealkitError)
            if isinstance(result, DealkitError):
                assert_type(result.id, str | None)
            else:
                assert_type(result, Deal)
        for deal in client.deals.retrieve_many({"d_1"}, on_error="raise", progress=lambda done, of: None):
            assert_type(deal, Deal)
        with client.deals.retrieve_many(("d_1",)) as some:
            assert_type(next(some), Deal)
        table = client.deals.retrieve_many(["d_1"]).to_arrow(decimals="string", scale=2, batch_size=10)
        assert_type(table, DealTable)
        assert_type(table.errors, Table | None)
        for batch in table:
            assert_type(batch, Table)
        assert_type(deals_to_arrow([client.deals.retrieve("d_1"), b"{}", "{}"], on_error="return").errors, Table | None)

        response = client.with_raw_response.deals.retrieve("d_1")
        assert_type(response, RawResponse[Deal])
        assert_type(response.parse(), Deal)
        assert_type(response.headers, Headers)
        assert_type(response.headers["date"], str)
        assert_type(response.body, bytes)
        assert_type(response.status_code, int)
        assert_type(response.http_version, str)
        assert_type(response.request_id, str | None)
        assert_type(response.attempts, int)

        answer = client.request("PATCH", "agents", "a_1", json={"first_name": "Ada"}, query={"a": "b"})
        assert_type(answer.json(), Any)


def create(client: Client) -> None:
    profile: AgentProfileParams = {"tier": "A", "external_id": "crm-17", "client_metadata": {"a": [1, None]}}
    agent = client.agents.create(
        email="ada@example.com",
        first_name="Ada",
        last_name="Lovelace",
        profile=profile,
        role=Role.AGENT,
        date_of_birth=date(1815, 12, 10),
        image_url=None,
        validate=False,
    )
    assert_type(agent, Agent)
    # A profile with undocumented fields; a role and a date as strings.
    client.agents.create(
        email="ada@example.com",
        first_name="Ada",
        last_name="Lovelace",
        profile={"tier": "A", "extra": {"something_new": 5}},
        role="AGENT",
        date_of_birth="1815-12-10",
    )
    params: CreateAgentParams = {"email": "a@b.co", "first_name": "A", "last_name": "B", "profile": {}, "role": "ADMIN"}
    assert_type(client.agents.create(**params), Agent)
    assert_type(client.agents.create(**params, timeout=5), Agent)
    assert_type(client.agents.validate(**params), list[Violation])
    named: RoleName = "BROKER_ADMIN"
    violations = client.agents.validate(email="no", first_name="A", last_name="B", profile={}, role=named)
    assert_type(violations, list[Violation])
    raw = client.with_raw_response.agents.create(email="a@b.co", first_name="A", last_name="B", profile={})
    assert_type(raw, RawResponse[Agent])
    assert_type(raw.parse(), Agent)
    for response in client.with_raw_response.deals.retrieve_many(["d_1"]):
        assert_type(response, RawResponse[Deal])
    for either in client.with_raw_response.deals.retrieve_many(["d_1"], on_error="return"):
        assert_type(either, RawResponse[Deal] | DealkitError)


def create_many(client: Client, rows: list[CreateAgentParams]) -> None:
    creations = client.agents.create_many(rows, concurrency=4, ordered=False, on_error="return", progress=True)
    assert_type(creations, CreationIterator[Agent])
    for creation in creations:
        assert_type(creation.index, int)
        assert_type(creation.agent, Agent | None)
        assert_type(creation.agent_id, str | None)
        assert_type(creation.error, DealkitError | None)
        assert_type(creation.outcome, Literal["not_sent", "rejected", "unknown", "succeeded"])
        match creation.result:
            case "created":
                assert_type(creation.agent, Agent)
                assert_type(creation.agent_id, str)
                assert_type(creation.error, None)
            case "already_created":
                assert_type(creation.agent, None)
                assert_type(creation.agent_id, str | None)
            case "failed":
                assert_type(creation.error, DealkitError)
        if creation.result == "created":
            assert_type(creation.agent_id, str)
        annotated: Creation[Agent] = creation
        assert_type(annotated.agent, Agent | None)
    creations.stop()
    assert_type(creations.cancel(), list[CreationOfRow[Agent]])
    with client.agents.create_many((params for params in rows), timeout=5, validate=False) as some:
        assert_type(next(some).agent, Agent | None)
    for known in client.agents.create_many(rows, ledger=Path("a.ndjson"), key=lambda row: row["email"]):
        assert_type(known.key, str | None)
        assert_type(known.from_ledger, bool)
        assert_type(known.ledger_error, LedgerError | None)
    for whole in client.with_raw_response.agents.create_many(rows):
        assert_type(whole.agent, RawResponse[Agent] | None)
        assert_type(whole.agent_id, str | None)
        if whole.result == "created":
            assert_type(whole.agent, RawResponse[Agent])
    once = client.agents.create_once(idempotency_key="k", ledger="l", resolve=lambda row: row.row["email"], **rows[0])
    assert_type(once.error, None)
    assert_type(once.agent_id if once.result == "created" else "", str)
    # A value whose type is hidden from type checkers.
    untyped: Any = [{"email": "a@b.co"}]
    assert_type(next(client.agents.create_many(untyped)).index, int)
    assert_type(
        Creation[Agent](index=0, error=DealkitError()).outcome, Literal["not_sent", "rejected", "unknown", "succeeded"]
    )


async def create_many_awaited(client: AsyncClient, rows: Iterable[CreateAgentParams]) -> None:
    creations = client.agents.create_many(rows)
    assert_type(creations, AsyncCreationIterator[Agent])
    async for creation in creations:
        assert_type(creation.agent, Agent | None)
        assert_type(creation.agent_id if creation.result == "created" else "", str)
    creations.stop()
    assert_type(await creations.cancel(), list[CreationOfRow[Agent]])
    async with client.with_raw_response.agents.create_many(rows) as whole:
        assert_type((await anext(whole)).agent, RawResponse[Agent] | None)


async def look_up(row: UnresolvedRow) -> str | Literal[False] | None:
    return row.label or None


async def awaited(many: Iterable[str]) -> None:
    async with AsyncClient(timeout=Timeout(total=5)) as client:
        assert_type(client, AsyncClient)
        assert_type(client.with_options(max_retries=0), AsyncClient)
        assert_type(await client.deals.retrieve("d_1"), Deal)
        deals = client.deals.retrieve_many(many)
        assert_type(deals, AsyncDealIterator[Deal])
        async for deal in deals:
            assert_type(deal, Deal)
        async for result in client.deals.retrieve_many(many, on_error="return"):
            assert_type(result, Deal | DealkitError)
        assert_type(await client.with_raw_response.deals.retrieve("d_1"), RawResponse[Deal])
        assert_type(
            client.agents.validate(email="no", first_name="A", last_name="B", profile={}, role=Role("ADMIN")),
            list[Violation],
        )
        assert_type((await client.with_raw_response.deals.retrieve("d_1")).parse(), Deal)
        async for response in client.with_raw_response.deals.retrieve_many(many):
            assert_type(response, RawResponse[Deal])
        table = client.deals.retrieve_many(many).to_arrow(batch_size=10)
        assert_type(table, AsyncDealTable)
        assert_type(await table, Table)
        async for batch in table:
            assert_type(batch, Table)
        agent = await client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={})
        assert_type(agent, Agent)
        once = await client.agents.create_once(
            idempotency_key="k", ledger="l", resolve=look_up, email="a@b.co", first_name="A", last_name="B", profile={}
        )
        assert_type(once.agent_id if once.result == "created" else "", str)
        assert_type((await client.request("GET", "deals", "d_1")).json(), Any)


def reused_keys(client: Client, agent: CreateAgentParams) -> None:
    try:
        client.agents.create_once(idempotency_key="k", ledger="l", **agent)
    except IdempotencyKeyReusedError as error:
        assert_type(error.agent_id, str | None)
        assert_type(error.sent_at, datetime | None)


def errors(client: Client) -> None:
    try:
        client.deals.retrieve("d_1")
    except ValidationError as error:
        assert_type(error.errors, tuple[Violation, ...])
        assert_type(error.errors[0].pointer, str)
    except DecodeError as error:
        assert_type(error.path, str)
        assert_type(error.body, bytes)
    except APIStatusError as error:
        assert_type(error.status_code, int)
        assert_type(error.http_version, str | None)
        assert_type(error.problem, Problem | None)
        assert_type(error.headers, Headers)
    except APIConnectionError as error:
        assert_type(error.attempts, int)
    except DealkitError as error:
        assert_type(error.request_id, str | None)
        assert_type(error.retry_after, float | None)


def sandbox() -> None:
    with Sandbox([{"id": "d_1"}, '{"id": "d_2"}', b'{"id": "d_3"}', Deal(id="d_4")], strict=True) as server:
        assert_type(server.url, str)
        assert_type(server.agents, list[CreatedAgent])
        assert_type(server.agents[0].agent, Agent)
        assert_type(server.requests, list[RecordedRequest])
        assert_type(server.requests[0].status, int | None)
        assert_type(server.requests[0].headers, Headers)
        server.fail_next(status=503, times=2, retry_after=1)
        server.fail_next(cut="after-bytes:10", after_cut="eof", times=None, probability=0.1, seed=7)
        server.insert_deal({"id": "d_5"})
        assert_type(server.client(timeout=5), Client)


async def async_sandbox() -> None:
    async with Sandbox(generate=10, seed=7, tls=True) as server:
        assert_type(server.async_client(), AsyncClient)
        assert_type(server.ca_file, str | None)
        assert_type(server, Sandbox)


def operations(client: Operations) -> None:
    assert_type(client.deals.retrieve("d_1"), Deal)
    ada = client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={"tier": "A"}, role=Role.AGENT)
    assert_type(ada, Agent)
    once = client.agents.create_once(
        idempotency_key="k", ledger="l", resolve=look_up, email="a@b.co", first_name="A", last_name="B", profile={}
    )
    assert_type(once, Creation[Agent])


async def async_operations(client: AsyncOperations) -> None:
    assert_type(await client.deals.retrieve("d_1"), Deal)
    assert_type(await client.agents.create(email="a@b.co", first_name="A", last_name="B", profile={}), Agent)


class OwnDeals:
    def retrieve(self, id: str) -> Deal:
        return Deal(id=id)


class OwnAgents:
    def create(self, **agent: Unpack[CreateAgentParams]) -> Agent:
        raise ValueError(agent["email"])

    def create_once(self, *, idempotency_key: str, ledger: str | PathLike[str], **arguments: Any) -> Creation[Agent]:
        return Creation(index=0, agent=self.create(**arguments), key=idempotency_key)


class Own:
    agents = OwnAgents()
    deals = OwnDeals()


def rejected(**agent: Unpack[CreateAgentParams]) -> DealkitError:
    return APITimeoutError()


async def stand_in(client: Client, async_client: AsyncClient) -> None:
    operations(client)
    await async_operations(async_client)
    operations(Own())
    operations(Stub(create=rejected, retrieve=lambda id: Deal(id=id)))
    await async_operations(AsyncStub(retrieve=lambda id: Deal(id=id)))
    assert_type(Stub().deals.retrieve("d_1"), Deal)
    assert_type(await AsyncStub().deals.retrieve("d_1"), Deal)

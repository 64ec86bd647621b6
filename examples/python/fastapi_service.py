"""A FastAPI service built on dealkit: it takes agents as request bodies, and
returns deals as responses.

Run it with `uvicorn fastapi_service:app` (`pip install fastapi uvicorn`) and
look at /docs. Takes the service's URL and key from DEALKIT_BASE_URL and
DEALKIT_SERVICE_KEY, and the ledger, which all processes of the service share,
from DEALKIT_LEDGER.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from math import ceil
from os import environ
from typing import Any, TypeVar

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from dealkit import (
    Agent,
    AlreadyAttemptedError,
    APITimeoutError,
    AsyncClient,
    CreateAgentParams,
    Deal,
    DealkitError,
    NotFoundError,
    RateLimitError,
    ThrottledError,
    UnprocessableEntityError,
    ValidationError,
)

T = TypeVar("T")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """One client for all requests: it shares its connections among them."""
    async with AsyncClient() as client:
        app.state.client = client
        yield


app = FastAPI(title="Agents and deals", lifespan=lifespan)


@app.post("/agents", status_code=201)
async def create_agent(agent: CreateAgentParams, request: Request) -> Agent:
    """Creates an agent. An invalid body gets a 422 with every violation, and
    nothing is sent."""
    client: AsyncClient = request.app.state.client
    # If the caller hangs up and this handler is cancelled, the create continues.
    return await asyncio.shield(client.agents.create(**agent))


@app.put("/agents/{key}", status_code=201)
async def create_agent_once(
    key: str, agent: CreateAgentParams, request: Request, response: Response
) -> dict[str, str | None]:
    """Creates the agent with this key of the caller's, who may repeat the
    request: there is only one agent."""
    client: AsyncClient = request.app.state.client
    # If the caller hangs up and this handler is cancelled, the create continues,
    # and the ledger gets its outcome.
    creation = await client.agents.create_once(
        idempotency_key=key,
        ledger=environ.get("DEALKIT_LEDGER") or "agents.ledger",
        detached=True,
        **agent,
    )
    if creation.from_ledger:
        response.status_code = 200  # It was there before.
    return {"id": creation.agent_id}


@app.get("/deals/{id}")
async def retrieve_deal(id: str, request: Request) -> Deal:
    """A deal. Its decimals are strings, so that no reader rounds them."""
    client: AsyncClient = request.app.state.client
    return await unless_gone(request, client.deals.retrieve(id))


async def unless_gone(request: Request, call: Coroutine[Any, Any, T]) -> T:
    """Returns what a read returns, but cancels it if the caller hangs up. Never
    cancel creates: one cancelled halfway may have created an agent."""

    async def hung_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, gone = asyncio.ensure_future(call), asyncio.ensure_future(hung_up())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise HTTPException(499)  # Nobody sees it.
    finally:
        task.cancel()
        gone.cancel()


@app.exception_handler(DealkitError)
async def failed(request: Request, error: Exception) -> JSONResponse:
    """Reports what the caller can act on; the rest is between this service and
    the one behind it."""
    match error:
        case NotFoundError():
            return JSONResponse({"detail": "no such deal"}, 404)
        case ValidationError(errors=violations):
            return JSONResponse(
                {"detail": [violation.detail for violation in violations]}, 422
            )
        case AlreadyAttemptedError(in_flight=True):
            return JSONResponse(
                {"detail": "another request is creating it"},
                409,
                {"Retry-After": "1"},
            )
        case DealkitError(may_have_acted=True):
            # The agent may exist. With the id of the request, the operator of
            # the API behind this service can find out.
            return JSONResponse({"request_id": error.request_id}, 202)
        case RateLimitError() | ThrottledError():
            # At least a second: zero would be "immediately".
            wait = max(1, ceil(error.retry_after or 0))
            return JSONResponse(
                {"detail": "the service asks for fewer requests"},
                503,
                {"Retry-After": str(wait)},
            )
        case AlreadyAttemptedError() | UnprocessableEntityError():
            # Once the ledger's key is resolved as having no agent, the caller can
            # send the corrected agent with the same key.
            return JSONResponse({"detail": "the service rejects it"}, 422)
        case APITimeoutError():
            return JSONResponse({"detail": "the service took too long"}, 504)
        case _:
            return JSONResponse({"detail": "the service failed"}, 502)

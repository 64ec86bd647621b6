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
    IdempotencyKeyReusedError,
    LedgerError,
    NotFoundError,
    RateLimitError,
    ThrottledError,
    UnprocessableEntityError,
    ValidationError,
)

T = TypeVar("T")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Creates one client, whose connections all requests share."""
    async with AsyncClient() as client:
        app.state.client = client
        yield


app = FastAPI(title="Agents and deals", lifespan=lifespan)


@app.post("/agents", status_code=201)
async def create_agent(agent: CreateAgentParams, request: Request) -> Agent:
    """Creates an agent, for callers without an idempotency key: if they
    disconnect, only the log has the outcome. An invalid body gets a 422 with
    every violation, and nothing is sent."""
    client: AsyncClient = request.app.state.client
    # The create continues if the caller disconnects, which cancels this handler.
    return await asyncio.shield(client.agents.create(**agent))


@app.put("/agents/{key}", status_code=201)
async def create_agent_once(
    key: str, agent: CreateAgentParams, request: Request, response: Response
) -> dict[str, str | None]:
    """Creates the agent with the caller's idempotency key. Repeated requests
    with the same key create no further agent. If the service has rejected the
    agent, the caller sends the corrected agent with the same key."""
    client: AsyncClient = request.app.state.client
    # The create continues if the caller disconnects, which cancels this
    # handler. The ledger records its outcome.
    creation = await client.agents.create_once(
        idempotency_key=key,
        key_name="request",
        label=key[:80],  # for `dealkit ledger show`; keys are not personal
        ledger=environ.get("DEALKIT_LEDGER") or "agents.ledger",
        detached=True,
        resend_corrected=True,
        **agent,
    )
    if creation.from_ledger:
        response.status_code = 200  # The agent already existed.
    return {"id": creation.agent_id}


@app.get("/deals/{id}")
async def retrieve_deal(id: str, request: Request) -> Deal:
    """Returns a deal. Its decimals are strings, so that clients do not round
    them."""
    client: AsyncClient = request.app.state.client
    return await cancel_on_disconnect(request, client.deals.retrieve(id))


async def cancel_on_disconnect(
    request: Request, call: Coroutine[Any, Any, T]
) -> T:
    """Returns the result of a read, but cancels it if the caller disconnects.
    Never cancel creates: a cancelled create may have created an agent."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, disconnected = (
        asyncio.ensure_future(call),
        asyncio.ensure_future(wait_for_disconnect()),
    )
    try:
        await asyncio.wait(
            (task, disconnected), return_when=asyncio.FIRST_COMPLETED
        )
        if task.done():
            return task.result()
        raise HTTPException(499)  # The caller has disconnected.
    finally:
        task.cancel()
        disconnected.cancel()


@app.exception_handler(DealkitError)
async def error_response(request: Request, error: Exception) -> JSONResponse:
    """Reports the errors that the caller can correct. Hides the details of
    others, which concern this service and the API behind it."""
    match error:
        case NotFoundError():
            return JSONResponse({"detail": "no such deal"}, 404)
        case ValidationError(errors=violations):
            # The same form as FastAPI's own responses with this status.
            errors = [
                {
                    "type": violation.code,
                    "loc": ["body", *violation.pointer.split("/")[1:]],
                    "msg": violation.detail,
                }
                for violation in violations
            ]
            return JSONResponse({"detail": errors}, 422)
        case AlreadyAttemptedError(in_flight=True):
            return JSONResponse(
                {"detail": "another request is creating it"},
                409,
                {"Retry-After": "1"},
            )
        case IdempotencyKeyReusedError(agent_id=id):
            # The agent exists, with other data. The API cannot change it.
            detail = "the key belongs to an agent with other data"
            return JSONResponse({"detail": detail, "id": id}, 409)
        case DealkitError(may_have_acted=True):
            # The agent may exist. The operator of the API behind this service
            # can look up the request id, unless no response arrived.
            return JSONResponse({"request_id": error.request_id}, 202)
        case RateLimitError() | ThrottledError():
            # Zero would mean "immediately".
            wait = max(1, ceil(error.retry_after or 0))
            return JSONResponse(
                {"detail": "the service asks for fewer requests"},
                503,
                {"Retry-After": str(wait)},
            )
        case AlreadyAttemptedError() | UnprocessableEntityError():
            # There is no agent. The caller can send the corrected agent with the
            # same key.
            message = "the service rejects the agent"
            errors = [{"type": "rejected", "loc": ["body"], "msg": message}]
            return JSONResponse({"detail": errors}, 422)
        case LedgerError():
            # Nothing was sent: retry once the ledger can be used again.
            return JSONResponse({"detail": "the ledger cannot be used"}, 503)
        case APITimeoutError():
            return JSONResponse({"detail": "the service took too long"}, 504)
        case _:
            return JSONResponse({"detail": "the service failed"}, 502)

"""A typical mock server in FastAPI, for the benchmark of the server: it returns a deal to callers with the key."""

from __future__ import annotations

import json
from typing import Annotated, Any

import documents
from fastapi import FastAPI, Header, HTTPException

app = FastAPI()
DEALS: dict[str, dict[str, Any]] = {"d_1": json.loads(documents.deal())}


@app.get("/v1/deals/{id}")
async def retrieve(id: str, x_service_key: Annotated[str, Header()]) -> dict[str, Any]:
    if x_service_key != "sandbox-key":
        raise HTTPException(401)
    if id not in DEALS:
        raise HTTPException(404)
    return DEALS[id]

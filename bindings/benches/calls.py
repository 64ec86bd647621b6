"""Calls on loopback, one at a time and many in flight, over HTTP/1.1 and HTTP/2, beside other libraries.

CPU time is that of this process alone, all threads together: the service, bare hyper with fixed responses, is another
process. HTTP/2 goes through TLS, since dealkit and the peers negotiate it there; HTTP/1.1 does not.

Usage: python calls.py path/to/service [--rounds N] [--only NAME] [--results FILE]
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import documents
import httpx
import models
import msgspec
import niquests
import requests
import urllib3
from processes import KEY, Urls, fixed_service, memory
from pyreqwest.client import Client as PyreqwestAsync
from pyreqwest.client import ClientBuilder, SyncClient, SyncClientBuilder
from rounds import Bench, Table, Turn, parser, point

import dealkit

UNIT = "µs CPU a call"
HEADERS = {"x-service-key": KEY}
DEAL, AGENTS = "/v1/deals/d_1", "/v1/agents"
IN_FLIGHT = 64
Call = Callable[[], Any]
AsyncCall = Callable[[], Awaitable[Any]]


def msgspec_deal(status: int, body: bytes) -> None:
    """Reads the response as a careful caller does."""
    assert status == 200, f"the service responded {status}"
    assert len(models.decode_msgspec(body).contacts) == documents.TYPICAL


def pydantic_deal(status: int, body: bytes) -> None:
    assert status == 200, f"the service responded {status}"
    models.decode_pydantic(body)


def dealkit_deal(deal: dealkit.Deal) -> None:
    assert len(deal.contacts) == documents.TYPICAL


def sync_turn(call: Call, calls: int = 100) -> Turn:
    def run() -> float:
        start = time.process_time()
        for _ in range(calls):
            call()
        return (time.process_time() - start) / calls

    return run


def async_turn(loop: asyncio.AbstractEventLoop, call: AsyncCall, in_flight: int, waves: int) -> Turn:
    async def all_waves() -> None:
        for _ in range(waves):
            await asyncio.gather(*(call() for _ in range(in_flight)))

    def run() -> float:
        start = time.process_time()
        loop.run_until_complete(all_waves())
        return (time.process_time() - start) / (waves * in_flight)

    return run


def many_turn(client: dealkit.Client, count: int, concurrency: int) -> Turn:
    def run() -> float:
        start = time.process_time()
        seen = 0
        for deal in client.deals.retrieve_many((f"d_{n}" for n in range(count)), concurrency=concurrency):
            dealkit_deal(deal)
            seen += 1
        assert seen == count
        return (time.process_time() - start) / count

    return run


def pyreqwest_sync(url: str, certificate: str | None) -> SyncClient:
    builder = SyncClientBuilder().default_headers(HEADERS)
    if certificate is not None:
        builder = builder.add_root_certificate_pem(Path(certificate).read_bytes()).http2_prior_knowledge()
    return builder.base_url(url + "/").build()


def pyreqwest_async(url: str, certificate: str | None) -> PyreqwestAsync:
    builder = ClientBuilder().default_headers(HEADERS)
    if certificate is not None:
        builder = builder.add_root_certificate_pem(Path(certificate).read_bytes()).http2_prior_knowledge()
    return builder.base_url(url + "/").build()


def retrieves_http1(url: str, client: dealkit.Client) -> dict[str, Call]:
    address = urllib.parse.urlsplit(url)
    of_httpx = httpx.Client(base_url=url, headers=HEADERS)
    of_pyreqwest = pyreqwest_sync(url, None)
    of_niquests = niquests.Session(headers=HEADERS)
    session = requests.Session()
    session.headers.update(HEADERS)
    pool = urllib3.HTTPConnectionPool(address.hostname or "", address.port, headers=HEADERS)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def with_pyreqwest() -> None:
        response = of_pyreqwest.get(DEAL[1:]).build().send()
        msgspec_deal(response.status, bytes(response.bytes()))

    def with_http_client() -> None:
        connection.request("GET", DEAL, headers=HEADERS)
        response = connection.getresponse()
        msgspec_deal(response.status, response.read())

    def with_urllib3() -> None:
        response = pool.request("GET", DEAL)
        msgspec_deal(response.status, response.data)

    def with_httpx() -> None:
        response = of_httpx.get(DEAL)
        pydantic_deal(response.status_code, response.content)

    def with_requests() -> None:
        response = session.get(url + DEAL)
        pydantic_deal(response.status_code, response.content)

    def with_niquests() -> None:
        response = of_niquests.get(url + DEAL)
        msgspec_deal(response.status_code or 0, response.content or b"")

    return {
        "dealkit": lambda: dealkit_deal(client.deals.retrieve("d_1")),
        "pyreqwest + msgspec": with_pyreqwest,
        "http.client + msgspec": with_http_client,
        "urllib3 + msgspec": with_urllib3,
        "niquests + msgspec": with_niquests,
        "httpx + pydantic": with_httpx,
        "requests + pydantic": with_requests,
    }


def creates_http1(url: str, client: dealkit.Client) -> dict[str, Call]:
    from create import with_msgspec, with_pydantic

    headers = {**HEADERS, "content-type": "application/json"}
    of_httpx = httpx.Client(base_url=url, headers=headers)
    of_pyreqwest = pyreqwest_sync(url, None)

    def read(status: int, body: bytes) -> None:
        assert status == 201, f"the service responded {status}"
        assert msgspec.json.decode(body)["id"] == "a_1"

    def with_dealkit() -> None:
        assert client.agents.create(**documents.AGENT).id == "a_1"

    def over_pyreqwest() -> None:
        request = of_pyreqwest.post(AGENTS[1:]).header("content-type", "application/json").body_bytes(with_msgspec())
        response = request.build().send()
        read(response.status, bytes(response.bytes()))

    def over_httpx() -> None:
        response = of_httpx.post(AGENTS, content=with_pydantic())
        read(response.status_code, response.content)

    return {"dealkit": with_dealkit, "pyreqwest + msgspec": over_pyreqwest, "httpx + pydantic": over_httpx}


def retrieves_http2(url: str, certificate: str, client: dealkit.Client) -> dict[str, Call]:
    context = ssl.create_default_context(cafile=certificate)
    of_httpx = httpx.Client(base_url=url, headers=HEADERS, http2=True, verify=context)
    of_pyreqwest = pyreqwest_sync(url, certificate)
    of_niquests = niquests.Session(headers=HEADERS)

    def with_pyreqwest() -> None:
        response = of_pyreqwest.get(DEAL[1:]).build().send()
        msgspec_deal(response.status, bytes(response.bytes()))

    def with_httpx() -> None:
        response = of_httpx.get(DEAL)
        assert response.http_version == "HTTP/2"
        pydantic_deal(response.status_code, response.content)

    def with_niquests() -> None:
        response = of_niquests.get(url + DEAL, verify=certificate)
        assert response.http_version == 20
        msgspec_deal(response.status_code or 0, response.content or b"")

    return {
        "dealkit": lambda: dealkit_deal(client.deals.retrieve("d_1")),
        "pyreqwest + msgspec": with_pyreqwest,
        "niquests + msgspec": with_niquests,
        "httpx + pydantic": with_httpx,
    }


class Awaited:
    """The awaited calls, whose clients belong to one event loop."""

    def __init__(self, url: str, certificate: str | None) -> None:
        self._url, self._certificate = url, certificate
        self._deals = dealkit.AsyncClient(base_url=url, service_key=KEY, ca_file=certificate).deals
        self._pyreqwest = pyreqwest_async(url, certificate)
        verify = True if certificate is None else ssl.create_default_context(cafile=certificate)
        # It needs as many connections as there are calls in flight; the default is 100.
        limits = httpx.Limits(max_connections=None)
        self._httpx = httpx.AsyncClient(
            base_url=url, headers=HEADERS, http2=certificate is not None, verify=verify, limits=limits
        )
        self._niquests = niquests.AsyncSession(headers=HEADERS, pool_maxsize=1_024)

    async def __aenter__(self) -> Awaited:
        self._aiohttp = aiohttp.ClientSession(
            base_url=self._url, headers=HEADERS, connector=aiohttp.TCPConnector(limit=0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._aiohttp.close()
        await self._httpx.aclose()
        await self._niquests.close()

    async def dealkit(self) -> None:
        dealkit_deal(await self._deals.retrieve("d_1"))

    async def aiohttp(self) -> None:
        async with self._aiohttp.get(DEAL) as response:
            msgspec_deal(response.status, await response.read())

    async def pyreqwest(self) -> None:
        response = await self._pyreqwest.get(DEAL[1:]).build().send()
        msgspec_deal(response.status, bytes(await response.bytes()))

    async def httpx(self) -> None:
        response = await self._httpx.get(DEAL)
        msgspec_deal(response.status_code, response.content)

    async def niquests(self) -> None:
        response = await self._niquests.get(self._url + DEAL)
        msgspec_deal(response.status_code or 0, response.content or b"")


def measure_sync(bench: Bench, urls: Urls, over_http1: dealkit.Client, over_http2: dealkit.Client) -> None:
    tables: dict[str, Mapping[str, Call]] = {
        "retrieve HTTP/1.1": retrieves_http1(urls.http1, over_http1),
        "create HTTP/1.1": creates_http1(urls.http1, over_http1),
        "retrieve HTTP/2": retrieves_http2(urls.tls_http2, urls.certificate, over_http2),
    }
    for name, calls in tables.items():
        what, _, protocol = name.partition(" ")
        table = Table(f"python {name}", f"Python: {what} over {protocol}, one call after the other", UNIT)
        bench.compare(table, {contender: sync_turn(call) for contender, call in calls.items()})


def measure_async(bench: Bench, urls: Urls, over_http1: dealkit.Client) -> None:
    loop = asyncio.new_event_loop()
    plain = loop.run_until_complete(Awaited(urls.http1, None).__aenter__())
    secure = loop.run_until_complete(Awaited(urls.tls_http2, urls.certificate).__aenter__())
    contenders: dict[str, AsyncCall] = {
        "dealkit": plain.dealkit,
        "aiohttp + msgspec": plain.aiohttp,
        "pyreqwest + msgspec": plain.pyreqwest,
    }
    others: dict[str, AsyncCall] = {"niquests + msgspec": plain.niquests, "httpx + msgspec": plain.httpx}
    over_http2: dict[str, AsyncCall] = {
        "dealkit": secure.dealkit,
        "pyreqwest + msgspec": secure.pyreqwest,
        "httpx + msgspec": secure.httpx,
    }

    def turns(calls: Mapping[str, AsyncCall], in_flight: int, waves: int) -> dict[str, Turn]:
        return {name: async_turn(loop, call, in_flight, waves) for name, call in calls.items()}

    title = f"Python: retrieve with asyncio, {IN_FLIGHT} in flight, over"
    table = Table(f"python asyncio HTTP/1.1, {IN_FLIGHT} in flight", f"{title} HTTP/1.1", UNIT)
    bench.compare(table, turns({**contenders, **others}, IN_FLIGHT, 2))
    table = Table(f"python asyncio HTTP/2, {IN_FLIGHT} in flight", f"{title} HTTP/2", UNIT)
    bench.compare(table, turns(over_http2, IN_FLIGHT, 2))
    for concurrency in [16, IN_FLIGHT]:
        many = many_turn(over_http1, 4 * IN_FLIGHT, concurrency)
        peers = turns(
            {name: call for name, call in contenders.items() if name != "dealkit"}, concurrency, 256 // concurrency
        )
        name = f"python retrieve_many HTTP/1.1, {concurrency} in flight"
        title = f"Python: retrieve_many, and gather of the peers, {concurrency} in flight"
        bench.compare(Table(name, title, UNIT), {"dealkit": many, **peers})
    for in_flight in [1, 4, 16, 64, 256, 1_024]:
        table = point("python asyncio by calls in flight", "calls in flight", in_flight, UNIT)
        bench.compare(table, turns(contenders, in_flight, max(256 // in_flight, 1)), rounds=9)
    for waiting in (plain, secure):
        loop.run_until_complete(waiting.__aexit__())
    loop.close()


def measure_bulk(bench: Bench, client: dealkit.Client) -> None:
    """Checks that memory does not grow with the number of identifiers (on Linux)."""
    reset = Path("/proc/self/clear_refs")
    for count in [1_000, 10_000, 100_000]:
        table = point("python retrieve_many by ids", "ids", count, UNIT)
        resident = point("python retrieve_many by ids, memory", "ids", count, "MiB at most")
        if not (bench.wants(table.name) and reset.exists()):
            continue
        # 5 resets the high-water mark to what is resident now.
        reset.write_text("5")
        seconds = many_turn(client, count, IN_FLIGHT)()
        bench.add(table, {"dealkit": [seconds * 1e6]})
        bench.add(resident, {"dealkit": [memory("self", "VmHWM") / 2**20]})


def main() -> None:
    arguments = parser(__doc__, rounds=15)
    arguments.add_argument("service", type=Path, help="the program sdk/benches/service.rs")
    given = arguments.parse_args()
    bench = Bench(given)
    with fixed_service(given.service) as urls:
        over_http1 = dealkit.Client(base_url=urls.http1, service_key=KEY)
        over_http2 = dealkit.Client(base_url=urls.tls_http2, service_key=KEY, ca_file=urls.certificate)
        with over_http1, over_http2:
            measure_bulk(bench, over_http1)
            measure_sync(bench, urls, over_http1, over_http2)
            measure_async(bench, urls, over_http1)
    bench.finish()


if __name__ == "__main__":
    main()

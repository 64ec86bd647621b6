"""Connections end with the client that made them, and with a call that is interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading

import pytest
from conftest import run_async
from processes import Peer, read_next_line, resume_script, start_python, wait_for_success, wait_until

from dealkit import AsyncClient, Client
from dealkit.testing import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def established(sandbox_url: str) -> int:
    """The number of connections of this process to the server."""
    port = int(sandbox_url.rpartition(":")[2])
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    # The remote address, and state 1, ESTABLISHED.
    return sum(int(row[2].rpartition(":")[2], 16) == port and row[3] == "01" for row in rows)


def keep_connections(client: Client, count: int) -> None:
    """Has the client keep many idle connections."""
    ready = threading.Barrier(count)

    def work() -> None:
        ready.wait()
        for _ in range(3):
            client.deals.retrieve("d_1")

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("end", ["close", "with", "del", "shared"])
def test_connections_are_closed_at_once(end: str) -> None:
    with Sandbox() as sandbox:
        client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
        keep_connections(client, 16)
        assert established(sandbox.url) > 0
        if end == "with":
            with client:
                pass
        elif end == "del":
            del client
        elif end == "shared":
            other = client.with_options(timeout=5)
            client.close()
            assert established(sandbox.url) > 0, "another client uses them"
            assert other.deals.retrieve("d_1").id == "d_1"
            other.close()
        else:
            client.close()
        assert established(sandbox.url) == 0


def test_connections_of_an_async_client_are_closed_at_once() -> None:
    async def main(sandbox: Sandbox) -> None:
        async with AsyncClient(base_url=sandbox.url, service_key=sandbox.service_key) as client:
            await asyncio.gather(*(client.deals.retrieve("d_1") for _ in range(16)))
            assert established(sandbox.url) > 0
        # A background thread closes them.
        await asyncio.to_thread(wait_until, lambda: established(sandbox.url) == 0)

    with Sandbox() as sandbox:
        run_async(main(sandbox))


def test_ctrl_c_leaves_no_connection_and_no_descriptor_behind() -> None:
    code = """
import os
from dealkit import Client, Timeout
client = Client(timeout=Timeout(attempt=3600, total=3600))
def interrupted():
    try:
        client.deals.retrieve("d_1")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    input()  # Until the service has seen the end of the connection.
    return len(os.listdir("/proc/self/fd"))
counts = [interrupted() for _ in range(5)]
assert counts[-1] <= counts[1], counts
"""
    with Peer() as tarpit:
        process = start_python(code, url=tarpit.url, waits=True)
        for done in range(5):
            tarpit.wait_for_requests(done + 1)
            process.send_signal(signal.SIGINT)
            assert read_next_line(process) == "interrupted\n"
            tarpit.wait_for_ends(done + 1)
            resume_script(process)
        wait_for_success(process)

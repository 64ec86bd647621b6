"""Programs whose threads are gevent's greenlets."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import start_python, wait_for_success

from dealkit.testing import Sandbox

pytest.importorskip("gevent")

PATCHED = """
from gevent import monkey
monkey.patch_all()
import gevent, os, threading, time
from dealkit import Client
"""


def test_a_key_function_may_wait(sandbox: Sandbox) -> None:
    script = """
def key():
    time.sleep(0.01)  # Other greenlets of its thread could run.
    return "sandbox-key"
with Client(service_key=key) as client:
    print(client.deals.retrieve("d_1").id)
"""
    assert wait_for_success(start_python(PATCHED + script, url=sandbox.url, flags=())) == "d_1\n"


def test_a_resolve_function_may_wait(tmp_path: Path) -> None:
    script = f"""
from dealkit import APIConnectionError
from dealkit.testing import Sandbox
once = dict(
    idempotency_key="one", ledger={str(tmp_path / "agents.ledger")!r}, email="a@b.co", first_name="A", last_name="B", profile={{}}
)
may_return = threading.Event()
def resolve(row):
    gevent.spawn(may_return.set)
    may_return.wait()
    return "a_9"
with Sandbox() as sandbox, sandbox.client() as client:
    sandbox.fail_next(process_then_reset=True)
    try:
        client.agents.create_once(**once)
    except APIConnectionError:
        print(client.agents.create_once(resolve=resolve, **once).agent_id)
"""
    assert wait_for_success(start_python(PATCHED + script, flags=())) == "a_9\n"


@pytest.mark.parametrize("call", ["client.deals.retrieve('d_1').id", "next(client.deals.retrieve_many(['d_1'])).id"])
def test_other_greenlets_run_during_a_call(call: str) -> None:
    script = f"""
from dealkit.testing import Sandbox
with Sandbox() as sandbox, Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
    sandbox.fail_next(hold=True)
    call = gevent.spawn(lambda: {call})
    gevent.sleep(0)
    sandbox.wait_for(held=True)
    sandbox.release()
    print(call.get())
"""
    assert wait_for_success(start_python(PATCHED + script, flags=())) == "d_1\n"

"""Ctrl-C, forks, process pools, several event loops, and interpreter exit.

Each test starts processes in which warnings are errors. It fails if a process writes to standard error, exits with a code other
than 0, or hangs.
"""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from random import Random

import pytest
from conftest import http_response, time_out_when
from processes import HANG_SECONDS, Peer, read_next_line, resume_script, start_python, wait_for_success, wait_until

from dealkit import AsyncClient, Client, Timeout
from dealkit.testing import Sandbox

ROUNDS = 5

# Prints a line whenever a call that would take an hour is interrupted, several times. Then makes a call that succeeds.
INTERRUPTED = f"""
import asyncio, sys
from dealkit import AsyncClient, Client, Timeout

{{wait}}

for _ in range({ROUNDS}):
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
assert Client(base_url=sys.argv[1]).deals.retrieve("d_1").id == "d_1"
"""

WAITING_CALLS = {
    "sync": """
client = Client(timeout=Timeout(attempt=3600, total=3600))
def wait():
    client.deals.retrieve("d_1")
""",
    "sync, raw": """
client = Client(timeout=Timeout(attempt=3600, total=3600))
def wait():
    client.with_raw_response.deals.retrieve("d_1")
""",
    "many": """
client = Client(timeout=Timeout(attempt=3600, total=3600))
def wait():
    for deal in client.deals.retrieve_many(["d_1"]):
        pass
""",
    "asyncio": """
client = AsyncClient(timeout=Timeout(attempt=3600, total=3600))
def wait():
    async def main():
        await client.deals.retrieve("d_1")
    asyncio.run(main())
""",
    "asyncio, many": """
client = AsyncClient(timeout=Timeout(attempt=3600, total=3600))
def wait():
    async def main():
        async for deal in client.deals.retrieve_many(["d_1"]):
            pass
    asyncio.run(main())
""",
}


@pytest.mark.parametrize("wait", WAITING_CALLS.values(), ids=WAITING_CALLS.keys())
def test_ctrl_c_interrupts_a_waiting_call(wait: str, dealkit_sandbox: Sandbox, seeded_random: Random) -> None:
    with Peer() as tarpit:
        process = start_python(INTERRUPTED.format(wait=wait), dealkit_sandbox.url, url=tarpit.url)
        for done in range(ROUNDS):
            tarpit.wait_for_requests(done + 1)
            time.sleep(seeded_random.uniform(0, 0.06))  # anywhere between two checks for signals
            process.send_signal(signal.SIGINT)
            assert read_next_line(process) == "interrupted\n"
            tarpit.wait_for_ends(done + 1)  # The request has been aborted.
        wait_for_success(process)


# Uses the parent's client in four children at the same time and in the parent, like gunicorn --preload.
FORK_SCRIPT = """
import os, warnings
from dealkit import AsyncClient, Client, Timeout
import asyncio

# Python 3.12 and newer warn of every fork of a process with threads, such as dealkit's for awaited calls.
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)

client = Client(timeout=120)
async_client = AsyncClient(timeout=120)

def use_async():
    async def main():
        deals = await asyncio.gather(*(async_client.deals.retrieve(f"d_{n % 3 + 1}") for n in range(20)))
        assert [deal.id for deal in deals] == [f"d_{n % 3 + 1}" for n in range(20)]
    asyncio.run(main())

def use_many():
    ids = [f"d_{n % 3 + 1}" for n in range(50)]
    assert [deal.id for deal in client.deals.retrieve_many(ids)] == ids

def use_sync():
    for n in range(20):
        assert client.deals.retrieve(f"d_{n % 3 + 1}").id == f"d_{n % 3 + 1}"

def use():
    use_sync()
    use_many()
    use_async()

def fork(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child

def end(*children):
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
"""

FORK_PROGRAMS = {
    "before first use": "end(*[fork(use) for _ in range(4)]); use()",
    "after first use": "use(); c = [fork(use) for _ in range(4)]; use(); end(*c); use()",
    "after sync use alone": "use_sync(); c = [fork(use) for _ in range(4)]; use_sync(); end(*c); use()",
    "children of children": "use(); end(fork(lambda: (use(), end(fork(use)), use()))); use()",
    "again and again": "use()\nfor _ in range(5): end(fork(use_sync), fork(use_many), fork(use_async))\nuse()",
}


@pytest.mark.parametrize("program", FORK_PROGRAMS.values(), ids=FORK_PROGRAMS.keys())
def test_fork(program: str, dealkit_sandbox: Sandbox) -> None:
    wait_for_success(start_python(FORK_SCRIPT + program, url=dealkit_sandbox.url))


def test_fork_with_calls_in_flight(dealkit_sandbox: Sandbox) -> None:
    code = """
import sys, threading
slow = Client(base_url=sys.argv[1], timeout=Timeout(attempt=3600, total=3600))
def wait(call):
    try:
        call()
    except Exception:
        pass
waiting = [
    lambda: slow.deals.retrieve("d_1"),
    lambda: next(slow.deals.retrieve_many(["d_1"])),
    lambda: asyncio.run(AsyncClient(base_url=sys.argv[1], timeout=Timeout(attempt=3600, total=3600)).deals.retrieve("d_1")),
]
for call in waiting:
    threading.Thread(target=wait, args=(call,), daemon=True).start()
input()  # Until the calls are in flight.
end(*[fork(use) for _ in range(4)])
use()
"""
    with Peer() as tarpit:
        process = start_python(FORK_SCRIPT + code, tarpit.url, url=dealkit_sandbox.url, waits=True)
        tarpit.wait_for_requests(3)
        resume_script(process)
        wait_for_success(process)


def test_a_child_that_exits_without_os_exit(dealkit_sandbox: Sandbox) -> None:
    """Destructors and atexit handlers run, including the destructors of inherited objects."""
    code = """
import sys
use()
sandbox = __import__("dealkit.testing").testing.Sandbox()
deals = client.deals.retrieve_many(f"d_{n % 3 + 1}" for n in range(10**9))
next(deals)
child = os.fork()
if child == 0:
    use()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
next(deals)
assert Client(base_url=sandbox.url).deals.retrieve("d_1").id == "d_1"
sandbox.close()
"""
    wait_for_success(start_python(FORK_SCRIPT + code, url=dealkit_sandbox.url))


POOL_SCRIPT = """
import asyncio, multiprocessing, pickle, sys, warnings
from concurrent.futures import ProcessPoolExecutor
from dealkit import *

def read(client, id):
    return client.deals.retrieve(id)

def read_async(client, id):
    return asyncio.run(client.deals.retrieve(id))

def create(client, email):
    return client.agents.create(email=email, first_name="Ada", last_name="Lovelace", profile={})

def same(model):
    return model

def decode(text):
    return Deal.from_json(text)

def configure(url):
    return Client(base_url=url)

def check(run):
    client, async_client = Client(), AsyncClient()
    client.deals.retrieve("d_1")
    for result in [run(read, client, "d_1"), run(read_async, async_client, "d_1")]:
        assert result == client.deals.retrieve("d_1")
    agent = run(create, client, "ada@example.com")
    assert run(same, agent) == agent and type(agent) is Agent

    def failed(work, *arguments):
        try:
            run(work, *arguments)
        except DealkitError as error:
            assert str(error), repr(error)
            return error
        raise AssertionError("it should have failed")

    for error in [failed(read, client, "nothing"), failed(read_async, async_client, "nothing")]:
        assert type(error) is NotFoundError and error.status_code == 404
        assert error.request_id and error.attempts == 1 and error.outcome == "rejected"
        assert error.problem.status == 404 and error.headers["X-Request-Id"] == error.request_id
    error = failed(create, client, "ada")
    assert type(error) is ValidationError and error.outcome == "not_sent"
    assert [(e.pointer, e.code) for e in error.errors] == [("/email", "invalid_email")]
    error = failed(decode, '{"id": "d", "application": {"offers": [{"expiry_date_time": "soon"}]}}')
    assert type(error) is DecodeError and error.body.startswith(b'{"id"')
    assert error.path == "application.offers[0].expiry_date_time", error.path
    error = failed(configure, "ftp://example.com")
    assert type(error) is ConfigError
    error = failed(read, Client(base_url="http://" + sys.argv[3], max_retries=1), "d_1")
    assert type(error) is APIConnectionError and error.attempts == 2 and error.outcome == "not_sent"
    print("done")

def main():
    how = multiprocessing.get_context(sys.argv[1])
    if sys.argv[2] == "Pool":
        with how.Pool(4) as pool:
            check(lambda work, *given: pool.apply_async(work, given).get(120))
            pool.close()
            pool.join()
    else:
        with ProcessPoolExecutor(4, mp_context=how) as pool:
            check(lambda work, *given: pool.submit(work, *given).result(120))

if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    main()
"""


@pytest.mark.parametrize(
    ("how", "pool"), [("fork", "Pool"), ("spawn", "ProcessPoolExecutor"), ("forkserver", "ProcessPoolExecutor")]
)
def test_process_pools(how: str, pool: str, tmp_path: Path, dealkit_sandbox: Sandbox, refusing_address: str) -> None:
    script = tmp_path / "pools.py"
    script.write_text(POOL_SCRIPT)
    assert wait_for_success(start_python(script, how, pool, refusing_address, url=dealkit_sandbox.url)) == "done\n"


def test_one_async_client_in_three_event_loops_in_a_row(dealkit_sandbox: Sandbox) -> None:
    code = """
import asyncio
from dealkit import AsyncClient
client = AsyncClient()
async def main():
    deals = await asyncio.gather(*(client.deals.retrieve(f"d_{n % 3 + 1}") for n in range(30)))
    many = [deal async for deal in client.deals.retrieve_many(["d_1", "d_2"])]
    return [deal.id for deal in deals], [deal.id for deal in many]
first = asyncio.run(main())
assert first == ([f"d_{n % 3 + 1}" for n in range(30)], ["d_1", "d_2"])
assert asyncio.run(main()) == first
assert asyncio.run(main()) == first
asyncio.run(client.aclose())
"""
    wait_for_success(start_python(code, url=dealkit_sandbox.url))


def test_asyncio_wait_for_cancels_the_request() -> None:
    async def main(url: str) -> None:
        async with AsyncClient(base_url=url, service_key="k", timeout=Timeout(attempt=3600, total=3600)) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.deals.retrieve("d_1"), 0.01)
            await time_out_when(client.deals.retrieve("d_1"), lambda: tarpit.wait_for_requests(1))
            await asyncio.to_thread(tarpit.wait_for_ends, 1)
            before = len(tarpit.requests)
            many = client.deals.retrieve_many(["d_1", "d_2"])
            await time_out_when(anext(many), lambda: tarpit.wait_for_requests(before + 2))
            await asyncio.to_thread(lambda: wait_until(lambda: tarpit.ended == len(tarpit.connections)))

    with Peer() as tarpit:
        asyncio.run(main(tarpit.url))


def test_leaving_the_loop_aborts_the_requests() -> None:
    ids = ["d_1", "d_2", "d_3"]

    async def leave(client: AsyncClient) -> None:
        async for deal in client.deals.retrieve_many(ids):
            assert deal.id == "d_1"
            tarpit.wait_for_requests(9)
            break

    found = http_response(200, '{"id": "d_1"}')
    with Peer(lambda request: found if b" /v1/deals/d_1 " in request else b"") as tarpit:
        with Client(base_url=tarpit.url, service_key="k") as client:
            for deal in client.deals.retrieve_many(ids):
                assert deal.id == "d_1"
                tarpit.wait_for_requests(3)  # Until the other requests are in flight.
                break
            tarpit.wait_for_ends(2)
            with client.deals.retrieve_many(ids) as deals:
                next(deals)
                tarpit.wait_for_requests(6)
            tarpit.wait_for_ends(4)
        asyncio.run(leave(AsyncClient(base_url=tarpit.url, service_key="k")))
        tarpit.wait_for_ends(6)


def test_an_event_loop_closed_with_calls_in_flight(dealkit_sandbox: Sandbox) -> None:
    code = """
import asyncio, gc, logging, sys
from dealkit import AsyncClient, Timeout
logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # "Task was destroyed but it is pending!"
slow = AsyncClient(base_url=sys.argv[1], timeout=Timeout(attempt=3600, total=3600))
client = AsyncClient()

async def stay(call):
    await call
async def watch(deals):
    async for _ in deals:
        pass

loop = asyncio.new_event_loop()
tasks = [loop.create_task(stay(slow.deals.retrieve("d_1"))) for _ in range(3)]
tasks += [loop.create_task(stay(client.deals.retrieve("d_1"))) for _ in range(3)]
tasks.append(loop.create_task(watch(slow.deals.retrieve_many(["d_1", "d_2"]))))
loop.run_until_complete(asyncio.sleep(0))
input()  # Until the services have received the requests. The responses arrive now, but no code takes them.
loop.close()
assert asyncio.run(client.deals.retrieve("d_1")).id == "d_1"
del tasks, loop
gc.collect()
assert asyncio.run(client.deals.retrieve("d_1")).id == "d_1"
"""
    with Peer() as tarpit:
        process = start_python(code, tarpit.url, url=dealkit_sandbox.url, waits=True)
        tarpit.wait_for_requests(5)
        dealkit_sandbox.wait_for(count=3, timeout=HANG_SECONDS)
        resume_script(process)
        wait_for_success(process)
        tarpit.wait_for_ends(5)


# Programs that start calls which would take an hour, wait until the service has received one, and end.
ENDS = {
    "sync, in a daemon thread": """
threading.Thread(target=lambda: Client(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve("d_1"), daemon=True).start()
""",
    "many, in a daemon thread": """
threading.Thread(target=lambda: list(Client(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve_many(["d_1"])), daemon=True).start()
""",
    "many, started": """
deals = Client(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve_many(["d_1", "d_2"])
deals._advance()
""",
    "many creates, started": """
creations = Client(timeout=Timeout(attempt=3600, total=3600)).agents.create_many([dict(email="a@b.co", first_name="A", last_name="L", profile={})] * 9)
creations._advance()
""",
    "asyncio, in a daemon thread": """
async def main():
    await AsyncClient(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve("d_1")
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
""",
    "asyncio, pending tasks": """
async def main():
    client = AsyncClient(timeout=Timeout(attempt=3600, total=3600))
    tasks = [asyncio.create_task(client.deals.retrieve("d_1")) for _ in range(8)]
    await asyncio.sleep(0)
    input()
asyncio.run(main())
""",
    "asyncio, main left by an exit": """
async def main():
    task = asyncio.create_task(AsyncClient(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve("d_1"))
    await asyncio.sleep(0)
    input()
    sys.exit(0)
asyncio.run(main())
""",
    "a sandbox that runs": """
from dealkit.testing import Sandbox
sandbox = Sandbox()
deals = Client(base_url=sandbox.url).deals.retrieve_many(f"d_{n % 3 + 1}" for n in range(10**9))
next(deals)
threading.Thread(target=lambda: Client(timeout=Timeout(attempt=3600, total=3600)).deals.retrieve("d_1"), daemon=True).start()
""",
}


@pytest.mark.parametrize("begin", ENDS.values(), ids=ENDS.keys())
def test_the_interpreter_exits_with_calls_in_flight(begin: str) -> None:
    code = f"""
import asyncio, sys, threading
from dealkit import AsyncClient, Client, Timeout
{begin}
input()
"""
    with Peer() as tarpit:
        process = start_python(code, url=tarpit.url, waits=True)
        tarpit.wait_for_requests(1)
        # Two lines, because some of the programs wait twice.
        resume_script(process)
        resume_script(process)
        wait_for_success(process)


SUBINTERPRETER_SCRIPT = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run = getattr(interpreters, "exec", None) or interpreters.run_string
first, is_destroyed = FIRST, DESTROYED
if first:
    from dealkit import Client
interpreter = interpreters.create()
code = '''
try:
    from dealkit import Client
    from dealkit.testing import Sandbox
except ImportError:
    works = False
else:
    with Sandbox() as sandbox:
        client = Client(base_url=sandbox.url, service_key=sandbox.service_key)
        assert [deal.id for deal in client.deals.retrieve_many(["d_1"])] == ["d_1"]
    works = True
'''
failed = run(interpreter, code + f"assert not works or not {first}")
assert failed is None, failed
if is_destroyed:
    interpreters.destroy(interpreter)
"""


@pytest.mark.parametrize("destroyed", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_second_interpreter_gets_an_import_error(first: bool, destroyed: bool) -> None:
    """dealkit works in one interpreter of a process. Importing it in a second one neither crashes nor hangs at exit."""
    wait_for_success(
        start_python(
            SUBINTERPRETER_SCRIPT.replace("FIRST", str(first)).replace("DESTROYED", str(destroyed)), flags=("-X", "dev")
        )
    )

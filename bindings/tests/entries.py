"""Calls of every entry point of the native module: one that succeeds and, if there is one, a call that fails.

`test_entries.py` makes sure that none is missing here. Arguments are positional: `functools.partial` makes a dict of keyword
arguments, which would make the garbage collector run.
"""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from operator import attrgetter
from queue import Queue
from tempfile import TemporaryDirectory
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any
from weakref import ref

import dealkit
from dealkit import Client, Role, _native
from dealkit._calls import event_loop
from dealkit.testing import Sandbox

native: Any = _native

DEAL = """{"id": "d", "status": "CLOSED", "expiry_date": "2024-02-29", "created_at": "2024-01-31T09:30:00.123456789Z",
    "listing_contract": {"sale_price": 450000.0, "address": {"line1": "x"}, "agent": {"email": "y"}},
    "application": {"requested_amount": 12500.50, "offers": [{"percent_of_commission": 10.10}]},
    "quotes": [{"estimated_amount_min": 5}], "contacts": [{"type": "BUYER", "fields": [{"label": "Name"}]}],
    "sides": [{"side_percentage": 1.50e1}], "metadata": {"a": "1"}, "new": {"rate": 1.10, "list": [null, true]}}"""
AGENT = """{"id": "a", "email": "e", "first_name": "f", "last_name": "l", "date_of_birth": "1990-02-28",
    "profile": {"client_metadata": {"a": [1, {"b": "\\ud800"}, %s]}}, "role_assignments": [{"role": "AGENT"}]}""" % (
    "[" * 500 + "]" * 500
)
FIELDS: dict[str, Any] = {"email": "ada@example.com", "first_name": "A", "last_name": "L", "profile": {"tier": "A"}}


def examples() -> dict[str, Any]:
    """Returns a model of each class, by the name of the class."""
    deal, agent = dealkit.Deal.from_json(DEAL), dealkit.Agent.from_json(AGENT)
    contract, application, contact = deal.listing_contract, deal.application, deal.contacts[0]
    assert contract is not None and application is not None
    parts = [contract, contract.address, contract.agent, application, application.offers[0], deal.quotes[0]]
    people = [contact, contact.fields[0], deal.sides[0], agent, agent.profile, agent.role_assignments[0]]
    return {type(model).__name__: model for model in [deal, *parts, *people]}


def plain(*objects: object) -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points without arguments: attributes, and special methods such as ``__repr__``."""
    return {
        f"{type(item).__name__}.{name}": [partial(getattr, item, name) if _is_attribute(entry) else getattr(item, name)]
        for item in objects
        for name, entry in vars(type(item)).items()
        if _is_attribute(entry) or (name in ("__hash__", "__len__", "__repr__") and _is_entry(name, entry))
    }


def model_entries() -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points of all models."""
    cases: dict[str, list[Callable[[], object]]] = defaultdict(list)
    for name, model in examples().items():
        of_class: Any = type(model)
        for field, _, kind, *_ in of_class.__dealkit_fields__:
            if kind != "object":  # Attributes for JSON objects are Python code, which calls _get.
                cases[f"{name}.{field}"] = [partial(attrgetter(field), model)]
        json = model.to_json()
        calls_by_entry = {
            "_unreadable": [model._unreadable],
            "_read": [
                partial(of_class._read, json, "raise"),
                partial(of_class._read, '{"id": 5}', "raise"),
                partial(of_class._read, 5, "raise"),
                partial(of_class._read, json, 5),
                partial(of_class._read, f'{json[:-1]}, "status": 5, "date_of_birth": 5}}', "skip"),
            ],
            "_core_json": [partial(of_class._core_json, json), partial(of_class._core_json, "[]")],
            "_to_json": [model._to_json],
            "_get": [
                partial(model._get, name, raw)
                for name in (*(wire for _, wire, *_ in of_class.__dealkit_fields__), "x")
                for raw in (False, True)
            ],
            "extra": [partial(attrgetter("extra"), model)],
        }
        for entry, calls in calls_by_entry.items():
            cases[f"_Model.{entry}"] += calls
    return cases


def value_entries() -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points that need no server."""
    raw, other = native.raw_json("[1, 2]"), native.raw_json("[1, 3]")
    failure: Any = dealkit.Deal._read('{"id": 5}', "raise")
    invalid = _create({**FIELDS, "email": "no"}, is_converted=True)
    settings = {"base_url": "http://127.0.0.1:9", "service_key": "k"}
    comparisons = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    return {
        **plain(raw),
        **{f"RawJson.{name}": [partial(getattr(raw, name), other)] for name in comparisons},
        "raw_json": [partial(native.raw_json, '{"a": 1}'), partial(native.raw_json, "{")],
        "Failure.parts": [failure.parts, invalid.parts],
        "create_agent": [
            partial(native.create_agent, FIELDS, None, True, False),
            partial(native.create_agent, {**FIELDS, "email": "no", "phone": {1}}, None, True, True),
            partial(native.create_agent, {**FIELDS, "phone": {1}}, None, True, False),
            partial(native.create_agent, {**FIELDS, "profile": {"user_id": "a", "userId": "b"}}, None, True, False),
        ],
        "create_once": [
            partial(native.create_once, _create(FIELDS), key, _ledger_options("l"), "label")
            for key in ("key", "\ud800")
        ],
        "create_row": [
            partial(native.create_row, _create(FIELDS), "key", "label"),
            partial(native.create_row, None, None, None),
        ],
        "ledger_options": [
            partial(native.ledger_options, ledger, "email", False, False, True, True)
            for ledger in ("l", "postgresql://[")
        ],
        "retrieve_deal": [
            partial(native.retrieve_deal, "d"),
            partial(native.retrieve_deal, 5),
        ],
        "raw_request": [
            partial(
                native.raw_request,
                "PATCH",
                ("agents", "a"),
                ({"a": Decimal("1.10")},),
                [("q", "1")],
                [("h", "2")],
            ),
            partial(native.raw_request, "G T", (), None, [], []),
            partial(native.raw_request, "GET", (), ([{1}] * 9,), [], []),
        ],
        "json_text": [partial(native.json_text, "deal", {"id": "d"}), partial(native.json_text, "deal", {"id": {1}})],
        "violation_texts": [partial(native.violation_texts, "/profile/x", "required", "must be there")],
        "key_source": [partial(native.key_source, print)],
        "call_options": [
            partial(native.call_options, {"timeout": 5, "max_retries": 2, "extra_headers": [("a", "b")]}),
            partial(native.call_options, {"initial_backoff": 0.0, "max_backoff": 5.0, "retry_non_idempotent": True}),
            partial(native.call_options, {"timeout": "5"}),
            partial(native.call_options, {"max_retries": -1}),
        ],
        "open_client": [
            partial(native.open_client, settings, None),
            partial(native.open_client, {**settings, "rate_limit": 5.0}, None),
            partial(native.open_client, {**settings, "service_key": native.key_source(print)}, None),
            partial(native.open_client, {**settings, "service_key_file": "/none"}, None),
            partial(native.open_client, {**settings, "service_key": "a b"}, None),
            partial(native.open_client, {**settings, "headers": [("a", 1)]}, None),
        ],
        **table_entries(),
        "resolve_ledger": [
            partial(native.resolve_ledger, "/none/agents.ledger", [("a", "a_1"), ("b", None)], False),
            partial(native.resolve_ledger, "/none/agents.ledger", [], True),
        ],
        "mark_unknown_in_ledger": [
            partial(native.mark_unknown_in_ledger, "/none/agents.ledger", ["a", "b"], "email"),
        ],
        "init_ledger": [partial(native.init_ledger, "postgresql://127.0.0.1:1/none")],
        "look_up_in_ledger": [
            partial(
                native.look_up_in_ledger,
                "/none/agents.ledger",
                ["a", "b"],
                "email",
                "https://deals.example.com",
                None,
                True,
            ),
            partial(native.look_up_in_ledger, "/none/agents.ledger", [], None, None, [], False),
        ],
        "look_up_emails_in_ledger": [partial(native.look_up_emails_in_ledger, "/none/agents.ledger", ["a@b.c"], True)],
        "normalize_key": [
            partial(native.normalize_key, "A\u0301", "email"),
            partial(native.normalize_key, "a", None),
        ],
        "back_up_ledger": [partial(native.back_up_ledger, "/none/agents.ledger", "/none/copy")],
        "summarize_ledger": [partial(native.summarize_ledger, "/none/agents.ledger")],
        "ledger_display_name": [partial(native.ledger_display_name, "postgresql://u:p@localhost/x")],
        "ledger_path": [partial(native.ledger_path, "agents.ledger")],
        "ledgers_in_folder": [partial(native.ledgers_in_folder, "/none")],
        "set_ledger_base_url": [
            partial(native.set_ledger_base_url, "/none/agents.ledger", "https://deals.example.com")
        ],
        "start_trace": [
            partial(native.start_trace, [("a", "b"), ("a b", "c")]),
            partial(native.start_trace, [("a", 1)]),
        ],
        "prepare": [partial(native.prepare, Decimal, Context(), {role.value: role for role in Role}, gc)],
    }


def table_entries() -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points of tables in memory."""
    builder = _table_builder()
    builder.push([DEAL, "{"], "raise")
    schema, table = native.deal_schema(10), builder.finish()
    return {
        **plain(schema, table),
        "deal_schema": [partial(native.deal_schema, None), partial(native.deal_schema, 39)],
        "Schema.__arrow_c_schema__": [schema.__arrow_c_schema__],
        "open_table_builder": [
            partial(native.open_table_builder, None, False, 5),
            partial(native.open_table_builder, 39, False, 5),
        ],
        "TableBuilder.push": [
            partial(builder.push, [DEAL, DEAL.encode(), bytearray(b"{")], "skip"),
            partial(builder.push, [5], "raise"),
            partial(_table_builder(0).push, [DEAL], False),
        ],
        "TableBuilder.batch": [builder.batch, builder.batch],
        "TableBuilder.finish": [builder.finish],
        "Table.__arrow_c_schema__": [table.__arrow_c_schema__],
        "Table.__arrow_c_stream__": [table.__arrow_c_stream__, partial(table.__arrow_c_stream__, None)],
    }


def call_entries(sandbox: Sandbox, loop: asyncio.AbstractEventLoop) -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points that send requests to the sandbox. The event loop does not run."""
    client: Any = Client(base_url=sandbox.url, service_key=sandbox.service_key)
    native_client, server = client._session.client, sandbox._server
    send = partial(native_client.send, options=None, raw=False, trace=None)
    start = partial(native_client.start, options=None, raw=False, trace=None)
    call, missing = native.retrieve_deal("d_1"), native.retrieve_deal("nothing")
    response = client.with_raw_response.deals.retrieve("d_1")
    box, future = event_loop.mailbox(loop), loop.create_future()
    trace = native.start_trace([])
    retrieves = _retrieve_many(native_client)
    # Jobs without inputs.
    creates, cancelled = _create_many(native_client), _create_many(native_client)
    create = _create(FIELDS)
    once = native.create_once(create, idempotency_key="key", ledger=_ledger_options("/none/agents.ledger"), label=None)
    rows = [
        native.create_row(call=create, idempotency_key="key", label=None),
        native.create_row(call=None, idempotency_key=None, label=None),
    ]
    full, first = _mailbox(client)
    request, result = _resolve_request(sandbox, native_client, create)
    builder = _table_builder()

    return {
        **plain(native_client, retrieves, response, server, request, result, result.ledger_record, _trace_event(send)),
        "KeyRequest.provide": [partial(_key_request(sandbox.url, call).provide, "k", t) for t in (None, 5.0, -1.0)],
        "KeyRequest.fail": [partial(_key_request(sandbox.url, call).fail, "OSError")],
        "NativeClient.send": [
            partial(native_client.send, call, None, False, trace),
            partial(native_client.send, call, None, True, None),
            partial(native_client.send, missing, native.call_options({"timeout": 50, "max_retries": 0}), False, None),
            partial(native_client.send, once, None, False, None),
        ],
        "NativeClient.start": [partial(native_client.start, call, None, False, trace)],
        "NativeClient.retrieve_many": [
            partial(native_client.retrieve_many, True, 8, None),
            partial(native_client.retrieve_many, False, 8, native.call_options({"timeout": 5})),
        ],
        "NativeClient.create_many": [
            partial(native_client.create_many, True, 8, native.call_options({"timeout": 5}), None),
            partial(native_client.create_many, True, 8, None, _ledger_options("/none/agents.ledger")),
        ],
        "NativeClient.describe": [partial(native_client.describe, call), partial(native_client.describe, once)],
        "CallTrace.take": [trace.take],
        "BulkCalls.push": [
            partial(retrieves.push, ["d_1", "d_1"], [trace, None], 0),
            partial(_retrieve_many(native_client).push, [5], None, 0),
            partial(creates.push, [*rows, create], [trace, None, None], 0),
            partial(creates.push, ["d_1"], None, 0),
            partial(retrieves.push, [], None, 999),
        ],
        "BulkCalls.cancel": [
            partial(_create_many(native_client).cancel, rows, 0),
            partial(cancelled.cancel, [], 0),
        ],
        "BulkCalls.take": [
            partial(retrieves.take, [], False),
            partial(retrieves.take, [], True),
            partial(creates.take, [5], False),
        ],
        "BulkCalls.wait": [retrieves.wait],
        "BulkCalls.wait_for_end": [retrieves.wait_for_end, cancelled.wait_for_end],
        "BulkCalls.notify": [partial(retrieves.notify, box, future)],
        "BulkCalls.finish": [_retrieve_many(native_client).finish],
        "BulkCalls.notify_end": [partial(retrieves.notify_end, box, future)],
        "BulkCalls.has_ended": [
            partial(attrgetter("has_ended"), retrieves),
            partial(attrgetter("has_ended"), cancelled),
        ],
        "BulkCalls.close": [_retrieve_many(native_client).close],
        "ResolveRequest.answer_agent": [partial(request.answer_agent, "a_1")],
        "ResolveRequest.answer_no_agent": [request.answer_no_agent],
        "ResolveRequest.answer_unknown": [request.answer_unknown],
        "ResolveRequest.fail": [request.fail],
        "TableBuilder.add": [
            partial(builder.add, 0, "d_1", response),
            partial(builder.add, 1, "x", _failure(native_client)),
        ],
        "Mailbox.first": [box.first, full.first],
        "Mailbox.next": [partial(full.next, future), partial(full.next, first)],
        "open_mailbox": [partial(native.open_mailbox, ref(loop), print)],
        "BackgroundCall.notify": [partial(start(call).notify, box, future)],
        "BackgroundCall.take": [_take_ended(client), start(call).take],
        "BackgroundCall.take_request": [start(call).take_request],
        "BackgroundCall.fail_requests": [start(call).fail_requests],
        "BackgroundCall.abort": [start(call).abort],
        "RawResponse._headers": [response._headers],
        "RawResponse._parse": [response._parse],
        "RawResponse._json": [response._json],
        "NativeSandbox.call": [
            partial(server.call, "GET", "requests?wait=0.01&count=999", ""),
            partial(server.call, "POST", "faults", '{"status": 1}'),
            partial(server.call, "GET ", "nothing", ""),
            partial(native.start_sandbox([], {}).call, "PUT", "keys", '["k"]'),
        ],
        "NativeSandbox.close": [native.start_sandbox([], {}).close],
        "start_sandbox": [
            partial(native.start_sandbox, ['{"id": "x"}'], {}),
            partial(native.start_sandbox, ["{}"], {}),
            partial(native.start_sandbox, [], {"variant": "sparse", "admin": False, "max_agents": 5}),
            partial(native.start_sandbox, [], {"variant": "none"}),
        ],
    }


def slow_call_entries(url: str) -> dict[str, list[Callable[[], object]]]:
    """Returns the entry points of a call in flight, to a server that does not respond."""
    client: Any = Client(base_url=url, service_key="k")
    send = partial(client._session.client.send, native.retrieve_deal("d_1"), options=None, raw=False, trace=None)
    waiting, other = send(), send()
    return {
        "BlockingCall.wait": [waiting.wait],
        "BlockingCall.take_request": [waiting.take_request],
        "BlockingCall.abort": [other.abort],
    }


def _create(fields: dict[str, Any], *, is_converted: bool = False) -> Any:
    return native.create_agent(fields, omitted=None, validate=True, is_converted=is_converted)


def _ledger_options(ledger: str) -> Any:
    return native.ledger_options(
        ledger=ledger,
        key_name="email",
        resend_unknown=False,
        resend_corrected=False,
        resolve=True,
        wait_in_flight=True,
    )


def _table_builder(scale: int | None = 10) -> Any:
    return native.open_table_builder(scale=scale, returns_errors=scale == 10, batch_size=1)


def _retrieve_many(native_client: Any) -> Any:
    return native_client.retrieve_many(ordered=True, concurrency=8, options=None)


def _create_many(native_client: Any, ledger: Any = None) -> Any:
    return native_client.create_many(ordered=True, concurrency=8, options=None, ledger=ledger)


def _take_one(calls: Any) -> Any:
    """Waits for an object to take from a job."""
    taken: list[Any] = []
    while not taken:
        calls.wait()
        calls.take(taken, raw=True)
    return taken[0]


def _trace_event(send: Callable[..., object]) -> Any:
    """Makes a trace event."""
    trace = native.start_trace([])
    send(native.retrieve_deal("d_1"), trace=trace)
    while not (events := trace.take()):
        pass
    return events[0]


def _failure(native_client: Any) -> Any:
    """Makes the failure of a call."""
    calls = _retrieve_many(native_client)
    calls.push(["nothing"], traces=None, first_index=0)
    return _take_one(calls).value


def _key_request(url: str, call: Any) -> Any:
    """Makes a request for a key, on which a call waits."""
    requests: Queue[Any] = Queue()
    settings = {"base_url": url, "service_key": native.key_source(requests.put)}
    native_client = native.open_client(settings, None)
    background = native_client.start(call, options=None, raw=False, trace=None)
    try:
        return requests.get(timeout=240)
    finally:
        background.abort()


def _resolve_request(sandbox: Sandbox, native_client: Any, create: Any) -> tuple[Any, Any]:
    """Makes a request to resolve a row, and a result with a ledger record."""
    # Only a create: retrievals of other entries are still in flight.
    sandbox.fail_next(status=503, method="POST")
    with TemporaryDirectory() as folder:

        def run(*, resolve: bool) -> Any:
            ledger = native.ledger_options(
                ledger=f"{folder}/agents.ledger",
                key_name=None,
                resend_unknown=False,
                resend_corrected=False,
                resolve=resolve,
                wait_in_flight=False,
            )
            calls = _create_many(native_client, ledger)
            row = native.create_row(call=create, idempotency_key="key", label=None)
            calls.push([row], traces=None, first_index=0)
            taken = _take_one(calls)
            # After `close`, the ledger could still write a file into the folder while that is deleted.
            calls.finish()
            while calls.wait_for_end() is False:
                pass
            return taken

        run(resolve=False)  # The response leaves the outcome unknown.
        return run(resolve=True), run(resolve=False)


def _mailbox(client: Any) -> tuple[Any, Any]:
    """Makes a mailbox with two futures. Returns it and the first future."""

    async def fetch() -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        box: Any = native.open_mailbox(ref(loop), lambda box: None)
        for _ in range(2):
            call = native.retrieve_deal("d_1")
            background = client._session.client.start(call, options=None, raw=False, trace=None)
            background.notify(box, loop.create_future())
        while (first := box.first()) is None:
            await asyncio.sleep(0.001)
        return box, first

    return asyncio.run(fetch())


def _take_ended(client: Any) -> Callable[[], object]:
    """Returns a function that takes the result of a call that has ended."""

    async def fetch() -> Callable[[], object]:
        call = native.retrieve_deal("d_1")
        background: Any = client._session.client.start(call, options=None, raw=False, trace=None)
        await event_loop.wait_for(background.notify, None)
        return partial(background.take)

    return asyncio.run(fetch())


# Entry points that other tests call in a separate process, because they end the interpreter or run once.
SEPARATE = {"shut_down", "run_server"}


def names() -> set[str]:
    """Returns the names of all entry points: functions, methods, attributes and operators that are not Python code."""
    found = set()
    for name, value in vars(_native).items():
        if isinstance(value, type):
            found |= {f"{name}.{attribute}" for attribute, of in vars(value).items() if _is_entry(attribute, of)}
        elif callable(value):
            found.add(name)
    return found


def _is_attribute(entry: object) -> bool:
    return isinstance(entry, GetSetDescriptorType | MemberDescriptorType)


def _is_entry(name: str, value: object) -> bool:
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    # `__new__` of these classes either raises, because there is no constructor, or is Python code.
    return isinstance(value, _NATIVE) and name not in ("__doc__", "__new__")


# Types of functions, methods, operators and attributes that are written in C or Rust.
_NATIVE = (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)

"""Every entry point of the native module, with a call that works and, where there is one, a call that fails.

`test_entries.py` makes sure that none is missing here.
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
    """One model of each class."""
    deal, agent = dealkit.Deal.from_json(DEAL), dealkit.Agent.from_json(AGENT)
    contract, application, contact = deal.listing_contract, deal.application, deal.contacts[0]
    assert contract is not None and application is not None
    parts = [contract, contract.address, contract.agent, application, application.offers[0], deal.quotes[0]]
    people = [contact, contact.fields[0], deal.sides[0], agent, agent.profile, agent.role_assignments[0]]
    return {type(model).__name__: model for model in [deal, *parts, *people]}


def plain(*objects: object) -> dict[str, list[Callable[[], object]]]:
    """The entry points that take nothing: attributes, and what Python calls by itself."""
    return {
        f"{type(one).__name__}.{name}": [partial(getattr, one, name) if _is_attribute(entry) else getattr(one, name)]
        for one in objects
        for name, entry in vars(type(one)).items()
        if _is_attribute(entry) or (name in ("__hash__", "__len__", "__repr__") and _is_entry(name, entry))
    }


def of_models() -> dict[str, list[Callable[[], object]]]:
    """The entry points of every model."""
    cases: dict[str, list[Callable[[], object]]] = defaultdict(list)
    for name, model in examples().items():
        of_class: Any = type(model)
        for field, _, kind, *_ in of_class.__dealkit_fields__:
            if kind != "object":  # Those are Python code, which calls _get.
                cases[f"{name}.{field}"] = [partial(attrgetter(field), model)]
        json = model.to_json()
        of_model = {
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
        for entry, calls in of_model.items():
            cases[f"_Model.{entry}"] += calls
    return cases


def of_values() -> dict[str, list[Callable[[], object]]]:
    """The entry points that need no server."""
    raw, other = native.raw_json("[1, 2]"), native.raw_json("[1, 3]")
    failure: Any = dealkit.Deal._read('{"id": 5}', "raise")
    invalid = native.create_agent({**FIELDS, "email": "no"}, None, True, True)
    settings = {"base_url": "http://127.0.0.1:9", "service_key": "k"}
    comparisons = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
    return {
        **plain(raw, native.retrieve_deal("d")),
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
            partial(
                native.create_once, native.create_agent(FIELDS, None, True, False), "key", "l", "email", False, True
            ),
            partial(
                native.create_once, native.create_agent(FIELDS, None, True, False), "\ud800", "l", None, False, True
            ),
        ],
        "retrieve_deal": [
            partial(native.retrieve_deal, "d"),
            partial(native.retrieve_deal, 5),
        ],
        "raw_request": [
            partial(
                native.raw_request, "PATCH", ("agents", "a"), ({"a": Decimal("1.10")},), [("q", "1")], [("h", "2")]
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
        "open_engine": [
            partial(native.open_engine, settings, None),
            partial(native.open_engine, {**settings, "rate_limit": 5.0}, None),
            partial(native.open_engine, {**settings, "service_key": native.key_source(print)}, None),
            partial(native.open_engine, {**settings, "service_key_file": "/none"}, None),
            partial(native.open_engine, {**settings, "service_key": "a b"}, None),
            partial(native.open_engine, {**settings, "headers": [("a", 1)]}, None),
        ],
        **of_tables(),
        "resolve_ledger": [
            partial(native.resolve_ledger, "/none/agents.ledger", [("a", "a_1"), ("b", None)], False),
            partial(native.resolve_ledger, "/none/agents.ledger", [], True),
        ],
        "init_ledger": [partial(native.init_ledger, "postgresql://127.0.0.1:1/none")],
        "look_up_in_ledger": [
            partial(
                native.look_up_in_ledger,
                "/none/agents.ledger",
                "email",
                "https://deals.example.com",
                ["a", "b"],
                None,
                True,
            ),
            partial(native.look_up_in_ledger, "/none/agents.ledger", None, None, [], [], False),
        ],
        "look_up_emails_in_ledger": [partial(native.look_up_emails_in_ledger, "/none/agents.ledger", ["a@b.c"], True)],
        "normalize_key": [partial(native.normalize_key, "email", "A\u0301"), partial(native.normalize_key, None, "a")],
        "back_up_ledger": [partial(native.back_up_ledger, "/none/agents.ledger", "/none/copy")],
        "summarize_ledger": [partial(native.summarize_ledger, "/none/agents.ledger")],
        "ledger_display_name": [partial(native.ledger_display_name, "postgresql://u:p@localhost/x")],
        "ledger_path": [partial(native.ledger_path, "agents.ledger")],
        "ledgers_in_folder": [partial(native.ledgers_in_folder, "/none")],
        "set_ledger_base_url": [
            partial(native.set_ledger_base_url, "/none/agents.ledger", "https://deals.example.com")
        ],
        "watch": [partial(native.watch, [("a", "b"), ("a b", "c")]), partial(native.watch, [("a", 1)])],
        "prepare": [partial(native.prepare, Decimal, Context(), {role.value: role for role in Role}, gc)],
    }


def of_tables() -> dict[str, list[Callable[[], object]]]:
    """The entry points of tables in memory."""
    builder = native.open_table_builder(10, True, 1)
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
            partial(native.open_table_builder(0, False, 5).push, [DEAL], False),
        ],
        "TableBuilder.batch": [builder.batch, builder.batch],
        "TableBuilder.finish": [builder.finish],
        "Table.__arrow_c_schema__": [table.__arrow_c_schema__],
        "Table.__arrow_c_stream__": [table.__arrow_c_stream__, partial(table.__arrow_c_stream__, None)],
    }


def of_calls(sandbox: Sandbox) -> dict[str, list[Callable[[], object]]]:
    """The entry points that send something to the sandbox. They use an event loop that does not run."""
    client: Any = Client(base_url=sandbox.url, service_key=sandbox.service_key)
    engine, server = client._service.engine, sandbox._server
    call, missing = native.retrieve_deal("d_1"), native.retrieve_deal("nothing")
    response = client.with_raw_response.deals.retrieve("d_1")
    loop = asyncio.new_event_loop()
    box, future = event_loop.mailbox(loop), loop.create_future()
    watch = native.watch([])
    many = engine.many(True, 8, None)
    # These receive nothing and send nothing.
    creates, given_up = engine.create_many(True, 8, None, None), engine.create_many(False, 8, None, None)
    create = native.create_agent(FIELDS, None, True, False)
    full, first = _mailbox(client)
    question = _question(sandbox, engine, create)
    builder = native.open_table_builder(10, True, 1)

    return {
        **plain(engine, many, response, server),
        "KeyAnswer.give": [partial(_key_answer(sandbox.url, call).give, "k", time) for time in (None, 5.0, -1.0)],
        "KeyAnswer.fail": [partial(_key_answer(sandbox.url, call).fail, "OSError")],
        "Engine.send": [
            partial(engine.send, call, None, False, watch),
            partial(engine.send, call, None, True, None),
            partial(engine.send, missing, native.call_options({"timeout": 50, "max_retries": 0}), False, None),
        ],
        "Engine.start": [partial(engine.start, call, None, False, watch)],
        "Engine.many": [
            partial(engine.many, True, 8, None),
            partial(engine.many, False, 8, native.call_options({"timeout": 5})),
        ],
        "Engine.create_many": [
            partial(engine.create_many, True, 8, native.call_options({"timeout": 5}), None),
            partial(engine.create_many, True, 8, None, ("/none/agents.ledger", "email", "ask", True)),
        ],
        "Engine.describe": [partial(engine.describe, call)],
        "Watch.take": [watch.take],
        "Many.push": [
            partial(many.push, [("d_1", watch), ("d_1", None)], 0),
            partial(engine.many(True, 8, None).push, [(5, None)], 0),
            partial(creates.push, [((create, "key"), watch), ((None, None), None)], 0),
            partial(creates.push, [("d_1", None)], 0),
            partial(many.push, [], 999),
        ],
        "Many.cancel": [
            partial(engine.create_many(True, 8, None, None).cancel, [((create, None), None), ((None, "key"), None)], 0),
            partial(given_up.cancel, [], 0),
        ],
        "Many.take": [partial(many.take, [], False), partial(many.take, [], True), partial(creates.take, [5], False)],
        "Many.wait": [many.wait],
        "Many.wait_for_end": [many.wait_for_end, given_up.wait_for_end],
        "Many.tell": [partial(many.tell, box, future)],
        "Many.finish": [engine.many(True, 8, None).finish],
        "Many.tell_end": [partial(many.tell_end, box, future)],
        "Many.has_ended": [partial(attrgetter("has_ended"), many), partial(attrgetter("has_ended"), given_up)],
        "Many.close": [engine.many(True, 8, None).close],
        "Question.row": [question.row],
        "Question.answer": [partial(question.answer, "agent"), partial(question.answer, "agent", "a_1")],
        "TableBuilder.add": [partial(builder.add, 0, "d_1", response), partial(builder.add, 1, "x", _failure(engine))],
        "Mailbox.first": [box.first, full.first],
        "Mailbox.next": [partial(full.next, future), partial(full.next, first)],
        "open_mailbox": [partial(native.open_mailbox, ref(loop), print)],
        "Pending.tell": [partial(engine.start(call, None, False, watch).tell, box, future)],
        "Pending.take": [_ended(client), engine.start(call, None, False, watch).take],
        "Pending.abort": [engine.start(call, None, False, watch).abort],
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


def of_slow_calls(url: str) -> dict[str, list[Callable[[], object]]]:
    """The entry points of a call in flight, to a server that does not answer."""
    client: Any = Client(base_url=url, service_key="k")
    waiting = client._service.engine.send(native.retrieve_deal("d_1"), None, False, None)
    other = client._service.engine.send(native.retrieve_deal("d_1"), None, False, None)
    return {"Waiting.wait": [waiting.wait], "Waiting.abort": [other.abort]}


def _failure(engine: Any) -> Any:
    """The failure of a call."""
    many = engine.many(True, 8, None)
    many.push([("nothing", None)], 0)
    taken: list[Any] = []
    while not taken:
        many.wait()
        many.take(taken, True)
    return taken[0][2]


def _key_answer(url: str, call: Any) -> Any:
    """What a call waits for that needs a key."""
    answers: Queue[Any] = Queue()
    settings = {"base_url": url, "service_key": native.key_source(answers.put)}
    pending = native.open_engine(settings, None).start(call, None, False, None)
    try:
        return answers.get(timeout=240)
    finally:
        pending.abort()


def _question(sandbox: Sandbox, engine: Any, create: Any) -> Any:
    """What is asked about an unresolved row."""
    # Retrievals of the other entries are still in flight.
    sandbox.fail_next(status=503, method="POST")
    taken: list[Any] = []
    with TemporaryDirectory() as folder:
        for _ in range(2):
            many = engine.create_many(True, 1, None, (f"{folder}/agents.ledger", None, "ask", False))
            many.push([((create, "key"), None)], 0)
            taken.clear()
            while not taken:
                many.wait()
                many.take(taken, True)
            # After `close`, the ledger might still write a file into the folder while that is deleted.
            many.finish()
            while many.wait_for_end() is False:
                pass
    return taken[0]


def _mailbox(client: Any) -> tuple[Any, Any]:
    """A mailbox with two futures in it, and the first of them."""

    async def fetch() -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        box: Any = native.open_mailbox(ref(loop), lambda box: None)
        for _ in range(2):
            pending = client._service.engine.start(native.retrieve_deal("d_1"), None, False, None)
            pending.tell(box, loop.create_future())
        while (first := box.first()) is None:
            await asyncio.sleep(0.001)
        return box, first

    return asyncio.run(fetch())


def _ended(client: Any) -> Callable[[], object]:
    """What takes the outcome of a call that has ended."""

    async def fetch() -> Callable[[], object]:
        pending: Any = client._service.engine.start(native.retrieve_deal("d_1"), None, False, None)
        await event_loop.news(pending.tell, None)
        return partial(pending.take)

    return asyncio.run(fetch())


# The one that ends the interpreter, and the one that is only called once, in a process of its own.
APART = {"end", "run_server"}


def names() -> set[str]:
    """The names of all entry points: functions, methods, attributes and operators that are not Python code."""
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
    # A `__new__` here either says that there is no constructor, or is Python code.
    return isinstance(value, _NATIVE) and name not in ("__doc__", "__new__")


# Functions, methods, operators and attributes that are written in C or, in dealkit, in Rust.
_NATIVE = (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)

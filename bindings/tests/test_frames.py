"""No frame of a traceback holds the service key or personal data when an exception leaves dealkit.

Error trackers, `cgitb` and `rich` show the variables of every frame.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import run, untyped
from pydantic import TypeAdapter

from dealkit import Agent, AgentProfileResponse, AsyncClient, Client, Deal
from dealkit._client import client
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f"
PERSON = "Canary Lovelace"


def shown_in_frames(error: BaseException) -> str:
    """What an error tracker collects: the variables of every frame except those of this file."""
    seen: list[str] = []
    frames = list(traceback.walk_tb(error.__traceback__))
    chained: BaseException | None = error.__context__
    while chained is not None:
        frames += traceback.walk_tb(chained.__traceback__)
        chained = chained.__context__
    for frame, _ in frames:
        if frame.f_code.co_filename != __file__:
            seen += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
    return "\n".join(seen)


class BrokenMapping(dict[str, Any]):
    def items(self) -> Any:
        raise LookupError("mine")

    __iter__ = items
    keys = items


class Interrupted(dict[str, Any]):
    """The exception that is raised when it is read is not an error of the row."""

    def keys(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = keys


def rows() -> Iterator[Any]:
    yield WRONG
    raise LookupError("mine")


async def collect(creations: Any) -> list[Any]:
    return [creation async for creation in creations]


UNTYPED: Any = [KEY]
WRONG: Any = {"last_name": "L", "profile": {}, "email": PERSON, "first_name": PERSON * 99}
PERSONAL: Any = {"id": "a", "email": PERSON, "first_name": PERSON, "last_name": PERSON, "role_assignments": ()}
PERSONAL["profile"] = AgentProfileResponse(client_metadata={PERSON: PERSON})
FAILING: dict[str, Any] = {
    "a wrong setting": lambda url: Client(base_url="ftp://x", service_key=KEY),
    "a wrong key": lambda url: Client(base_url=url, service_key=KEY + " "),
    "a key that is no str": lambda url: Client(base_url=url, service_key=KEY.encode()),  # type: ignore[arg-type]
    "a wrong header": lambda url: Client(base_url=url, service_key=KEY, headers={"a": KEY + "\n"}),
    "headers that are none": lambda url: Client(base_url=url, service_key=KEY, headers=UNTYPED),
    "a wrong timeout": lambda url: Client(base_url=url, service_key=KEY, timeout="5"),  # type: ignore[arg-type]
    "a wrong proxy": lambda url: Client(base_url=url, service_key="k", proxy=f"ftp://u:{KEY}@x"),
    "with_options": lambda url: Client(base_url=url, service_key=KEY).with_options(base_url="ftp://x"),
    "with_options, a new key": lambda url: Client(base_url=url, service_key="k").with_options(service_key=KEY + " "),
    "with_options of a closed client": lambda url: closed(url).with_options(service_key=KEY),
    "a shared client": lambda url: Client.shared(base_url="ftp://x", service_key=KEY),
    "unpickling": lambda url: client._restore(Client, {"base_url": "ftp://x", "service_key": KEY}, False),
    "an invalid create": lambda url: Client(base_url=url, service_key=KEY).agents.create(**WRONG),
    "an invalid create, raw": lambda url: Client(base_url=url, service_key=KEY).with_raw_response.agents.create(
        **WRONG
    ),
    "a create that is refused": lambda url: Client(base_url=url, service_key=KEY).agents.create(
        **WRONG, validate=False
    ),
    "a create with a wrong option": lambda url: Client(base_url=url, service_key=KEY).agents.create(
        **untyped({**WRONG, "validate": 1})
    ),
    "a profile that cannot be read": lambda url: Client(base_url=url, service_key=KEY).agents.create(
        **untyped({**WRONG, "profile": BrokenMapping(tier=PERSON)})
    ),
    "a create on a closed client": lambda url: closed(url).agents.create(**WRONG, validate=False),
    "an invalid row": lambda url: list(Client(base_url=url, service_key=KEY).agents.create_many([WRONG])),
    "a row that raises": lambda url: list(
        Client(base_url=url, service_key=KEY).agents.create_many(untyped([BrokenMapping(**WRONG)]))
    ),
    "a row with a profile that raises": lambda url: list(
        Client(base_url=url, service_key=KEY).agents.create_many(
            [untyped({**WRONG, "profile": BrokenMapping(tier=PERSON)})]
        )
    ),
    "a row with an unknown field": lambda url: list(
        Client(base_url=url, service_key=KEY).agents.create_many([untyped({**WRONG, PERSON: PERSON})])
    ),
    "a row that is refused": lambda url: list(
        Client(base_url=url, service_key=KEY).agents.create_many([WRONG], validate=False)
    ),
    "rows that raise": lambda url: list(Client(base_url=url, service_key=KEY).agents.create_many(rows())),
    "rows, awaited": lambda url: run(collect(AsyncClient(base_url=url, service_key=KEY).agents.create_many([WRONG]))),
    "rows with a wrong option": lambda url: Client(base_url=url, service_key=KEY).agents.create_many(
        [WRONG], concurrency=0
    ),
    "one row": lambda url: Client(base_url=url, service_key=KEY).agents.create_many(WRONG),
    "rows of a closed client": lambda url: closed(url).agents.create_many([WRONG]),
    "a row that a handler interrupts": lambda url: list(
        Client(base_url=url, service_key=KEY).agents.create_many(untyped([Interrupted(**WRONG)]))
    ),
    "an async create": lambda url: run(AsyncClient(base_url=url, service_key=KEY).agents.create(**WRONG)),
    "an async create that is refused": lambda url: run(
        AsyncClient(base_url=url, service_key=KEY).agents.create(**WRONG, validate=False)
    ),
    "a request": lambda url: Client(base_url=url, service_key=KEY).request(
        "POST", "nothing", json={"name": PERSON}, query={"q": PERSON}, headers={"x-name": PERSON}
    ),
    "a wrong request": lambda url: Client(base_url=url, service_key=KEY).request("POST", "x", json={PERSON: {1}}),
    "a wrong request, awaited": lambda url: run(
        AsyncClient(base_url=url, service_key=KEY).request("POST", "x", json={PERSON: {1}})
    ),
    "a model": lambda url: Agent(**untyped({**PERSONAL, "first_name": 5})),
    "a model's replacement": lambda url: Agent(**PERSONAL).__replace__(first_name=PERSON, last_name=5),
    "a dict": lambda url: Agent.from_dict({**PERSONAL, "last_name": 5}),
    "a dict in a dict": lambda url: Agent.from_dict({**PERSONAL, "profile": {"external_id": PERSON, "tier": PERSON}}),
    "a wrong argument of validate": lambda url: Client(base_url=url, service_key=KEY).agents.validate(
        **untyped({**WRONG, "emial": PERSON})
    ),
    "a profile that names a field twice": lambda url: Client(base_url=url, service_key=KEY).agents.validate(
        **untyped({**WRONG, "profile": {"userId": PERSON, "user_id": PERSON}})
    ),
    "what pydantic cannot write": lambda url: TypeAdapter(Deal).dump_json(
        Deal.from_json('{"id": "d", "new": {"%s": [0.12345678901234567890]}}' % PERSON)
    ),
    "a document": lambda url: Agent.from_json('{"id": "%s"}' % PERSON),
    "a sandbox": lambda url: Sandbox([{"id": "d", "external_id": PERSON, "a": {1}}], service_key=KEY),
    "a sandbox with a wrong key": lambda url: Sandbox(service_key=KEY + " "),
}


def closed(url: str) -> Client:
    client = Client(base_url=url, service_key=KEY)
    client.close()
    return client


@pytest.mark.parametrize("call", FAILING.values(), ids=FAILING.keys())
def test_no_frame_holds_what_is_secret_or_personal(call: Any, dealkit_sandbox: Sandbox) -> None:
    with pytest.raises(BaseException) as caught:
        call(dealkit_sandbox.url)
    shown = shown_in_frames(caught.value)
    assert KEY not in shown and PERSON not in shown, shown
    assert any(name in shown for name in ("self", "given", "outcome", "knows")), "no frame of dealkit's was looked at"

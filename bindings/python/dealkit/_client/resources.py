"""The calls of each resource, defined once: what they take and send.

What they return is a parameter of the class, since each call comes in four forms: plain, awaited, with the whole
response, and both.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, Unpack, overload

from dealkit import _native
from dealkit._bulk.create import AsyncCreationIterator, CreationIterator
from dealkit._bulk.creation import Creation
from dealkit._bulk.once import create_once, create_once_async, keyed
from dealkit._bulk.progress import Progress
from dealkit._bulk.resolve import Resolve
from dealkit._bulk.retrieve import AsyncDealIterator, DealIterator
from dealkit._calls.service import Service
from dealkit._client.validation import validate_agent
from dealkit._core.failure import unwrap
from dealkit._core.options import OMITTED, CallOptions, Omitted
from dealkit._core.private import awaited, sealed
from dealkit._models.agent_request import create_agent
from dealkit._native import Agent, Deal, RawResponse
from dealkit.enums import Role
from dealkit.exceptions import DealkitError
from dealkit.params import AgentProfileParams, CreateAgentParams, RoleName

# What a call returns: an agent or a deal, the coroutine of one, or the response with it; and iterators of these.
Created = TypeVar("Created")
CreatedOnce = TypeVar("CreatedOnce")
Creations = TypeVar("Creations")
Retrieved = TypeVar("Retrieved")
Retrievals = TypeVar("Retrievals")
RetrievalsOrErrors = TypeVar("RetrievalsOrErrors")


class Form(NamedTuple):
    """A form in which calls come."""

    send: Any
    create_once: Any
    creations: Any
    deals: Any
    is_raw: bool


PLAIN = Form(Service.send, create_once, CreationIterator, DealIterator, False)
RAW = Form(Service.send, create_once, CreationIterator, DealIterator, True)
AWAITED = Form(Service.send_async, create_once_async, AsyncCreationIterator, AsyncDealIterator, False)
AWAITED_RAW = Form(Service.send_async, create_once_async, AsyncCreationIterator, AsyncDealIterator, True)


class AgentAndOptions(CreateAgentParams, CallOptions):
    """An agent to create, and the options of the call that creates it."""


class _Calls:
    """Calls in one of these forms."""

    __slots__ = ("_form", "_service")

    def __init__(self, service: Service, form: Form) -> None:
        self._service, self._form = service, form


class AgentCalls(_Calls, Generic[Created, CreatedOnce, Creations]):
    """Calls on agents."""

    __slots__ = ()

    @sealed
    def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: AgentProfileParams,
        role: Role | RoleName | Omitted = OMITTED,
        phone: str | Omitted = OMITTED,
        image_url: str | None | Omitted = OMITTED,
        date_of_birth: date | str | None | Omitted = OMITTED,
        brokerage_id: str | None | Omitted = OMITTED,
        office_id: str | None | Omitted = OMITTED,
        collective_id: str | None | Omitted = OMITTED,
        validate: bool = True,
        **options: Unpack[CallOptions],
    ) -> Created:
        """Creates an agent.

        The specification has no idempotency key, so sending a create again may create a second agent. When a call
        fails, the error's ``outcome`` says whether the agent may exist; see ``DealkitError``.

        With an ``AsyncClient``, cancelling the awaiting task aborts the request, but cannot take back what the service
        has already done, so the agent may exist. In a web handler, which may be cancelled when its caller hangs up, use
        ``create_once`` with ``detached=True``.

        Args:
            email: E-mail address: a bare mailbox such as ``ada@example.com``.
            first_name: First name, 1 to 255 characters.
            last_name: Last name, 1 to 255 characters.
            profile: The profile, with keys in snake_case; it may be empty. Undocumented fields go into ``extra``.
            role: The role. If none is sent, the service assumes ``Role.AGENT``.
            phone: Phone number: a plus sign and digits.
            image_url: URL of a picture. None is sent as null; if omitted, it is not sent.
            date_of_birth: Date of birth: a date, or a string ``YYYY-MM-DD``.
            brokerage_id: The brokerage that the agent belongs to.
            office_id: The office that the agent belongs to.
            collective_id: The collective that the agent belongs to.
            validate: Whether to check the rules before sending anything. A real service may accept more than they
                allow.

            options: Options of this call alone: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.

        Raises:
            ValidationError: The request breaks the rules; ``errors`` has every violation.
            DealkitError: See its subclasses.
        """
        given = {**locals()}
        del given["self"], given["options"], given["validate"]
        return self._form.send(self._service, create_agent(given, validate), options, self._form.is_raw)  # type: ignore[no-any-return]

    @sealed
    def create_once(
        self,
        *,
        key: str,
        ledger: str | PathLike[str],
        keys: str | None = None,
        resend_unknown: bool = False,
        wait_in_flight: bool = False,
        detached: bool = False,
        validate: bool = True,
        **arguments: Unpack[AgentAndOptions],
    ) -> CreatedOnce:
        """Creates an agent, unless one was created with the same key before. For web handlers and queue workers, which
        may run twice, in several processes.

        >>> creation = client.agents.create_once(key="crm-4711", ledger="agents.ledger", **agent)
        >>> print(creation.result, creation.agent_id)
        created a_1

        The ledger records what became of each key, for all processes that use it; ``create_many`` jobs may share it. If
        the agent was created with this key before, nothing is sent: ``result`` is ``"already_created"``, and
        ``agent_id`` and ``sent_at`` say which and when. Otherwise the ledger gets the key before the request leaves,
        and the outcome before you receive it, so no crash can lead to a second agent.

        An ``AlreadyAttemptedError`` means that nothing was sent: because it is unknown what became of the key (``outcome`` is
        ``"unknown"``: find out, and ``dealkit.ledger.resolve`` it), because another call or job is sending it
        (``in_flight``: try again shortly), or because the service rejected it (resolve the key as having no
        agent, and send the corrected request with the same key).

        The client keeps the last 16 ledgers open until it is closed; opening one never blocks an event loop. If an
        outcome cannot be written, ``ledger_error`` says why: it is written as soon as possible, and until then nobody
        sends the key.

        Args:
            key: The key: any str that always stands for this agent, and for no other.
            ledger: The file of the ledger, an SQLite database of its own, for the processes of one machine; or the URL of a
                PostgreSQL database (``"postgresql://…"``). It is created if it does not exist.
            keys: The name of the keys, such as ``"email"``. A ledger whose keys have another name is rejected, because
                it would recognise none of them.
            resend_unknown: Whether to send it even if it is unknown what became of the key. If the agent was created,
                there are then two.
            wait_in_flight: Whether to wait while another call or job is sending it, for up to this call's timeout.
            detached: Whether the create continues if the awaiting task is cancelled. Without it, cancelling aborts the
                request, and if that has been sent, the outcome of the key is unknown. So set it in a web handler, which
                may be cancelled when its caller hangs up: the ledger gets the outcome, and so does the next call with
                the key. It ends at its ``timeout``, or with the process. Only for ``AsyncClient``: a call of ``Client``
                ends when it returns, or when a signal handler raises an exception.
            validate: Whether the rules are checked before anything is sent.
            arguments: The agent's, as for ``create``, and options of this call: ``extra_headers``, ``timeout``,
                ``max_retries``, ``retry``.

        Raises:
            AlreadyAttemptedError: The ledger has the key, with no agent or an unknown outcome.
            LedgerError: The ledger cannot be used; nothing was sent.
            DealkitError: Whatever ``create`` raises.
        """
        given: dict[str, Any] = {**arguments}
        options = {name: given.pop(name) for name in CallOptions.__annotations__ if name in given}
        call = create_agent(given, validate)
        call = keyed(call, key, ledger, keys, resend_unknown=resend_unknown, wait_in_flight=wait_in_flight)
        return self._form.create_once(self._service, call, options, self._form.is_raw, detached)  # type: ignore[no-any-return]

    @sealed
    def create_many(
        self,
        rows: Iterable[CreateAgentParams],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = False,
        validate: bool = True,
        ledger: str | PathLike[str] | None = None,
        key: str | Callable[[CreateAgentParams], str] | None = None,
        resend_unknown: bool = False,
        resolve: Resolve | None = None,
        wait_in_flight: bool = False,
        **options: Unpack[CallOptions],
    ) -> Creations:
        """Creates many agents, a limited number at a time, as an iterator of ``Creation``.

        Every row yields exactly one result, with its ``index``. Each create behaves like ``create``: it is retried only
        if the service certainly did not act, and the error's ``outcome`` says whether the agent may exist. A row that
        breaks the rules, or is not a mapping, is never sent: its error is a ``ValidationError`` with the outcome
        ``not_sent``. Rows are consumed only as fast as you take results, so ``rows`` may be an infinite generator.

        A 401 or 403 stops the job, because every row would most likely get the same: the rows in flight still come
        back, the next one is a ``StoppedError`` with the outcome ``not_sent``, and no further rows are taken. Continue
        from there.

        >>> for creation in client.agents.create_many(rows, on_error="return"):
        ...     print(creation.index, creation.outcome, creation.agent_id or creation.error)

        To stop early, call ``stop()``, which takes no further rows and lets those in flight finish, or ``cancel()``,
        which abandons those in flight and returns what is known about each (await it with an ``AsyncClient``). Both still work after an exception, Ctrl-C
        included: keep the iterator in a variable.

        With a ledger, a job survives a crash of its process or of the machine: run it again with the same rows, and it
        sends those that are new or were not sent, and returns what the ledger knows about the others.

        >>> client.agents.create_many(rows, ledger="agents.ledger", key="email", on_error="return")

        A result that the ledger has from an earlier run is marked ``from_ledger``. An agent that was created comes back
        with its ``agent_id``, and a rejected row with an ``AlreadyAttemptedError``. If the row was rejected for reasons
        unrelated to its content (401, 403, 404, 405, 407, 421, 425, 426, 429, or a redirect), it is sent again. If it
        is unknown whether the agent was created, the error is also an ``AlreadyAttemptedError``, with the outcome ``unknown``:
        find out and record the answer with ``dealkit.ledger.resolve``, or have ``resolve`` do so. Rows that break the
        rules are not recorded, so they are sent once corrected; to have a rejected row sent again, use ``resolve``.

        The intent to send a row is on disk before it is sent, and its result before you receive it, so a crash loses
        nothing: only the rows that were in flight are unknown. Several jobs may share a ledger, on one machine or,
        in PostgreSQL, on many: each row is sent by one of them, and the others return it as ``in_flight``. The file contains salted hashes of the keys,
        so nobody will come across an e-mail address in it by chance, but anyone who has the file can check whether a
        key that they guess is in it.

        Args:
            rows: The agents: any iterable of mappings that ``create(**row)`` accepts; ``CreateAgentParams`` lists the
                fields.
            concurrency: How many creates are in flight at a time, and so how many rows may be unknown after a crash.
            ordered: Whether results come in the order of the rows, rather than as they arrive.
            on_error: ``"raise"`` raises the first error, with its ``index``, and sends no further rows; ``"return"``
                puts it in the ``Creation`` and continues, except after a 401 or 403.
            progress: True shows a line on standard error; a callable, such as one that updates a bar of tqdm's, is
                called with the number of results so far and the total, if that is known.
            validate: Whether to check the rules before sending a row.
            ledger: The file of the job's ledger, an SQLite database of its own, or, for jobs on many machines, the URL
                of a PostgreSQL database (``"postgresql://…"``). It is created if it does not exist.
            key: How the ledger identifies a row: the field that holds its key, such as ``"email"`` or
                ``"profile.external_id"``, or a function that returns the key of a row. A key is a str, the same in
                every run, and different for each row. Name the field if you can, or name the function with
                ``dealkit.ledger.KeyOf``: the ledger then rejects a job with other keys, none of whose rows it would
                recognise, so that every agent would be created again. Required with ``ledger``, and not allowed
                without.
            resend_unknown: Whether to send rows whose outcome is unknown in the ledger again, without looking them up.
                If an earlier run did create the agent, there are then two.
            resolve: A function that looks up whether the agent of a row whose outcome is unknown exists, before the row
                is sent again. It takes a ``dealkit.ledger.UnresolvedRow``, and returns the agent's id, which resolves the
                row; False if there is certainly no agent, so the row is sent; or None if it cannot tell, so the row
                stays unknown. Not found yet does not mean never created: return None until ``sent_at`` is longer ago
                than a request can take and than your search may lag behind. With an ``AsyncClient``, it may be a
                coroutine function, which is called for several rows at a time. If it raises an ``Exception``, the row
                stays unknown, with that as its error's ``__cause__``; anything else, such as ``KeyboardInterrupt``,
                leaves the iterator, and the row is looked up again if you continue.
            wait_in_flight: Whether to wait until another job that is sending a row knows its outcome, for at most
                ``timeout``, instead of returning the row at once as ``in_flight``.
            options: Options of each of the calls: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.
        """
        return self._form.creations(  # type: ignore[no-any-return]
            self._service,
            rows,
            ledger,
            concurrency,
            ordered,
            on_error,
            progress,
            validate,
            key,
            resend_unknown,
            resolve,
            wait_in_flight,
            options,
            raw=self._form.is_raw,
        )

    validate = staticmethod(validate_agent)


class DealCalls(_Calls, Generic[Retrieved, Retrievals, RetrievalsOrErrors]):
    """Calls on deals."""

    __slots__ = ()

    @sealed
    def retrieve(self, id: str, **options: Unpack[CallOptions]) -> Retrieved:
        """Retrieves a deal by its identifier.

        Any string is a valid identifier except the empty string, ``.`` and ``..``, which no HTTP client can send, and a
        string that makes the URL longer than 65,534 characters.

        Args:
            id: The identifier.
            options: Options of this call alone: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.

        Raises:
            NotFoundError: The service has no such deal.
            DealkitError: See its subclasses.
        """
        return self._form.send(self._service, unwrap(_native.retrieve_deal(id)), options, self._form.is_raw)  # type: ignore[no-any-return]

    @overload
    def retrieve_many(
        self,
        ids: Iterable[str],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        on_error: Literal["raise"] = "raise",
        progress: Progress = False,
        **options: Unpack[CallOptions],
    ) -> Retrievals: ...

    @overload
    def retrieve_many(
        self,
        ids: Iterable[str],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        on_error: Literal["return"],
        progress: Progress = False,
        **options: Unpack[CallOptions],
    ) -> RetrievalsOrErrors: ...

    @sealed
    def retrieve_many(
        self,
        ids: Iterable[str],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = False,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Retrieves many deals, a limited number at a time, as an iterator.

        Identifiers are consumed only as fast as you take deals. Leaving the loop early cancels the calls in flight.

        Args:
            ids: The identifiers: any iterable, even an infinite generator.
            concurrency: How many retrievals are in flight at a time.
            ordered: Whether deals come in the order of the identifiers, rather than as they arrive.
            on_error: ``"raise"`` ends with the first error; ``"return"`` puts the exception in the deal's place, with
                its ``id`` and ``index``, and continues.
            progress: True shows a line on standard error; a callable, such as one that updates a bar of tqdm's, is
                called with the number of deals so far and the total, if that is known.
            options: Options of each of the calls: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.
        """
        form = self._form
        return form.deals(self._service, ids, concurrency, ordered, on_error, progress, options, raw=form.is_raw)


class AsyncAgentCalls(AgentCalls[Created, CreatedOnce, Creations]):
    """The same calls, awaited."""

    __slots__ = ()
    if not TYPE_CHECKING:
        create = awaited(AgentCalls.create)
        create_once = awaited(AgentCalls.create_once)


class AsyncDealCalls(DealCalls[Retrieved, Retrievals, RetrievalsOrErrors]):
    """The same calls, awaited."""

    __slots__ = ()
    if not TYPE_CHECKING:
        retrieve = awaited(DealCalls.retrieve)


# What the calls of a client return, in each form.
Agents: TypeAlias = AgentCalls[Agent, Creation[Agent], CreationIterator[Agent]]
RawAgents: TypeAlias = AgentCalls[
    RawResponse[Agent], Creation[RawResponse[Agent]], CreationIterator[RawResponse[Agent]]
]
AsyncAgents: TypeAlias = AsyncAgentCalls[
    Coroutine[Any, Any, Agent], Coroutine[Any, Any, Creation[Agent]], AsyncCreationIterator[Agent]
]
AsyncRawAgents: TypeAlias = AsyncAgentCalls[
    Coroutine[Any, Any, RawResponse[Agent]],
    Coroutine[Any, Any, Creation[RawResponse[Agent]]],
    AsyncCreationIterator[RawResponse[Agent]],
]
Deals: TypeAlias = DealCalls[Deal, DealIterator[Deal], DealIterator[Deal | DealkitError]]
RawDeals: TypeAlias = DealCalls[
    RawResponse[Deal], DealIterator[RawResponse[Deal]], DealIterator[RawResponse[Deal] | DealkitError]
]
AsyncDeals: TypeAlias = AsyncDealCalls[
    Coroutine[Any, Any, Deal], AsyncDealIterator[Deal], AsyncDealIterator[Deal | DealkitError]
]
AsyncRawDeals: TypeAlias = AsyncDealCalls[
    Coroutine[Any, Any, RawResponse[Deal]],
    AsyncDealIterator[RawResponse[Deal]],
    AsyncDealIterator[RawResponse[Deal] | DealkitError],
]

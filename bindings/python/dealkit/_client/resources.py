"""The calls of each resource.

Each call is defined once, for four styles: it blocks or is awaited, and it returns the value or the whole response. The
return types of the calls are type parameters of their class.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, Unpack, overload

from dealkit import _native
from dealkit._bulk.callbacks import Resolve
from dealkit._bulk.create_many import AsyncCreationIterator, CreationIterator
from dealkit._bulk.creation import (
    CreatedEarlier,
    CreatedNow,
    make_create_once,
    send_create_once,
    send_create_once_async,
)
from dealkit._bulk.progress import Progress
from dealkit._bulk.retrieve_many import AsyncDealIterator, DealIterator
from dealkit._bulk.table_rows import ArrowTable
from dealkit._calls.session import Session
from dealkit._client.validation import validate_agent
from dealkit._core.errors import sealed, sealed_coroutine, unwrap
from dealkit._core.options import OMITTED, CallOptions, Omitted
from dealkit._models.agent_request import make_create_call
from dealkit._native import Agent, Deal, RawResponse
from dealkit.enums import Role
from dealkit.exceptions import DealkitError, Violation
from dealkit.params import AgentProfileParams, CreateAgentParams, RoleName

# Return types of calls: a model, a whole response, a coroutine of one of these, or an iterator.
Created = TypeVar("Created")
CreatedOnce = TypeVar("CreatedOnce")
Creations = TypeVar("Creations")
Retrieved = TypeVar("Retrieved")
Retrievals = TypeVar("Retrievals")
RetrievalsOrErrors = TypeVar("RetrievalsOrErrors")


class CallStyle(NamedTuple):
    """The functions that implement the calls of a client, either blocking or for asyncio."""

    send: Any
    send_create_once: Any
    create_many: Any
    retrieve_many: Any
    raw: bool = False
    """True if calls return the whole response instead of its value."""


BLOCKING = CallStyle(
    send=Session.send,
    send_create_once=send_create_once,
    create_many=CreationIterator,
    retrieve_many=DealIterator,
)
ASYNC = CallStyle(
    send=Session.send_async,
    send_create_once=send_create_once_async,
    create_many=AsyncCreationIterator,
    retrieve_many=AsyncDealIterator,
)
BLOCKING_RAW = BLOCKING._replace(raw=True)
ASYNC_RAW = ASYNC._replace(raw=True)


class AgentAndOptions(CreateAgentParams, CallOptions):
    """An agent to create, and the options of the call that creates it."""


class _Calls:
    """The base class of the calls of a resource, in one style."""

    __slots__ = ("_session", "_style")

    def __init__(self, session: Session, style: CallStyle) -> None:
        self._session, self._style = session, style


class AgentCalls(_Calls, Generic[Created, CreatedOnce, Creations]):
    """Calls on agents."""

    __slots__ = ()
    _resource_name: ClassVar = "agents"

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
        extra: Mapping[str, object] | Omitted = OMITTED,
        validate: bool = True,
        **options: Unpack[CallOptions],
    ) -> Created:
        """Creates an agent.

        If a create is sent twice, it may create two agents, because the specification has no idempotency key. When a
        call fails, the error's ``outcome`` says whether the agent may exist; see ``DealkitError``.

        With an ``AsyncClient``, cancelling the awaiting task aborts the request. The service may already have created
        the agent. In a web handler, which may be cancelled when its caller disconnects, use ``create_once`` with
        ``detached=True``.

        Args:
            email: E-mail address, without a display name: ``ada@example.com``.
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
            extra: Undocumented fields of the request, which are sent unchanged, next to the documented fields.
            validate: Whether to check the specification's rules before sending anything. A real service may accept more
                than the rules allow.
            options: Options of this call alone: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.

        Raises:
            ValidationError: The request breaks the specification's rules; ``errors`` has every violation.
            DealkitError: See its subclasses.
        """
        arguments = {**locals()}
        del arguments["self"], arguments["options"], arguments["validate"]
        call = make_create_call(arguments, validate)
        return self._style.send(self._session, call, options, raw=self._style.raw)  # type: ignore[no-any-return]

    @sealed
    def create_once(
        self,
        *,
        idempotency_key: str,
        ledger: str | PathLike[str],
        key_name: str | None = None,
        label: str | None = None,
        resend_unknown: bool = False,
        resend_corrected: bool = False,
        resolve: Resolve | None = None,
        wait_in_flight: bool = False,
        detached: bool = False,
        validate: bool = True,
        **arguments: Unpack[AgentAndOptions],
    ) -> CreatedOnce:
        """Creates an agent, unless an agent was already created with the same idempotency key. For web handlers and
        queue workers, which may run twice for one event, even in several processes.

        >>> creation = client.agents.create_once(idempotency_key="crm-4711", ledger="agents.ledger", **agent)
        >>> print(creation.result, creation.agent_id)
        created a_1

        The ledger is a local log of idempotency keys. The key is never sent to the service: the specification has no
        header for it. The ledger records the outcome of each key. Several processes may use one ledger, and so may
        ``create_many`` jobs. If an agent was created with this key, nothing is sent: ``result`` is
        ``"already_created"``, and ``agent_id`` and ``sent_at`` describe that agent. Otherwise the ledger records the
        key before the request is sent, and the outcome before you receive it. A crash therefore cannot lead to a second
        agent.

        An ``IdempotencyKeyReusedError`` means that an agent was created with this key from other data. Its ``agent_id`` is
        that agent. Nothing was sent, because the API cannot change an agent.

        An ``AlreadyAttemptedError`` means that nothing was sent, for one of three reasons:

        - ``in_flight`` is true: another call or job is sending the same key now. Try again shortly.
        - ``outcome`` is ``"unknown"``: an earlier request may have created the agent. Find out whether it did, and
          record the answer with ``dealkit.ledger.resolve``, or pass a function ``resolve``.
        - ``outcome`` is ``"rejected"``: the service rejected an earlier request with this key. Correct the request,
          and send it with the same key and ``resend_corrected``. Or record with ``dealkit.ledger.resolve`` that there
          is no agent, and then send it.

        The client leaves the 16 most recently used ledgers open until it is closed. Opening a ledger never blocks an
        event loop. If an outcome cannot be written to the ledger, ``ledger_error`` has the reason. The outcome is then
        written as soon as possible, and until then no call sends the key.

        Args:
            idempotency_key: Any str that always stands for this agent, and for no other agent.
            ledger: The path of the ledger's file, an SQLite database, for the processes of one machine. Or the URL of a
                PostgreSQL database (``"postgresql://…"``). The ledger is created if it does not exist.
            key_name: The name of the idempotency keys, such as ``"email"``. If the ledger's keys have a different name,
                LedgerError is raised, because the ledger would recognise no key.
            label: A name for the request in your own system, such as a record number, which the ledger stores as text. If
                the outcome becomes unknown, ``dealkit ledger show``, ``LedgerRow.label`` and the error's message say
                whose. At most 256 bytes, and never personal data.
            resend_unknown: Whether to send the request even if the outcome of the key is unknown. If an earlier request
                did create the agent, there are then two agents.
            resend_corrected: Whether to send the request if the service rejected an earlier request with the key, and
                this request differs from it.
            resolve: A function that looks up whether the agent exists if the outcome of the key is unknown. While it
                runs, no other call or job sends the key. It takes a ``dealkit.ledger.UnresolvedRow``, whose ``row``
                has the agent's fields. It returns the agent's id, and then ``result`` is ``"already_created"``; False if
                there is certainly no agent, and then the request is sent; or None if it cannot know, and then the
                outcome stays unknown. ``create_many`` says when False is certain. With an ``AsyncClient``, ``resolve``
                may be a coroutine function. If ``resolve`` raises an ``Exception``, the outcome stays unknown, and the
                exception is the ``__cause__`` of the ``AlreadyAttemptedError``. Any other exception, such as
                ``KeyboardInterrupt``, is raised by the call, and the outcome stays unknown. The time that ``resolve``
                takes does not count towards the call's timeout. Not allowed with ``resend_unknown``.
            wait_in_flight: Whether to wait while another call or job is sending the key, for up to this call's timeout.
            detached: Whether the create continues if the awaiting task is cancelled. If False, cancelling aborts the
                request. If the request was already sent, the outcome of the key is then unknown. Use True in a web
                handler, which may be cancelled when its caller disconnects: the ledger still records the outcome, and
                the next call with the key returns it. ``resolve`` continues, too. A detached create ends at its
                ``timeout``, or with the process: close the client before the process ends, since ``aclose`` waits for
                detached creates.
                Only for ``AsyncClient``: a call of ``Client`` ends when it returns, or when a signal handler raises an
                exception.
            validate: Whether to check the specification's rules before sending anything.
            arguments: The agent's fields, as for ``create``, and options of this call: ``extra_headers``, ``timeout``,
                ``max_retries``, ``retry``.

        Raises:
            AlreadyAttemptedError: The ledger has the key, with no agent or an unknown outcome.
            IdempotencyKeyReusedError: The ledger has the key, with an agent that was created from other data.
            LedgerError: The ledger cannot be used. Nothing was sent.
            DealkitError: Any error that ``create`` raises.
        """
        fields: dict[str, Any] = {**arguments}
        options = {name: fields.pop(name) for name in CallOptions.__annotations__ if name in fields}
        if not fields.keys() <= CreateAgentParams.__annotations__.keys():
            raise TypeError("unexpected keyword argument")  # `sealed` completes the message.
        call, resolver = make_create_once(
            make_create_call(fields, validate),
            fields,
            idempotency_key=idempotency_key,
            ledger=ledger,
            key_name=key_name,
            label=label,
            resend_unknown=resend_unknown,
            resend_corrected=resend_corrected,
            resolve=resolve,
            wait_in_flight=wait_in_flight,
        )
        return self._style.send_create_once(  # type: ignore[no-any-return]
            self._session, call, options, resolver=resolver, raw=self._style.raw, detached=detached
        )

    @sealed
    def create_many(
        self,
        rows: Iterable[CreateAgentParams] | ArrowTable,
        *,
        concurrency: int = 32,
        ordered: bool = True,
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = False,
        validate: bool = True,
        ledger: str | PathLike[str] | None = None,
        key: str | Callable[[CreateAgentParams], str] | None = None,
        label: Callable[[CreateAgentParams], str | None] | None = None,
        resend_unknown: bool = False,
        resend_corrected: bool = False,
        resolve: Resolve | None = None,
        wait_in_flight: bool = False,
        **options: Unpack[CallOptions],
    ) -> Creations:
        """Creates many agents, a limited number at a time, as an iterator of ``Creation``.

        Every row that the job takes yields exactly one result, with the row's ``index``. Each row is sent as by
        ``create``: the request is retried only if the service certainly did not act, and an error's ``outcome`` says
        whether the agent may exist.
        A row that breaks the specification's rules, or is not a mapping, is never sent: its error is a
        ``ValidationError`` with the outcome ``not_sent``. Rows are consumed only as fast as you take results, so
        ``rows`` may be an infinite generator.

        A 401 or 403 ends the job, because every further row would most likely get the same response, and so does an
        error of the ledger. No further rows are taken, and the rows in flight still yield their results. A row that was
        already taken but not sent yields a ``StoppedError``, or the ``LedgerError``, with the outcome ``not_sent``.
        After you have corrected the key, continue from the first such row.

        >>> for creation in client.agents.create_many(rows, on_error="return"):
        ...     print(creation.index, creation.outcome, creation.agent_id or creation.error)

        To stop early, call ``stop()`` or ``cancel()`` of the iterator. ``stop()`` takes no further rows, and lets the
        rows in flight finish. ``cancel()`` abandons the rows in flight and returns the known outcome of each; with an
        ``AsyncClient``, await it. Both still work after an exception, including Ctrl-C, if you have assigned the
        iterator to a variable.

        A job with a ledger, a local log of idempotency keys, survives a crash of its process or of the machine. If you
        run the job again with the same rows, it sends the rows that are new or were not sent, and returns the recorded
        results of all other rows.

        >>> client.agents.create_many(rows, ledger="agents.ledger", key="email", on_error="return")

        A result that the ledger has from an earlier run is marked ``from_ledger``. It depends on the recorded outcome:

        - The agent was created: the result has its ``agent_id``. If the row has changed since, the change is not sent:
          ``request_differs`` is true, and the job emits an ``IdempotencyKeyReusedWarning``, once.
        - The service rejected the row: the result has an ``AlreadyAttemptedError``. To have the corrected row sent, use
          ``resend_corrected``, or record that the row has no agent with ``dealkit.ledger.resolve``. But if the row was
          rejected for a reason unrelated to its content (a 401, 404, 429 or a redirect, for example), it is sent again
          anyway.
        - It is unknown whether the agent was created: the result has an ``AlreadyAttemptedError`` with the outcome
          ``unknown``. Find out whether the agent exists, and record the answer with ``dealkit.ledger.resolve``, or pass
          a function ``resolve``.

        Rows that break the specification's rules are not recorded, so they are sent as soon as they are corrected.

        The ledger records a row before the row is sent, and its result before you receive it. After a crash, only the
        rows that were in flight have an unknown outcome. Several jobs may share a ledger: jobs on one machine, or, with
        PostgreSQL, on many machines. One of the jobs sends a row, and the other jobs return it as ``in_flight``. The
        ledger contains salted hashes of the idempotency keys, which are never sent to the service. The ledger therefore
        shows no e-mail addresses, but a person who can read it can check whether it contains a guessed key.

        Args:
            rows: The agents, as any iterable of mappings that ``create(**row)`` accepts (``CreateAgentParams`` lists the
                fields). Or a data frame of polars or pandas, or a table of pyarrow, whose columns are named like the
                fields, such as ``email`` and ``profile.tier``. Empty cells are left out.
            concurrency: The maximum number of creates in flight. It also limits the number of unknown outcomes after a
                crash.
            ordered: Whether results are in the order of the rows, or in the order of arrival.
            on_error: ``"raise"`` raises the first error, with its ``index``, and sends no further rows. ``"return"``
                puts each error in the ``Creation`` of its row and continues, except after a 401, a 403 or an error of
                the ledger.
            progress: True shows the progress on a line of standard error. A callable, such as one that updates a
                progress bar of tqdm, is called with the number of results so far, and the total number or None.
            validate: Whether to check the specification's rules before sending a row.
            ledger: The path of the job's ledger file, an SQLite database. For jobs on many machines, the URL of a
                PostgreSQL database (``"postgresql://…"``). The ledger is created if it does not exist.
            key: The source of each row's idempotency key: the name of a field, such as ``"email"`` or
                ``"profile.external_id"``, or a function that returns the key of a row. A key is a str. It must be the
                same in every run, and different for each row. Use a field if you can, or name the function with
                ``dealkit.ledger.KeyOf``. The ledger then rejects a job whose keys have a different name, which would
                create every agent again. Required with ``ledger``, and not allowed without it.
            label: A function that returns the label of a row, such as a record number in your own system, or None. The
                ledger stores labels as text: ``dealkit ledger show``, ``LedgerRow.label``, ``UnresolvedRow.label`` and
                the error's message say which of your records have an unknown outcome. At most 256 bytes, and never
                personal data.
            resend_unknown: Whether to send rows again whose outcome in the ledger is unknown, without looking up their
                agents. If an earlier run did create the agent, there are then two agents.
            resend_corrected: Whether to send rows again that the service rejected and whose requests have changed since.
                A rejected row with the same request stays rejected. A row with another key is a new row.
            resolve: A function that looks up whether the agent of a row with an unknown outcome exists. It takes a
                ``dealkit.ledger.UnresolvedRow``. It returns the agent's id, which resolves the row; False if there is
                certainly no agent, and then the row is sent; or None if it cannot know, and then the outcome stays
                unknown. If your search finds no agent, a delayed request may still create the agent. Return None until
                the time since ``sent_at`` exceeds both the longest possible request and the delay of your search. With
                an ``AsyncClient``, ``resolve`` may be a coroutine function, which is called for several rows at a time.
                If ``resolve`` raises an ``Exception``, the outcome stays unknown, and the exception is the
                ``__cause__`` of the row's error. Any other exception, such as ``KeyboardInterrupt``, is raised by the
                iterator. If you then continue, ``resolve`` is called for the row again.
            wait_in_flight: Whether to wait for the outcome of a row that another job is sending, for at most
                ``timeout``. If False, the row is returned immediately as ``in_flight``.
            options: Options of each call: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.
        """
        return self._style.create_many(  # type: ignore[no-any-return]
            self._session,
            rows,
            ledger=ledger,
            key=key,
            label=label,
            resend_unknown=resend_unknown,
            resend_corrected=resend_corrected,
            resolve=resolve,
            wait_in_flight=wait_in_flight,
            validate=validate,
            concurrency=concurrency,
            ordered=ordered,
            on_error=on_error,
            progress=progress,
            options=options,
            raw=self._style.raw,
        )

    if TYPE_CHECKING:

        @staticmethod
        def validate(**arguments: Unpack[CreateAgentParams]) -> list[Violation]:
            """Returns every violation of the rules in an agent's arguments, as ``dealkit.validate_agent`` does. Sends nothing.

            >>> client.agents.validate(email="no", first_name="Ada", last_name="", profile={})
            [Violation(pointer='/email', code='invalid_email'), Violation(pointer='/last_name', code='too_short')]

            Args:
                arguments: The arguments of ``create``. Omitting a required one is a violation, too.
            """
            raise NotImplementedError
    else:
        # The function itself, because a method that passes on so many keywords takes a tenth longer.
        validate = staticmethod(validate_agent)


class DealCalls(_Calls, Generic[Retrieved, Retrievals, RetrievalsOrErrors]):
    """Calls on deals."""

    __slots__ = ()
    _resource_name: ClassVar = "deals"

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
        call = unwrap(_native.retrieve_deal(id))
        return self._style.send(self._session, call, options, raw=self._style.raw, id=id)  # type: ignore[no-any-return]

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

        Identifiers are consumed only as fast as you take deals, so ``ids`` may be an infinite generator. Leaving the
        loop early cancels the calls in flight.

        Args:
            ids: The identifiers: any iterable of str.
            concurrency: The maximum number of retrievals in flight.
            ordered: Whether deals are in the order of the identifiers, or in the order of arrival.
            on_error: ``"raise"`` raises the first error and ends. ``"return"`` yields an exception, with ``id`` and
                ``index``, in place of each deal that failed, and continues.
            progress: True shows the progress on a line of standard error. A callable, such as one that updates a
                progress bar of tqdm, is called with the number of deals so far, and the total number or None.
            options: Options of each call: ``extra_headers``, ``timeout``, ``max_retries``, ``retry``,
                ``on_unreadable``.
        """
        return self._style.retrieve_many(
            self._session,
            ids,
            concurrency=concurrency,
            ordered=ordered,
            on_error=on_error,
            progress=progress,
            options=options,
            raw=self._style.raw,
        )


class AsyncAgentCalls(AgentCalls[Created, CreatedOnce, Creations]):
    """Calls on agents of an ``AsyncClient``."""

    __slots__ = ()
    if not TYPE_CHECKING:
        create = sealed_coroutine(AgentCalls.create)
        create_once = sealed_coroutine(AgentCalls.create_once)


class AsyncDealCalls(DealCalls[Retrieved, Retrievals, RetrievalsOrErrors]):
    """Calls on deals of an ``AsyncClient``."""

    __slots__ = ()
    if not TYPE_CHECKING:
        retrieve = sealed_coroutine(DealCalls.retrieve)


# The calls of each resource, with their return types in each style.
Agents: TypeAlias = AgentCalls[Agent, CreatedNow[Agent] | CreatedEarlier[Agent], CreationIterator[Agent]]
RawAgents: TypeAlias = AgentCalls[
    RawResponse[Agent],
    CreatedNow[RawResponse[Agent]] | CreatedEarlier[RawResponse[Agent]],
    CreationIterator[RawResponse[Agent]],
]
AsyncAgents: TypeAlias = AsyncAgentCalls[
    Coroutine[Any, Any, Agent],
    Coroutine[Any, Any, CreatedNow[Agent] | CreatedEarlier[Agent]],
    AsyncCreationIterator[Agent],
]
AsyncRawAgents: TypeAlias = AsyncAgentCalls[
    Coroutine[Any, Any, RawResponse[Agent]],
    Coroutine[Any, Any, CreatedNow[RawResponse[Agent]] | CreatedEarlier[RawResponse[Agent]]],
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

"""The calls: one class for each resource, waiting or awaited, with the model or with the whole response."""

from __future__ import annotations

from datetime import date, datetime

from dealkit import _native
from dealkit._failure import unwrap
from dealkit._options import OMITTED, Omitted
from dealkit._plain import plain
from dealkit._private import private

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Literal, overload

    from dealkit._client import AsyncClient, Client
    from dealkit._many import AsyncDealIterator, DealIterator
    from dealkit._native import Agent, Deal, RawResponse
    from dealkit.enums import Role
    from dealkit.exceptions import DealkitError
    from dealkit.params import AgentProfileParams

    Profile = AgentProfileParams | Mapping[str, object]
    Progress = bool | Callable[[int, int | None], object]


@private
def _create(given: dict[str, Any]) -> _native.Call[Agent]:
    del given["self"]
    validate = given.pop("validate")
    if not isinstance(validate, bool):
        raise TypeError(f"validate must be a bool, not {type(validate).__name__}")
    fields = {name: _argument(value) for name, value in given.items() if value is not OMITTED}
    return unwrap(_native.create_agent(fields, validate))


def _argument(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return date(value.year, value.month, value.day)
    return plain(value)


def _retrieve(id: str) -> _native.Call[Deal]:
    return unwrap(_native.retrieve_deal(id))


class Agents:
    """Calls on agents; see ``Client.agents``."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: Profile,
        role: Role | str | Omitted = OMITTED,
        phone: str | Omitted = OMITTED,
        image_url: str | None | Omitted = OMITTED,
        date_of_birth: date | str | None | Omitted = OMITTED,
        brokerage_id: str | None | Omitted = OMITTED,
        office_id: str | None | Omitted = OMITTED,
        collective_id: str | None | Omitted = OMITTED,
        validate: bool = True,
    ) -> Agent:
        """Creates an agent.

        The specification has no idempotency key: when a call fails and the error's ``delivery`` is not
        ``not_sent``, the agent may have been created.

        Args:
            email: E-mail address: a bare mailbox such as ``ada@example.com``.
            first_name: First name, 1 to 255 characters.
            last_name: Last name, 1 to 255 characters.
            profile: The profile, keys in snake_case; an empty one is fine.
            role: The role; the service takes ``Role.AGENT`` when none is sent.
            phone: Phone number: a plus sign and digits.
            image_url: URL of a picture. None is sent as null, what is omitted is not sent.
            date_of_birth: Date of birth: a date, or a string ``YYYY-MM-DD``.
            brokerage_id: The brokerage that the agent belongs to.
            office_id: The office that the agent belongs to.
            collective_id: The collective that the agent belongs to.
            validate: Whether the rules are checked before anything is sent. A real service may accept more
                than the rules say.

        Raises:
            ValidationError: The request breaks the rules; ``errors`` has every violation.
            DealkitError: See its subclasses.
        """
        given = {**locals()}
        del email, first_name, last_name, profile, role, phone, image_url, date_of_birth
        del brokerage_id, office_id, collective_id
        return self._client._send(_create(given))


class AsyncAgents:
    """Calls on agents; see ``AsyncClient.agents``."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: Profile,
        role: Role | str | Omitted = OMITTED,
        phone: str | Omitted = OMITTED,
        image_url: str | None | Omitted = OMITTED,
        date_of_birth: date | str | None | Omitted = OMITTED,
        brokerage_id: str | None | Omitted = OMITTED,
        office_id: str | None | Omitted = OMITTED,
        collective_id: str | None | Omitted = OMITTED,
        validate: bool = True,
    ) -> Agent:
        """Creates an agent; see ``Agents.create``."""
        given = {**locals()}
        del email, first_name, last_name, profile, role, phone, image_url, date_of_birth
        del brokerage_id, office_id, collective_id
        return await self._client._send(_create(given))


class RawAgents:
    """Calls on agents that come back with the whole response; see ``Client.with_raw_response``."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: Profile,
        role: Role | str | Omitted = OMITTED,
        phone: str | Omitted = OMITTED,
        image_url: str | None | Omitted = OMITTED,
        date_of_birth: date | str | None | Omitted = OMITTED,
        brokerage_id: str | None | Omitted = OMITTED,
        office_id: str | None | Omitted = OMITTED,
        collective_id: str | None | Omitted = OMITTED,
        validate: bool = True,
    ) -> RawResponse[Agent]:
        """Creates an agent; see ``Agents.create``."""
        given = {**locals()}
        del email, first_name, last_name, profile, role, phone, image_url, date_of_birth
        del brokerage_id, office_id, collective_id
        return self._client._send_raw(_create(given))


class AsyncRawAgents:
    """Calls on agents that come back with the whole response; see ``AsyncClient.with_raw_response``."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self,
        *,
        email: str,
        first_name: str,
        last_name: str,
        profile: Profile,
        role: Role | str | Omitted = OMITTED,
        phone: str | Omitted = OMITTED,
        image_url: str | None | Omitted = OMITTED,
        date_of_birth: date | str | None | Omitted = OMITTED,
        brokerage_id: str | None | Omitted = OMITTED,
        office_id: str | None | Omitted = OMITTED,
        collective_id: str | None | Omitted = OMITTED,
        validate: bool = True,
    ) -> RawResponse[Agent]:
        """Creates an agent; see ``Agents.create``."""
        given = {**locals()}
        del email, first_name, last_name, profile, role, phone, image_url, date_of_birth
        del brokerage_id, office_id, collective_id
        return await self._client._send_raw(_create(given))


class Deals:
    """Calls on deals; see ``Client.deals``."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    def retrieve(self, id: str) -> Deal:
        """Retrieves a deal by its identifier.

        Every string is an identifier but the empty one, ``.`` and ``..``, which no HTTP client can send.

        Raises:
            NotFoundError: The service knows no such deal.
            DealkitError: See its subclasses.
        """
        return self._client._send(_retrieve(id))

    if TYPE_CHECKING:

        @overload
        def retrieve_many(
            self,
            ids: Iterable[str],
            *,
            concurrency: int = 16,
            ordered: bool = True,
            on_error: Literal["raise"] = "raise",
            progress: Progress = False,
        ) -> DealIterator[Deal]: ...

        @overload
        def retrieve_many(
            self,
            ids: Iterable[str],
            *,
            concurrency: int = 16,
            ordered: bool = True,
            on_error: Literal["return"],
            progress: Progress = False,
        ) -> DealIterator[Deal | DealkitError]: ...

    def retrieve_many(
        self,
        ids: Iterable[str],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = False,
    ) -> DealIterator[Any]:
        """Retrieves many deals, a bounded number at a time, as an iterator.

        Identifiers are taken only as fast as deals are taken: ``ids`` may be endless. Leaving the loop early
        cancels what is on its way.

        Args:
            ids: The identifiers: any iterable, also an endless generator.
            concurrency: How many deals are on their way at the same time.
            ordered: Whether the deals come in the order of the identifiers, or as they arrive.
            on_error: ``"raise"`` ends with the first error; ``"return"`` puts the exception in the deal's
                place, with its ``id`` and ``index``, and goes on.
            progress: True shows a tqdm bar, or a plain line on standard error where tqdm is not installed; a
                callable is called with how many deals have come and how many there are, if that is known.
        """
        from dealkit._many import DealIterator

        return DealIterator(self._client, ids, concurrency, ordered, on_error, progress)


class AsyncDeals:
    """Calls on deals; see ``AsyncClient.deals``."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def retrieve(self, id: str) -> Deal:
        """Retrieves a deal by its identifier; see ``Deals.retrieve``."""
        return await self._client._send(_retrieve(id))

    if TYPE_CHECKING:

        @overload
        def retrieve_many(
            self,
            ids: Iterable[str],
            *,
            concurrency: int = 16,
            ordered: bool = True,
            on_error: Literal["raise"] = "raise",
            progress: Progress = False,
        ) -> AsyncDealIterator[Deal]: ...

        @overload
        def retrieve_many(
            self,
            ids: Iterable[str],
            *,
            concurrency: int = 16,
            ordered: bool = True,
            on_error: Literal["return"],
            progress: Progress = False,
        ) -> AsyncDealIterator[Deal | DealkitError]: ...

    def retrieve_many(
        self,
        ids: Iterable[str],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        on_error: Literal["raise", "return"] = "raise",
        progress: Progress = False,
    ) -> AsyncDealIterator[Any]:
        """Retrieves many deals as an async iterator; see ``Deals.retrieve_many``."""
        from dealkit._many import AsyncDealIterator

        return AsyncDealIterator(self._client, ids, concurrency, ordered, on_error, progress)


class RawDeals:
    """Calls on deals that come back with the whole response; see ``Client.with_raw_response``."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    def retrieve(self, id: str) -> RawResponse[Deal]:
        """Retrieves a deal by its identifier; see ``Deals.retrieve``."""
        return self._client._send_raw(_retrieve(id))


class AsyncRawDeals:
    """Calls on deals that come back with the whole response; see ``AsyncClient.with_raw_response``."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def retrieve(self, id: str) -> RawResponse[Deal]:
        """Retrieves a deal by its identifier; see ``Deals.retrieve``."""
        return await self._client._send_raw(_retrieve(id))

"""A client for the Agent and Deal API: register real-estate agents, read deals.

>>> from dealkit import Client, Role
>>> with Client(base_url="https://deals.example.com", service_key="my-key") as client:
...     agent = client.agents.create(
...         email="ada@example.com", first_name="Ada", last_name="Lovelace", profile={"tier": "A"}, role=Role.AGENT
...     )
...     deal = client.deals.retrieve("d_1")

``AsyncClient`` is the client for asyncio, ``dealkit.testing`` has a sandbox for tests, and every exception is a
``DealkitError``.
"""

# ruff: noqa: F403, F405 - the names of the exceptions are in the __all__ of their module.
from dealkit._native import __version__

# Not imported from typing, because that takes longer than importing all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dealkit import arrow as arrow
    from dealkit import ledger as ledger
    from dealkit import testing as testing
    from dealkit._bulk.create_many import AsyncCreationIterator, CreationIterator
    from dealkit._bulk.creation import Creation, CreationOfRow
    from dealkit._bulk.retrieve_many import AsyncDealIterator, DealIterator
    from dealkit._client.client import AsyncClient, Client
    from dealkit._client.operations import AsyncOperations, Operations
    from dealkit._client.validation import validate_agent
    from dealkit._core.headers import Headers
    from dealkit._core.options import OMITTED, CallOptions, ClientOptions, Omitted, Retry, Timeout
    from dealkit._models.fields import Field, fields
    from dealkit._models.unreadable import UnreadableField
    from dealkit._native import (
        Address,
        Agent,
        AgentProfileResponse,
        Application,
        Contact,
        ContactField,
        Deal,
        ListingAgent,
        ListingContract,
        Offer,
        Quote,
        RawJson,
        RawResponse,
        RoleAssignment,
        Side,
    )
    from dealkit.enums import Role
    from dealkit.exceptions import *
    from dealkit.params import AgentProfileParams, CreateAgentParams

__all__ = [
    "OMITTED",
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "Address",
    "Agent",
    "AgentProfileParams",
    "AgentProfileResponse",
    "Application",
    "AsyncClient",
    "AsyncCreationIterator",
    "AsyncDealIterator",
    "AsyncOperations",
    "AuthenticationError",
    "BadRequestError",
    "CallOptions",
    "Client",
    "ClientOptions",
    "ConfigError",
    "ConflictError",
    "Contact",
    "ContactField",
    "CreateAgentParams",
    "Creation",
    "CreationIterator",
    "CreationOfRow",
    "Deal",
    "DealIterator",
    "DealkitError",
    "DecodeError",
    "DuplicateKeyError",
    "Field",
    "Headers",
    "IdempotencyKeyReusedError",
    "IdempotencyKeyReusedWarning",
    "InternalServerError",
    "LedgerError",
    "ListingAgent",
    "ListingContract",
    "NotFoundError",
    "Offer",
    "Omitted",
    "Operations",
    "PermissionDeniedError",
    "Problem",
    "Quote",
    "RateLimitError",
    "AlreadyAttemptedError",
    "RawJson",
    "RawResponse",
    "Retry",
    "Role",
    "RoleAssignment",
    "ServiceKeyError",
    "Side",
    "StoppedError",
    "ThrottledError",
    "Timeout",
    "UnprocessableEntityError",
    "UnreadableField",
    "ValidationError",
    "Violation",
    "__version__",
    "fields",
    "validate_agent",
]

# The modules that define the public names. `__getattr__` imports them lazily, so that importing dealkit is fast. It
# imports them in this order, in which each module imports only earlier modules.
_MODULES = (
    "enums",
    "exceptions",
    "_core.options",
    "_core.headers",
    "params",
    "_models.classes",
    "_native",
    "_bulk.creation",
    "_bulk.create_many",
    "_bulk.retrieve_many",
    "_client.client",
    "_client.operations",
    "_client.validation",
    "_models.fields",
    "_models.unreadable",
)


# The public submodules, which `__getattr__` imports lazily, too.
_SUBMODULES = ("arrow", "ledger", "testing")

# Hidden from type checkers, for which a module with this function has every attribute, including misspelt ones.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module(f"dealkit.{name}")
        for module in _MODULES if name in __all__ else ():
            value: object = getattr(import_module(f"dealkit.{module}"), name, None)
            if value is not None:
                globals()[name] = value
                return value
        raise AttributeError(f"module 'dealkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES} - {"TYPE_CHECKING"})

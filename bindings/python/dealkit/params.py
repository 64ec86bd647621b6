"""Types of requests."""

from collections.abc import Mapping
from datetime import date
from typing import Any, NotRequired, TypedDict

from dealkit.enums import Role, RoleName

__all__ = ["AgentProfileParams", "CreateAgentParams", "RoleName"]


class AgentProfileParams(TypedDict, total=False):
    """The profile of an agent to create: every documented field, each optional.

    The keys are the specification's names in snake_case: ``external_id`` is sent as ``externalId``. An unknown key is
    rejected, because it is probably a typo. Undocumented fields go into ``extra``.
    """

    tier: str
    id: str
    user_id: str
    partner_uuid: str
    partner_office_id: str
    partner_mls_agent_id: str
    partner_mls_id: str
    partner_status: str
    mls_id: str
    onboarding_complete: bool
    processor_connected_account_id: str
    processor_onboarding_complete: bool
    client_metadata: Mapping[str, object]
    external_id: str
    extra: Mapping[str, object]
    """Undocumented fields of the profile, which are sent unchanged, next to the documented fields."""


class CreateAgentParams(TypedDict):
    """An agent to create, as a dict: ``client.agents.create(**params)``.

    Pydantic models and FastAPI routes can use this type. All rules are then checked, and all violations reported.
    """

    email: str
    """E-mail address, without a display name: ``ada@example.com``."""
    first_name: str
    """First name, 1 to 255 characters."""
    last_name: str
    """Last name, 1 to 255 characters."""
    profile: AgentProfileParams
    """The profile, with keys in snake_case; it may be empty. Undocumented fields go into ``extra``."""
    role: NotRequired[Role | RoleName]
    """The role. If none is sent, the service assumes ``Role.AGENT``."""
    phone: NotRequired[str]
    """Phone number: a plus sign and digits."""
    image_url: NotRequired[str | None]
    """URL of a picture. None is sent as null; if omitted, it is not sent."""
    date_of_birth: NotRequired[date | str | None]
    """Date of birth: a date, or a string ``YYYY-MM-DD``."""
    brokerage_id: NotRequired[str | None]
    """The brokerage that the agent belongs to."""
    office_id: NotRequired[str | None]
    """The office that the agent belongs to."""
    collective_id: NotRequired[str | None]
    """The collective that the agent belongs to."""
    extra: NotRequired[Mapping[str, object]]
    """Undocumented fields of the request, which are sent unchanged, next to the documented fields."""


def _schema(cls: Any, source: Any, handler: Any, /) -> Any:
    """Returns pydantic's schema of the class. Before Python 3.12, pydantic itself rejects `typing.TypedDict`."""
    from dealkit._models.pydantic import params_schema

    return params_schema(cls, handler)


# `setattr` adds the method, because a TypedDict cannot define methods, and type checkers reject the assignment of a
# method.
setattr(CreateAgentParams, "__get_pydantic_core_schema__", classmethod(_schema))  # noqa: B010
setattr(AgentProfileParams, "__get_pydantic_core_schema__", classmethod(_schema))  # noqa: B010

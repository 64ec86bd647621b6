"""The types of the parts of a request."""

from datetime import date
from typing import NotRequired, TypedDict

from dealkit._models.profile import AgentProfileParams, untyped_profile
from dealkit._models.typed_dict import known_to_pydantic
from dealkit.enums import Role, RoleName

__all__ = ["AgentProfileParams", "CreateAgentParams", "RoleName", "untyped_profile"]


class CreateAgentParams(TypedDict):
    """An agent to create, as a dict: ``client.agents.create(**params)``.

    A pydantic model and a FastAPI route can take it: every rule is checked, and every violation reported.
    """

    email: str
    """E-mail address: a bare mailbox such as ``ada@example.com``."""
    first_name: str
    """First name, 1 to 255 characters."""
    last_name: str
    """Last name, 1 to 255 characters."""
    profile: AgentProfileParams
    """The profile, with keys in snake_case; it may be empty. Undocumented fields go into ``extra``."""
    role: NotRequired[Role | RoleName]
    """The role; the service assumes ``Role.AGENT`` if none is sent."""
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


known_to_pydantic(CreateAgentParams, is_request=True)

"""The profile of an agent to create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, cast

from dealkit._models.typed_dict import known_to_pydantic

__all__ = ["AgentProfileParams", "untyped_profile"]


class AgentProfileParams(TypedDict, total=False):
    """The profile of an agent to create: every documented field, each optional.

    The keys are the specification's names in snake_case: ``external_id`` is sent as ``externalId``. Any other key is
    refused, since it is probably a slip of the pen; what is not documented goes into ``extra``.
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
    """Undocumented fields of the profile, which are sent as they are, next to the others."""


def untyped_profile(fields: Mapping[str, object], /) -> AgentProfileParams:
    """A profile whose fields type checkers do not check, for mappings of any kind.

    >>> profile = untyped_profile(MappingProxyType({"tier": "A"}))

    Nothing is converted or checked here: that is done when the agent is created.
    """
    return cast(AgentProfileParams, fields)


known_to_pydantic(AgentProfileParams, is_request=False)

"""The types of what a request is made of."""

from collections.abc import Mapping
from typing import TypedDict

__all__ = ["AgentProfileParams"]


class AgentProfileParams(TypedDict, total=False):
    """The profile of an agent to create: every documented field, each optional.

    The keys are the specification's names in snake_case: ``external_id`` is sent as ``externalId``. A key
    that is not listed here is sent as it is.
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

"""The fields of an agent that a column of a table can hold."""

from __future__ import annotations

from dealkit import AgentProfileParams, CreateAgentParams

PROFILE = "profile."
METADATA = "profile.client_metadata."

FIELDS = (
    *(name for name in CreateAgentParams.__annotations__ if name not in ("profile", "extra")),
    *(f"{PROFILE}{name}" for name in AgentProfileParams.__annotations__ if name not in ("client_metadata", "extra")),
)
"""The fields that a column can hold. A column can also hold `profile.client_metadata.` followed by any name."""

ALL_FIELDS = (*FIELDS, f"{METADATA}NAME")

FULL_NAME = "first_name+last_name"
FULL_NAMES = (FULL_NAME, "last_name+first_name")
"""The targets of a column with both names, which is split on request: `Ada Lovelace`, and `Lovelace Ada`."""

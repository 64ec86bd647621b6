"""Closed sets of the specification."""

from enum import StrEnum

__all__ = ["Role"]


class Role(StrEnum):
    """The role of an agent.

    The set is closed in a request. A response may name others, which are kept as plain strings.
    """

    COLLECTIVE_ADMIN = "COLLECTIVE_ADMIN"
    BROKER_ADMIN = "BROKER_ADMIN"
    OFFICE_ADMIN = "OFFICE_ADMIN"
    ADMIN = "ADMIN"
    AGENT = "AGENT"
    """The role of a request that names none."""

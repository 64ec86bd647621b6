"""Enums of the specification."""

from enum import StrEnum
from typing import Literal

__all__ = ["Role", "RoleName"]


class Role(StrEnum):
    """The role of an agent. If a request has none, the service assumes ``Role.AGENT``.

    A request can only have these roles. A response may have unknown roles, which are plain strings.
    """

    # Written by bindings/stubs.py: do not change what follows.
    COLLECTIVE_ADMIN = "COLLECTIVE_ADMIN"
    BROKER_ADMIN = "BROKER_ADMIN"
    OFFICE_ADMIN = "OFFICE_ADMIN"
    ADMIN = "ADMIN"
    AGENT = "AGENT"


RoleName = Literal["COLLECTIVE_ADMIN", "BROKER_ADMIN", "OFFICE_ADMIN", "ADMIN", "AGENT"]
"""The roles that a request may have, as literal strings. To use any other ``str``, convert it with ``Role(text)``,
which raises ValueError for an unknown role."""

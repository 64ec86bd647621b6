"""Closed sets of the specification."""

from enum import StrEnum
from typing import Literal

__all__ = ["Role", "RoleName"]


class Role(StrEnum):
    """The role of an agent. ``Role.AGENT`` is that of a request that names none.

    The set is closed in a request. A response may name others, which are kept as plain strings.
    """

    # Written by bindings/stubs.py: do not change what follows.
    COLLECTIVE_ADMIN = "COLLECTIVE_ADMIN"
    BROKER_ADMIN = "BROKER_ADMIN"
    OFFICE_ADMIN = "OFFICE_ADMIN"
    ADMIN = "ADMIN"
    AGENT = "AGENT"


RoleName = Literal["COLLECTIVE_ADMIN", "BROKER_ADMIN", "OFFICE_ADMIN", "ADMIN", "AGENT"]
"""The names of the roles that a request can name. Any other string goes through ``Role(text)``, which refuses
anything else."""

"""Validation of an agent's arguments, without a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from dealkit._core.errors import clear_own_frames
from dealkit._models.agent_request import list_violations
from dealkit.params import CreateAgentParams

if TYPE_CHECKING:
    from dealkit.exceptions import Violation


def validate_agent(**arguments: Unpack[CreateAgentParams]) -> list[Violation]:
    """Returns every violation of the specification's rules in an agent's arguments. It needs no client and sends
    nothing.

    It takes the same arguments as ``client.agents.create`` and makes the same checks: if the list is empty, the request
    would be sent.

    >>> dealkit.validate_agent(email="no", first_name="Ada", last_name="", profile={})
    [Violation(pointer='/email', code='invalid_email'), Violation(pointer='/last_name', code='too_short')]

    Args:
        arguments: The agent's fields, which ``CreateAgentParams`` lists. If a required field is missing, that is a
            violation.
    """
    try:
        return list_violations(arguments)
    except BaseException as error:
        clear_own_frames(error)
        raise
    finally:
        # Does the work of the decorator `sealed`, which would take a fifth longer because it passes on many keywords.
        del arguments

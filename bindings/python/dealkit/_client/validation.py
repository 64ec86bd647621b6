"""Validation of an agent's arguments, without a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from dealkit._core.private import clear
from dealkit._models.agent_request import agent_violations
from dealkit.params import CreateAgentParams

if TYPE_CHECKING:
    from dealkit.exceptions import Violation


def validate_agent(**arguments: Unpack[CreateAgentParams]) -> list[Violation]:
    """Returns every violation of the rules in an agent's arguments. It needs no client and sends nothing.

    It takes the same arguments as ``client.agents.create`` and makes the same checks: if the list is empty, the request
    would be sent.

    >>> dealkit.validate_agent(email="no", first_name="Ada", last_name="", profile={})
    [Violation(pointer='/email', code='invalid_email'), Violation(pointer='/last_name', code='too_short')]

    Args:
        arguments: ``CreateAgentParams`` lists them all. Omitting a required one is a violation too.
    """
    try:
        return agent_violations(arguments)
    except BaseException as error:
        clear(error)
        raise
    finally:
        # Instead of `sealed`, which takes a fifth longer to pass on so many keywords.
        del arguments

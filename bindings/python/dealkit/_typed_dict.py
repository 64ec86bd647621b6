"""What makes a TypedDict of dealkit known to pydantic: such a class can have no methods of its own."""

from __future__ import annotations

# What follows is for type checkers: importing typing takes longer than all of dealkit.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def known_to_pydantic(typed_dict: Any, is_request: bool) -> None:
    """Has pydantic ask dealkit how it is validated: as the arguments of a request, or as a part of them.

    By itself, pydantic refuses those of `typing` before Python 3.12.
    """

    def schema(cls: Any, source: Any, handler: Any, /) -> Any:
        from dealkit._pydantic import params_schema

        return params_schema(cls, is_request, handler)

    typed_dict.__get_pydantic_core_schema__ = classmethod(schema)

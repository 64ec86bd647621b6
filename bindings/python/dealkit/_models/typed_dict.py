"""Makes a TypedDict of dealkit known to pydantic, since such a class cannot have methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def known_to_pydantic(typed_dict: Any, is_request: bool) -> None:
    """Makes pydantic ask dealkit how to validate it: as the arguments of a request, or as a part of them.

    On its own, pydantic refuses `typing.TypedDict` before Python 3.12.
    """

    def schema(cls: Any, source: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import params_schema

        return params_schema(cls, is_request, handler)

    def json_schema(cls: Any, schema: Any, handler: Any, /) -> Any:
        from dealkit._models.pydantic import describe_params

        return describe_params(cls, is_request, handler(schema), handler)

    typed_dict.__get_pydantic_core_schema__ = classmethod(schema)
    typed_dict.__get_pydantic_json_schema__ = classmethod(json_schema)

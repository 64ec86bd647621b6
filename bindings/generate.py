"""Writes `_client/derived.py` (the resources of `_client/resources.py` awaited, with the whole response, and both) and `params.py`
(the arguments of `create` as a type, and the names of the roles in `enums.py`).

    python bindings/generate.py            # writes the files
    python bindings/generate.py --check    # fails if they are not what would be written

A call is stated once, with its types and its documentation; type checkers, `help()` and `inspect` find plain
methods in all four.
"""

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "python" / "dealkit"
SOURCE = PACKAGE / "_client" / "resources.py"
DERIVED = PACKAGE / "_client" / "derived.py"
ROLES = PACKAGE / "enums.py"
PARAMS = PACKAGE / "params.py"

HEAD = '''"""The calls of each resource awaited, with the whole response, and both.

Written by bindings/generate.py from _client/resources.py: do not change it here.
"""
'''

PARAMS_HEAD = '''"""The types of the parts of a request.

Written by bindings/generate.py from _client/resources.py and enums.py: do not change it here.
"""

from datetime import date
from typing import Literal, NotRequired, TypedDict

from dealkit._models.profile import AgentProfileParams, untyped_profile
from dealkit._models.typed_dict import known_to_pydantic
from dealkit.enums import Role

__all__ = ["AgentProfileParams", "CreateAgentParams", "RoleName", "untyped_profile"]

RoleName = Literal[NAMES]
"""The names of the roles that a request can name. Any other string goes through ``Role(text)``, which refuses
anything else."""
'''

# A method, with its decorators.
METHOD = re.compile(r"^    (?:@\w+(?:\(\w+\))?\n    )*def .*?(?=^    (?:@|def )|\Z)", re.DOTALL | re.MULTILINE)


def derived(source: str, is_async: bool, is_raw: bool) -> str:
    """A variant of one class of `_client/resources.py`."""
    name = re.match(r"class (\w+):", source)
    assert name is not None
    client = "AsyncClient" if is_async else "Client"
    of_class = f"{'Async' if is_async else ''}{'Raw' if is_raw else ''}{name[1]}"
    head = METHOD.split(source)[0].replace(f"class {name[1]}:", f"class {of_class}:")
    head = head.replace("``Client.", f"``{client}.with_raw_response." if is_raw else f"``{client}.")
    return head + "".join(method(text, is_async, is_raw) for text in METHOD.findall(source))


def method(text: str, is_async: bool, is_raw: bool) -> str:
    """A variant of one method."""
    if "raw=False" in text or ") -> DealIterator[" in text:
        if is_raw:
            text = re.sub(r"Iterator\[(Agent|Deal)\b", r"Iterator[RawResponse[\1]", text).replace(
                "raw=False", "raw=True"
            )
        if is_async:
            text = re.sub(r"\b(Creation|Deal)Iterator", r"Async\1Iterator", text)
            text = text.replace("as an iterator", "as an async iterator").replace(">>> for ", ">>> async for ")
        return text
    if "_service.send(" not in text:
        # A method that gets no response has no raw form.
        return "" if is_raw and "def __init__" not in text else text
    send = f"send{'_raw' if is_raw else ''}{'_async' if is_async else ''}"
    text = text.replace("_service.send(", f"_service.{send}(")
    if is_raw:
        text = re.sub(r"\) -> (\w+):", r") -> RawResponse[\1]:", text, count=1)
    if is_async:
        text = text.replace("    def ", "    async def ", 1).replace("return self.", "return await self.")
    return text


def params(source: str, roles: str) -> str:
    """The module of the arguments of `create`."""
    names = ", ".join(f'"{name}"' for name in re.findall(r'^    \w+ = "(\w+)"$', roles, re.MULTILINE))
    text = PARAMS_HEAD.replace("NAMES", names)
    create = next(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == "create"
    )
    docs = argument_docs(ast.get_docstring(create) or "")
    text += (
        "\n\nclass CreateAgentParams(TypedDict):\n"
        '    """An agent to create, as a dict: ``client.agents.create(**params)``.\n\n'
        "    A pydantic model and a FastAPI route can take it: every rule is checked, and every violation reported.\n"
        '    """\n\n'
    )
    for argument in create.args.kwonlyargs:
        if argument.arg == "validate":
            continue  # It is not part of the agent.
        assert argument.annotation is not None
        of = ast.unparse(argument.annotation)
        if of.endswith(" | Omitted"):
            of = f"NotRequired[{of.removesuffix(' | Omitted')}]"
        text += f'    {argument.arg}: {of}\n    """{docs[argument.arg]}"""\n'
    return text + "\n\nknown_to_pydantic(CreateAgentParams, is_request=True)\n"


def argument_docs(docstring: str) -> dict[str, str]:
    """The description of each argument in a docstring."""
    arguments = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    return {
        match[1]: re.sub(r"\s+", " ", match[2]).strip()
        for match in re.finditer(r"^    (\w+): (.*?)(?=^    \w|\Z)", arguments, re.DOTALL | re.MULTILINE)
    }


def main() -> int:
    """Writes or checks the files."""
    source = SOURCE.read_text()
    is_current = True
    for path, text in ((DERIVED, calls(source)), (PARAMS, params(source, ROLES.read_text()))):
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.name} is out of date: run bindings/generate.py", file=sys.stderr)
            is_current = False
    return 0 if is_current else 1


def calls(source: str) -> str:
    """The module of the variants."""
    start = source.index("from __future__")
    first = source.index("\n\nclass ")
    imports = source[start:first].replace("import DealIterator", "import AsyncDealIterator, DealIterator")
    imports = imports.replace("import CreationIterator", "import AsyncCreationIterator, CreationIterator")
    imports = imports.replace("import Agent, Deal\n", "import Agent, Deal, RawResponse\n")
    classes = re.split(r"^(?=class )", source[first:], flags=re.MULTILINE)[1:]
    text = HEAD + "\n" + imports.rstrip() + "\n"
    for is_async, is_raw in ((True, False), (False, True), (True, True)):
        for one in classes:
            text += "\n\n" + derived(one.rstrip() + "\n", is_async, is_raw).rstrip() + "\n"
    return text


if __name__ == "__main__":
    sys.exit(main())

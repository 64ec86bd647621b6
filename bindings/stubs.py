"""Writes the models in `_native.pyi`, from the fields that the built module lists, and the roles in `enums.py` and the
JSON schemas in `request_schema.py`, from openapi.json; the rest of these files is written by hand.

    python bindings/stubs.py            # writes them
    python bindings/stubs.py --check    # fails if they are out of date

stubtest compares the whole stub with the module.
"""

import ast
import inspect
import json
import pprint
import sys
import textwrap
from pathlib import Path

# Importing `_models.classes` adds the methods that are Python code.
from dealkit._models import classes
from dealkit._models.fields import format_type, read_summary
from dealkit.params import AgentProfileParams, CreateAgentParams

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bindings" / "python" / "dealkit"
CONTRACT = ROOT / "sdk" / "contract" / "openapi.json"

MARK = "# Written by bindings/stubs.py: do not change what follows.\n"


def models() -> list[type]:
    """Returns the models, sorted by name."""
    return sorted(classes.MODELS, key=lambda model: model.__name__)


def doc(model: type, indent: str) -> str:
    """A docstring, indented as the code around it."""
    if model.__doc__ is None:
        raise SystemExit(f"{model} has no docstring")
    return textwrap.indent(inspect.cleandoc(read_summary(model)), indent).strip()


def change(name: str, kind: str, need: str) -> str:
    """The declaration of an attribute as a keyword of ``replace``."""
    annotation = format_type(kind, need)
    if kind.startswith("["):
        annotation = f"Iterable[{kind[1:-1]}] | None"
    elif kind == "decimal":
        annotation = "Decimal | int | None"
    elif kind == "strings":
        annotation = "Mapping[str, str] | None"
    return f"        {name}: {annotation} = ...,\n"


def declaration(name: str, kind: str, need: str, text: str) -> str:
    """The declaration of an attribute, which is also a keyword of the constructor."""
    annotation = format_type(kind, need)
    if kind.startswith("["):
        annotation = f"_Items[{kind[1:-1]}]"
    elif kind == "decimal":
        annotation = "_Number"
    elif kind == "strings":
        annotation = "_Texts"
    default = "" if need == "required" else " = ..."
    return f'    {name}: {annotation}{default}\n    """{textwrap.indent(text, " " * 4).strip()}"""\n'


def model_stub(model: type) -> str:
    """Formats the stub of a model."""
    fields = model.__dealkit_fields__  # type: ignore[attr-defined]
    attributes = "".join(declaration(name, kind, need, text) for name, _, kind, need, _, text in fields)
    changes = "".join(change(name, kind, need) for name, _, kind, need, *_ in fields)
    changes += "        extra: Mapping[str, Any] | None = ...,\n"
    return f'''
@final
class {model.__name__}(_Model):
    """{doc(model, " " * 4)}"""

{attributes}
    def replace(
        self,
        /,
        *,
{changes}    ) -> Self:
        """Returns a copy with new values for the given attributes. From Python 3.13 on, ``copy.replace`` also works."""

    def __replace__(
        self,
        /,
        *,
{changes}    ) -> Self: ...
'''


def roles() -> str:
    """Formats the members of the enum Role, and the type of their names."""
    names = json.loads(CONTRACT.read_text())["components"]["schemas"]["Role"]["enum"]
    members = "".join(f'    {name} = "{name}"\n' for name in names)
    return f"""{members}

RoleName = Literal[{", ".join(f'"{name}"' for name in names)}]
\"""The roles that a request may have, as literal strings. To use any other ``str``, convert it with ``Role(text)``,
which raises ValueError for an unknown role.\"""
"""


def request_schema() -> str:
    """Formats the JSON schemas of a create request's fields, with the names that the fields have in Python."""
    schemas = json.loads(CONTRACT.read_text())["components"]["schemas"]
    # A `$ref` names a schema of openapi.json; pydantic makes references of its own.
    properties = {
        schema: {
            name: {keyword: value for keyword, value in field.items() if keyword != "$ref"}
            for name, field in schemas[schema]["properties"].items()
        }
        for schema in ("CreateAgent", "AgentProfile")
    }
    python_names = {name.replace("_", ""): name for name in AgentProfileParams.__annotations__}
    names = {wire: python_names[wire.lower()] for wire in properties["AgentProfile"]}
    create_agent = properties["CreateAgent"] | {"extra": extra_schema("CreateAgentParams")}
    profile = {names[wire]: field for wire, field in properties["AgentProfile"].items()}
    profile["extra"] = extra_schema("AgentProfileParams")
    examples = [
        {names[wire]: value for wire, value in example.items()} for example in schemas["AgentProfile"]["examples"]
    ]
    assert create_agent.keys() == CreateAgentParams.__annotations__.keys()
    assert profile.keys() == AgentProfileParams.__annotations__.keys()
    data = {"CREATE_AGENT": create_agent, "PROFILE": profile, "PROFILE_EXAMPLES": examples, "PROFILE_NAMES": names}
    types = {"PROFILE_EXAMPLES": "list[dict[str, Any]]", "PROFILE_NAMES": "dict[Any, Any]"}
    return "\n" + "\n".join(
        f"{name}: {types.get(name, 'dict[str, Any]')} = {pprint.pformat(value, width=110, sort_dicts=False)}\n"
        for name, value in data.items()
    )


def extra_schema(class_name: str) -> dict[str, object]:
    """Returns the JSON schema of the key ``extra`` of a class in `params.py`, whose docstring describes it."""
    (definition,) = (
        node
        for node in ast.parse((PACKAGE / "params.py").read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    text = definition.body[-1]
    assert isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    return {"type": "object", "additionalProperties": True, "description": text.value.value}


def main() -> int:
    """Writes or checks the files."""
    is_check = "--check" in sys.argv[1:]
    written = {
        "_native.pyi": "".join(map(model_stub, models())),
        "enums.py": roles(),
        "_models/request_schema.py": request_schema(),
    }
    for name, part in written.items():
        old = (PACKAGE / name).read_text()
        new = "".join(old.partition(MARK)[:2]) + part
        if old != new and is_check:
            print(f"{name} is out of date: run bindings/stubs.py", file=sys.stderr)
            return 1
        if old != new:
            (PACKAGE / name).write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

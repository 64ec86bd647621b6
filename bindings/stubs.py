"""Writes the models in `_native.pyi`, from the fields that the built module lists, and the roles in `enums.py`, from
openapi.json; the rest of both files is written by hand.

    python bindings/stubs.py            # writes them
    python bindings/stubs.py --check    # fails if they are out of date

stubtest compares the whole stub with the module.
"""

import inspect
import json
import sys
import textwrap
from pathlib import Path

# Importing `_models.classes` adds the methods that are Python code.
from dealkit._models import classes
from dealkit._models.fields import format_type

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bindings" / "python" / "dealkit"
CONTRACT = ROOT / "sdk" / "contract" / "openapi.json"

MARK = "# Written by bindings/stubs.py: do not change what follows.\n"


def models() -> list[type]:
    """Returns the models, sorted by name."""
    return sorted(classes.MODELS, key=lambda model: model.__name__)


def doc(annotation: object, indent: str) -> str:
    """A docstring, indented as the code around it."""
    text = inspect.getdoc(annotation)
    if text is None:
        raise SystemExit(f"{annotation} has no docstring")
    return textwrap.indent(text, indent).strip()


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
    return f'''
@final
class {model.__name__}(_Model):
    """{doc(model, " " * 4)}"""

{attributes}'''


def roles() -> str:
    """Formats the members of the enum Role, and the type of their names."""
    names = json.loads(CONTRACT.read_text())["components"]["schemas"]["Role"]["enum"]
    members = "".join(f'    {name} = "{name}"\n' for name in names)
    return f"""{members}

RoleName = Literal[{", ".join(f'"{name}"' for name in names)}]
\"""The roles that a request may have, as literal strings. To use any other ``str``, convert it with ``Role(text)``,
which raises ValueError for an unknown role.\"""
"""


def main() -> int:
    """Writes or checks the files."""
    is_check = "--check" in sys.argv[1:]
    written = {"_native.pyi": "".join(map(model_stub, models())), "enums.py": roles()}
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

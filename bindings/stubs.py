"""Writes the models in `_native.pyi`, from the fields that the built module lists; the rest is written by hand.

    python bindings/stubs.py            # writes them
    python bindings/stubs.py --check    # fails if they are not what would be written

stubtest checks all of it against the module.
"""

import inspect
import sys
import textwrap
from pathlib import Path

# Importing `_models.classes` adds the methods that are Python code.
from dealkit._models import classes
from dealkit._models.types import given_type, read_type

STUB = Path(__file__).parent / "python" / "dealkit" / "_native.pyi"

MARK = "\n# The models, written by bindings/stubs.py from the table of the fields: do not change them here.\n"


def models() -> list[type]:
    """The models, in the order of their names."""
    return sorted(classes.MODELS, key=lambda model: model.__name__)


def doc(of: object, indent: str) -> str:
    """A docstring, indented as the code around it."""
    text = inspect.getdoc(of)
    if text is None:
        raise SystemExit(f"{of} has no docstring")
    return textwrap.indent(text, indent).strip()


def model_stub(model: type) -> str:
    """The stub of one model."""
    fields = model.__dealkit_fields__  # type: ignore[attr-defined]
    arguments = "".join(
        f"        {name}: {given_type(kind, need)}{'' if need == 'required' else ' = None'},\n"
        for name, _, kind, need, _, _ in fields
    )
    attributes = "".join(
        f'    {name}: Final[{read_type(kind, need)}]\n    """{textwrap.indent(text, " " * 4).strip()}"""\n'
        for name, _, kind, need, _, text in fields
    )
    names = ", ".join(f'"{name}"' for name, *_ in fields)
    return f'''
@final
class {model.__name__}(_Model):
    """{doc(model, " " * 4)}"""

    __match_args__: Final = ({names},)

    def __new__(
        cls,
        *,
{arguments}        extra: Mapping[str, object] | None = None,
    ) -> Self: ...
{attributes}'''


def main() -> int:
    """Writes or checks the file."""
    stub = STUB.read_text()
    text = stub.partition(MARK)[0] + MARK + "".join(map(model_stub, models()))
    if "--check" in sys.argv[1:]:
        if stub != text:
            print(f"{STUB.name} is out of date: run bindings/stubs.py", file=sys.stderr)
            return 1
        return 0
    STUB.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

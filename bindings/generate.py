"""Writes `_derived.py`: the resources of `_resources.py` awaited, with the whole response, and both.

    python bindings/generate.py            # writes the file
    python bindings/generate.py --check    # fails if it is not what would be written

A call is stated once, with its types and its documentation; type checkers, `help()` and `inspect` find plain
methods in all four.
"""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "python" / "dealkit"
SOURCE = PACKAGE / "_resources.py"
DERIVED = PACKAGE / "_derived.py"

HEAD = '''"""The calls of each resource awaited, with the whole response, and both.

Written by bindings/generate.py from _resources.py: do not change it here.
"""
'''

# A method, with the decorators before it.
METHOD = re.compile(r"^    (?:@\w+\n    )*def .*?(?=^    (?:@|def )|\Z)", re.DOTALL | re.MULTILINE)


def derived(source: str, is_async: bool, is_raw: bool) -> str:
    """One class of `_resources.py` in another way of calling."""
    name = re.match(r"class (\w+):", source)
    assert name is not None
    client = "AsyncClient" if is_async else "Client"
    of_class = f"{'Async' if is_async else ''}{'Raw' if is_raw else ''}{name[1]}"
    head = METHOD.split(source)[0].replace(f"class {name[1]}:", f"class {of_class}:")
    head = head.replace("``Client.", f"``{client}.with_raw_response." if is_raw else f"``{client}.")
    return head + "".join(method(text, is_async, is_raw) for text in METHOD.findall(source))


def method(text: str, is_async: bool, is_raw: bool) -> str:
    """One method in another way of calling."""
    if "DealIterator" in text:
        if is_raw:
            return ""
        text = text.replace("DealIterator", "AsyncDealIterator") if is_async else text
        return text.replace("as an iterator", "as an async iterator")
    if "_service.send(" not in text:
        return text
    send = f"send{'_raw' if is_raw else ''}{'_async' if is_async else ''}"
    text = text.replace("_service.send(", f"_service.{send}(")
    if is_raw:
        text = re.sub(r"\) -> (\w+):", r") -> RawResponse[\1]:", text, count=1)
    if is_async:
        text = text.replace("    def ", "    async def ", 1).replace("return self.", "return await self.")
    return text


def main() -> int:
    """Writes or checks the file."""
    source = SOURCE.read_text()
    start = source.index("from __future__")
    first = source.index("\nProfile = ")
    imports = source[start:first].replace("import DealIterator", "import AsyncDealIterator")
    imports = imports.replace("import Agent, Deal\n", "import Agent, Deal, RawResponse\n")
    imports = imports.replace("from dealkit._service", "from dealkit._resources import Profile\nfrom dealkit._service")
    imports = imports.replace("Iterable, Mapping", "Iterable").replace(
        "from dealkit.params import AgentProfileParams\n", ""
    )
    classes = re.split(r"^(?=class )", source[first:], flags=re.MULTILINE)[1:]
    text = HEAD + "\n" + imports.rstrip() + "\n"
    for is_async, is_raw in ((True, False), (False, True), (True, True)):
        for one in classes:
            text += "\n\n" + derived(one.rstrip() + "\n", is_async, is_raw).rstrip() + "\n"
    if "--check" in sys.argv[1:]:
        if DERIVED.read_text() != text:
            print(f"{DERIVED.name} is out of date: run bindings/generate.py", file=sys.stderr)
            return 1
        return 0
    DERIVED.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Renders `sdk/contract/openapi.json` as Markdown, at the end of the page `reference/contract`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).parents[2] / "sdk" / "contract" / "openapi.json"
PAGE = "reference/contract"


def resolved(document: Any, node: Any) -> Any:
    """Returns the target of a reference, merged with the members next to the reference."""
    if "$ref" not in node:
        return node
    target: Any = document
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**target, **{name: value for name, value in node.items() if name != "$ref"}}


def kind(schema: Any) -> str:
    """Describes the type of a value, with a link if it is a named schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "oneOf" in schema:
        return " or ".join(map(kind, schema["oneOf"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = []
    for each in kinds:
        if each == "array":
            types.append(f"list of {kind(schema['items'])}")
        elif each == "object" and isinstance(schema.get("additionalProperties"), dict):
            types.append(f"object of {kind(schema['additionalProperties'])}s")
        elif each != "null" and "format" in schema:
            types.append(f"{each} ({schema['format']})")
        else:
            types.append(each)
    return " or ".join(types)


def bounds(schema: Any) -> str:
    if "maxLength" in schema:
        return f"{schema.get('minLength', 0)} to {schema['maxLength']} characters."
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}."
    if "minLength" in schema or "minItems" in schema:
        return "Never empty."
    return ""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    rule = "|".join("---" for _ in heads)
    return ["", f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {' | '.join(map(cell, row))} |" for row in rows), ""]


def examples(content: Any) -> list[str]:
    lines = []
    for media in content.values():
        for example in media.get("examples", {}).values():
            value = json.dumps(example["value"], indent=2, ensure_ascii=False)
            lines += ["", f":::{{dropdown}} {example['summary']}", "```json", *value.split("\n"), "```", ":::"]
    return lines


def operation(document: Any, method: str, path: str, stated: Any) -> list[str]:
    lines = ["", f"## {stated['summary']}", "", f"`{method.upper()} /v1{path}`", "", stated["description"], ""]
    keys = [document["components"]["securitySchemes"][name] for one in stated["security"] for name in one]
    given = [{**key, "required": True} for key in keys]
    given += [resolved(document, parameter) for parameter in stated["parameters"]]
    rows = [
        [f"`{one['name']}`", one["in"], "yes" if one["required"] else "", one.get("description", "")] for one in given
    ]
    lines += ["**Parameters**", *table(["name", "in", "required", "what it says"], rows)]
    if body := stated.get("requestBody"):
        schemas = ", ".join(kind(media["schema"]) for media in body["content"].values())
        lines += [f"**Body**: {schemas}. {body['description']}", *examples(body["content"]), ""]
    rows, shown = [], []
    for status, response in stated["responses"].items():
        response = resolved(document, response)
        schemas = ", ".join(kind(media["schema"]) for media in response.get("content", {}).values())
        rows.append([status, response["description"], schemas])
        shown += examples(response.get("content", {})) if status.startswith("2") else []
    return [*lines, "**Responses**", *table(["status", "when", "body"], rows), *shown]


def schema(name: str, stated: Any) -> list[str]:
    lines = ["", f"### {name}", "", stated.get("description", ""), ""]
    if "enum" in stated:
        lines += ["One of " + ", ".join(f"`{value}`" for value in stated["enum"]) + ".", ""]
    if "properties" not in stated:
        return lines
    required = stated.get("required", [])
    rows = []
    for field, of in stated["properties"].items():
        example = of.get("examples", [])[:1]
        notes = [
            bounds(of),
            of.get("description", ""),
            *(f"`{json.dumps(one, ensure_ascii=False)}`" for one in example),
        ]
        rows.append([f"`{field}`", kind(of), "yes" if field in required else "", " ".join(filter(None, notes))])
    return [*lines, *table(["field", "type", "required", "what it says"], rows)]


def markdown(document: Any) -> str:
    lines = [document["info"]["description"]]
    for path, stated in document["paths"].items():
        for method, of in stated.items():
            lines += operation(document, method, path, of)
    lines += ["", "## Schemas", ""]
    for name, of in document["components"]["schemas"].items():
        lines += schema(name, of)
    return "\n".join(lines) + "\n"


def write(_app: Any, page: str, source: list[str]) -> None:
    if page == PAGE:
        source[0] += "\n" + markdown(json.loads(CONTRACT.read_text("utf-8")))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True}

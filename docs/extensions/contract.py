"""Renders `sdk/contract/openapi.json` as Markdown, at the end of the page `reference/contract`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).parents[2] / "sdk" / "contract" / "openapi.json"
PAGE = "reference/contract"


def resolve_reference(document: Any, node: Any) -> Any:
    """Returns the target of a reference, merged with the members next to the reference."""
    if "$ref" not in node:
        return node
    target: Any = document
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**target, **{name: value for name, value in node.items() if name != "$ref"}}


def describe_type(schema: Any) -> str:
    """Describes the type of a value, with a link if it is a named schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "oneOf" in schema:
        return " or ".join(map(describe_type, schema["oneOf"]))
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    types = []
    for each in kinds:
        if each == "array":
            types.append(f"list of {describe_type(schema['items'])}")
        elif each == "object" and isinstance(schema.get("additionalProperties"), dict):
            types.append(f"object of {describe_type(schema['additionalProperties'])}s")
        elif each != "null" and "format" in schema:
            types.append(f"{each} ({schema['format']})")
        else:
            types.append(each)
    return " or ".join(types)


def describe_bounds(schema: Any) -> str:
    if "maxLength" in schema:
        return f"{schema.get('minLength', 0)} to {schema['maxLength']} characters."
    if "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}."
    if "minLength" in schema or "minItems" in schema:
        return "Never empty."
    return ""


def format_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def format_table(heads: list[str], rows: list[list[str]]) -> list[str]:
    rule = "|".join("---" for _ in heads)
    return [
        "",
        f"| {' | '.join(heads)} |",
        f"|{rule}|",
        *(f"| {' | '.join(map(format_cell, row))} |" for row in rows),
        "",
    ]


def format_examples(content: Any) -> list[str]:
    lines = []
    for media in content.values():
        for example in media.get("examples", {}).values():
            value = json.dumps(example["value"], indent=2, ensure_ascii=False)
            lines += ["", f":::{{dropdown}} {example['summary']}", "```json", *value.split("\n"), "```", ":::"]
    return lines


def format_operation(document: Any, method: str, path: str, stated: Any) -> list[str]:
    lines = ["", f"## {stated['summary']}", "", f"`{method.upper()} /v1{path}`", "", stated["description"], ""]
    keys = [document["components"]["securitySchemes"][name] for one in stated["security"] for name in one]
    given = [{**key, "required": True} for key in keys]
    given += [resolve_reference(document, parameter) for parameter in stated["parameters"]]
    rows = [
        [f"`{one['name']}`", one["in"], "yes" if one["required"] else "", one.get("description", "")] for one in given
    ]
    lines += ["**Parameters**", *format_table(["name", "in", "required", "what it says"], rows)]
    if body := stated.get("requestBody"):
        schemas = ", ".join(describe_type(media["schema"]) for media in body["content"].values())
        lines += [f"**Body**: {schemas}. {body['description']}", *format_examples(body["content"]), ""]
    rows, shown = [], []
    for status, response in stated["responses"].items():
        response = resolve_reference(document, response)
        schemas = ", ".join(describe_type(media["schema"]) for media in response.get("content", {}).values())
        rows.append([status, response["description"], schemas])
        shown += format_examples(response.get("content", {})) if status.startswith("2") else []
    return [*lines, "**Responses**", *format_table(["status", "when", "body"], rows), *shown]


def format_schema(name: str, stated: Any) -> list[str]:
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
            describe_bounds(of),
            of.get("description", ""),
            *(f"`{json.dumps(one, ensure_ascii=False)}`" for one in example),
        ]
        rows.append(
            [f"`{field}`", describe_type(of), "yes" if field in required else "", " ".join(filter(None, notes))]
        )
    return [*lines, *format_table(["field", "type", "required", "what it says"], rows)]


def render_markdown(document: Any) -> str:
    lines = [document["info"]["description"]]
    for path, stated in document["paths"].items():
        for method, of in stated.items():
            lines += format_operation(document, method, path, of)
    lines += ["", "## Schemas", ""]
    for name, of in document["components"]["schemas"].items():
        lines += format_schema(name, of)
    return "\n".join(lines) + "\n"


def write(_app: Any, page: str, source: list[str]) -> None:
    if page == PAGE:
        source[0] += "\n" + render_markdown(json.loads(CONTRACT.read_text("utf-8")))


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", write)
    return {"parallel_read_safe": True}

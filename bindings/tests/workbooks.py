"""Excel workbooks as several programs write them, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import openpyxl

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def create_workbook() -> Any:
    """Returns a workbook with one sheet, without types: openpyxl's types allow for a workbook without sheets."""
    return openpyxl.Workbook()


def load_sheet(path: Path) -> Any:
    """Returns the active sheet of a workbook. Its attribute `parent` is the workbook."""
    return openpyxl.load_workbook(path).active


def write_raw_workbook(path: Path, sheet: str, shared_strings: str = "", **other_parts: str | None) -> None:
    """Writes a workbook from the XML inside its only sheet's root element, which need not be what openpyxl would write.

    `other_parts` are further parts of the package, or replacements, by the last part of their path without extension.
    None omits a part.
    """
    parts: dict[str, str | None] = {
        "[Content_Types].xml": f"""<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>
            <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
            <Override PartName="/xl/workbook.xml" ContentType="{_SHEET_TYPE}.sheet.main+xml"/>
            <Override PartName="/xl/sharedStrings.xml" ContentType="{_SHEET_TYPE}.sharedStrings+xml"/>
            <Override PartName="/xl/worksheets/agents.xml" ContentType="{_SHEET_TYPE}.worksheet+xml"/></Types>""",
        "_rels/.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r" Type="{RELATIONSHIPS}/officeDocument"
            Target="xl/workbook.xml"/></Relationships>""",
        "xl/workbook.xml": f"""<workbook xmlns="{MAIN}" xmlns:r="{RELATIONSHIPS}"><sheets><sheet name="Agents" sheetId="1" r:id="s"/>
            </sheets></workbook>""",
        # Google Sheets writes relative paths, other programs absolute ones.
        "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="s"
            Type="{RELATIONSHIPS}/worksheet" Target="/xl/worksheets/agents.xml"/></Relationships>""",
        "xl/sharedStrings.xml": f'<sst xmlns="{MAIN}">{shared_strings}</sst>',
        "xl/worksheets/agents.xml": f'<worksheet xmlns="{MAIN}">{sheet}</worksheet>',
    }
    name_by_stem = {name.rpartition("/")[2].partition(".")[0]: name for name in parts}
    parts |= {name_by_stem.get(stem, f"xl/{stem}.xml"): content for stem, content in other_parts.items()}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            if content is not None:
                archive.writestr(name, content)


def inline_row(*texts: str) -> str:
    """Returns a row of inline strings without positions, as some programs write it."""
    cells = (f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>' for text in texts)
    return f"<row>{''.join(cells)}</row>"

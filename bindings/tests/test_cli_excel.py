"""Excel workbooks as input and output of `dealkit`."""

from __future__ import annotations

import gc
import io
import json
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from commands import CommandResult, Terminal, run_command
from openpyxl.chart import BarChart
from openpyxl.utils.datetime import CALENDAR_MAC_1904
from workbooks import MAIN, create_workbook, inline_row, load_sheet, write_raw_workbook

from dealkit._cli import excel_files, excel_survey, excel_tables
from dealkit._cli.excel_tables import MAX_CELL_TEXT, is_workbook, read_sheet, write_workbook
from dealkit._cli.exit_codes import CommandError
from dealkit.testing import Sandbox

# The beginning of a file in the format of Excel before 2007.
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agents.xlsx"


def read_cells(path: Path, sheet: str | None = None) -> list[list[str]]:
    return [row.cells for row in read_sheet(path, sheet).rows]


def read_error(path: Path, sheet: str | None = None) -> str:
    """Returns the error of reading a workbook, without the file's name."""
    assert is_workbook(path)
    with pytest.raises(CommandError) as error:
        read_cells(path, sheet)
    return str(error.value).removeprefix(str(path)).lstrip(":, ")


def save_sheet(path: Path, rows: list[list[Any]], formats: dict[str, str] | None = None) -> None:
    """Writes a workbook, with the number formats of some cells."""
    workbook = create_workbook()
    workbook.active.title = "Agents"
    for row in rows:
        workbook.active.append(row)
    for cell, number_format in (formats or {}).items():
        workbook.active[cell].number_format = number_format
    workbook.save(path)


@pytest.mark.parametrize(
    ("value", "number_format", "expected"),
    [
        ("007", "@", "007"),
        ("  spaces ", "General", "spaces"),
        ("a\nb", "General", "a\nb"),
        (7, "General", "7"),
        (7.0, "General", "7"),
        (1234567890123456, "General", "1234567890123456"),
        (1e15, "0.00E+00", "1000000000000000"),
        (1.5, "0.00", "1.5"),
        (0.1 + 0.2, "General", "0.3"),
        (1e-7, "General", "0.0000001"),
        (0.5, "0%", "0.5"),
        (-5, "00000", "-5"),
        # Excel displays these digits, and writes them to a CSV file.
        (401, "00000", "00401"),
        (123456, "00000", "123456"),
        (49301234567, '"+"0', "+49301234567"),
        (49301234567, "\\+0", "+49301234567"),
        (301234567, "(000) 000-0000", "(030) 123-4567"),
        (42, '"AG-"0000', "AG-0042"),
        (1234, "#,##0", "1234"),
        (1234, '0.00 "USD"', "1234"),
        (5551234567, "[<=9999999]###-####;(###) ###-####", "5551234567"),
        (True, "General", "TRUE"),
        (False, "General", "FALSE"),
        ("#N/A", "General", "#N/A"),
        (date(1990, 12, 31), "dd.mm.yyyy", "1990-12-31"),
        (datetime(1990, 12, 31), "yyyy-mm-dd hh:mm", "1990-12-31"),
        (datetime(1990, 12, 31, 13, 5), "yyyy-mm-dd hh:mm", "1990-12-31T13:05:00"),
        (33238, "[$-407]d. mmmm yyyy", "1990-12-31"),
        (33238, "General", "33238"),
        (10**8, "yyyy-mm-dd", "#VALUE!"),
        (time(13, 5), "hh:mm", "13:05:00"),
        (timedelta(hours=30, minutes=5), "[h]:mm", "30:05:00"),
    ],
)
def test_a_cell_becomes_text(value: Any, number_format: str, expected: str, path: Path) -> None:
    save_sheet(path, [[value]], {"A1": number_format})
    assert read_cells(path) == [[expected]]


def test_rows_have_the_numbers_of_the_sheet(path: Path) -> None:
    save_sheet(path, [[], ["Email", None, "Name", None], [None, " "], [], [None, "b"]])
    sheet = read_sheet(path, None)
    assert (sheet.name, sheet.notes) == ("Agents", [])
    assert [*sheet.rows] == [(2, ["Email", "", "Name"]), (5, ["", "b"])]


def test_dates_counted_from_1904(path: Path) -> None:
    workbook = create_workbook()
    workbook.epoch = CALENDAR_MAC_1904
    workbook.active.append([date(1990, 12, 31)])
    workbook.save(path)
    sheet = read_sheet(path, None)
    assert [*sheet.rows] == [(1, ["1990-12-31"])] and "counts days from 1904" in sheet.notes[0]


def test_workbooks_of_other_programs(path: Path) -> None:
    # Without positions and dimension.
    write_raw_workbook(path, f"<sheetData>{inline_row(' Email ', 'ZIP')}{inline_row('', '05401')}</sheetData>")
    assert [*read_sheet(path, None).rows] == [(1, ["Email", "ZIP"]), (2, ["", "05401"])]
    # With a wrong dimension, and gaps.
    rows = '<row r="3"><c r="C3" t="inlineStr"><is><t>x</t></is></c></row><row r="5"><c r="A5"><v>1</v></c></row>'
    write_raw_workbook(path, f'<dimension ref="A1"/><sheetData>{rows}</sheetData>')
    assert [*read_sheet(path, None).rows] == [(3, ["", "", "x"]), (5, ["1"])]
    # With a format that does not exist, and an empty one.
    write_raw_workbook(path, '<sheetData><row><c s="9"><v>1</v></c><c s=""><v>2</v></c></row></sheetData>')
    assert read_cells(path) == [["1", "2"]]
    # Rich text without its phonetic form, and escapes, in shared strings.
    strings = (
        "<si><r><t>Ad</t></r><r><rPr><b/></rPr><t>a</t></r></si>"
        "<si><t>東京</t><rPh sb='0' eb='2'><t>トウキョウ</t></rPh></si><si><t>a_x000D_\nb_xD800_</t></si>"
    )
    cells = "".join(f'<c t="s"><v>{index}</v></c>' for index in range(3))
    write_raw_workbook(path, f"<sheetData><row>{cells}</row></sheetData>", strings)
    assert read_cells(path) == [["Ada", "東京", "a\r\nb\ufffd"]]
    # With a prefix for the namespace, and digits in an exponent.
    sheet = f'<x:worksheet xmlns:x="{MAIN}"><x:sheetData><x:row><x:c><x:v>1.2E+3</x:v></x:c></x:row></x:sheetData></x:worksheet>'
    write_raw_workbook(path, "", agents=sheet)
    assert read_cells(path) == [["1200"]]


def test_formulas_have_their_saved_results(path: Path) -> None:
    results = (
        '<c t="str"><f>A1</f><v>text</v></c><c t="str"><f>A1</f><v></v></c><c><f>1+1</f><v>2</v></c>'
        '<c t="e"><f>1/0</f><v>#DIV/0!</v></c><c t="b"><f>TRUE()</f><v>1</v></c>'
    )
    write_raw_workbook(path, f"<sheetData><row>{results}</row></sheetData>")
    assert read_cells(path) == [["text", "", "2", "#DIV/0!", "TRUE"]]
    save_sheet(path, [["Email", "Age"], ["a@example.com", "=1+1"], ["b@example.com", "=1+2"]])
    assert read_error(path) == (
        'sheet "Agents": the result of formulas is not saved in the file: cells B2, B3. Open the file in Excel or LibreOffice, '
        "save it, and run the command again"
    )
    save_sheet(path, [["=1+1"]])
    assert "the result of a formula is not saved in the file: cell A1. " in read_error(path)


def test_hidden_rows_and_columns_are_read_and_reported(path: Path) -> None:
    workbook = create_workbook()
    sheet = workbook.active
    for number in range(12):
        sheet.append(["x", number, "y"])
    for row in (4, 5, 6, 9, 12, 20):
        sheet.row_dimensions[row].hidden = True
    sheet.column_dimensions["B"].hidden = sheet.column_dimensions["F"].hidden = True
    workbook.save(path)
    found = read_sheet(path, None)
    assert len([*found.rows]) == 12
    assert found.notes == [
        "5 hidden or filtered rows are included: rows 4-6, 9, 12.",
        "1 hidden column is included: column B.",
    ]


def test_merged_cells_in_titles_have_no_note(path: Path) -> None:
    workbook = create_workbook()
    sheet = workbook.active
    for row in (
        ["Roster 2026"],
        ["North region"],
        ["Person", None, "Office"],
        ["First", "Last", "Name"],
        ["Ada", "L", "North"],
    ):
        sheet.append(row)
    for cells in ("A1:C1", "A2:C2"):
        sheet.merge_cells(cells)
    workbook.save(path)
    assert read_sheet(path, None).notes == []
    sheet.merge_cells("A3:B3")
    workbook.save(path)
    assert read_sheet(path, None).notes == [
        "The value of cells that are merged over several columns counts for the first column: A3:B3."
    ]


def test_merged_cells(path: Path) -> None:
    """A value counts for every row of its cells, and only for the first column."""
    workbook = create_workbook()
    sheet = workbook.active
    for row in (
        ["Roster 2026", None, None],
        ["Office", "Name", "Phone"],
        ["North", "Ada", "1"],
        [None, "Grace", "2"],
        [None, "Alan", "3"],
        ["South", "Kurt", "4"],
        # All cells of two rows are merged in pairs, so these are one row.
        [None, None, None],
        ["x", "y"],
    ):
        sheet.append(row)
    for cells in ("A1:C1", "A3:A5", "A6:A7", "B6:B7", "C6:C7"):
        sheet.merge_cells(cells)
    workbook.save(path)
    found = read_sheet(path, None)
    assert [*found.rows] == [
        (1, ["Roster 2026"]),
        (2, ["Office", "Name", "Phone"]),
        (3, ["North", "Ada", "1"]),
        (4, ["North", "Grace", "2"]),
        (5, ["North", "Alan", "3"]),
        (6, ["South", "Kurt", "4"]),
        (8, ["x", "y"]),
    ]
    assert found.notes == [
        "The value of cells that are merged over several rows counts for each of these rows: A3:A5, A6:A7, B6:B7 and 1 more.",
    ]
    # Excel does not display the value of a covered cell.
    covered = "<sheetData><row><c><v>1</v></c><c><v>2</v></c></row></sheetData>"
    write_raw_workbook(path, covered + '<mergeCells><mergeCell ref="A1:B1"/></mergeCells>')
    assert read_cells(path) == [["1"]]


def test_a_header_of_two_rows_with_merged_cells(path: Path) -> None:
    workbook = create_workbook()
    for row in (
        ["Email", "Given", "Family", "Phone"],
        [None, "name", "name", None],
        ["ada@example.com", "Ada", "Lovelace", "+15550100"],
    ):
        workbook.active.append(row)
    workbook.active.merge_cells("A1:A2")
    workbook.active.merge_cells("D1:D2")
    workbook.save(path)
    completed = run_command("agents", "import", path.name, "--dry-run", cwd=path.parent)
    assert completed.code == 0, completed
    assert re.findall(r"^  (email|first_name|last_name|phone) +(.*)$", completed.stdout, re.MULTILINE) == [
        ("email", "ada@example.com"),
        ("first_name", "Ada"),
        ("last_name", "Lovelace"),
        ("phone", "+15550100"),
    ]


def test_numbers_with_more_digits_than_excel_stores(path: Path) -> None:
    rows = (
        "<row><c><v>1234567890123456</v></c><c><v>1.23456789012345E+17</v></c><c><v>0.30000000000000004</v></c></row>"
    )
    write_raw_workbook(path, f"<sheetData>{rows}</sheetData>")
    sheet = read_sheet(path, None)
    assert [*sheet.rows] == [(1, ["1234567890123456", "123456789012345000", "0.3"])]
    assert sheet.notes == [
        "Excel stores only the first 15 digits of a number, and zeros in place of the others. Compare these cells with the "
        "original: A1, B1."
    ]


def test_the_sheet_is_named_or_the_only_visible_one_with_cells(path: Path) -> None:
    workbook = create_workbook()
    workbook.active.title = "Agents 2026"
    workbook.active.append(["Email"])
    workbook.create_sheet("Empty")
    hidden = workbook.create_sheet("Hidden")
    hidden.append(["h"])
    hidden.sheet_state = "hidden"
    workbook.create_chartsheet("Chart").add_chart(BarChart())
    # openpyxl cannot read a chart sheet without a chart.
    workbook.create_chartsheet("No chart")
    workbook.save(path)
    assert read_sheet(path, None).name == "Agents 2026"
    assert read_cells(path, " agents 2026") == [["Email"]] and read_cells(path, "HIDDEN") == [["h"]]
    names = 'Its sheets are: "Agents 2026", "Empty", "Hidden". Name one of them with --sheet'
    assert read_error(path, "Chart") == f'has no sheet "Chart". {names}'
    assert read_error(path, "empty") == 'the sheet "Empty" is empty'
    workbook["Empty"].append(["x"])
    workbook.save(path)
    assert read_error(path) == (
        'has several sheets. Which one has the table? Name it with --sheet, as in --sheet "Agents 2026".\n  Agents 2026\n  Empty'
    )
    workbook.active.sheet_state = workbook["Empty"].sheet_state = "hidden"
    workbook.save(path)
    assert read_error(path).startswith("has no visible sheet with a table. ")


def write_zip(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            OLE + "EncryptedPackage".encode("utf-16-le"),
            "is protected by a password. Open it in Excel, remove the password ",
        ),
        (
            OLE + "Workbook".encode("utf-16-le"),
            "is in the format of Excel before 2007 (.xls). Open it in Excel or LibreOffice",
        ),
        (
            write_zip("mimetype", "content.xml"),
            "is a LibreOffice or OpenDocument file (.ods). Open it in Excel or LibreOffice",
        ),
        (write_zip("[Content_Types].xml", "xl/workbook.bin"), "is in Excel's binary format (.xlsb). Open it in Excel"),
        (write_zip("Index/Document.iwa"), "is a Numbers document (.numbers). Open it in "),
        (write_zip("photo.jpg"), "is a .zip file without a workbook. Open it in "),
        (write_zip("[Content_Types].xml"), "contains errors, or is not a workbook. Open it in "),
        (write_zip("photo.jpg")[:40], "is damaged or incomplete. Copy or download it again"),
        (
            b"\xef\xbb\xbf\r\n<HTML><table>",
            "is a web page or XML, not a workbook; some programs export such files as .xls. Open",
        ),
        (b'<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>', "is a web page or XML, not a workbook; "),
    ],
    ids=["password", "xls", "ods", "xlsb", "numbers", "zip", "no parts", "truncated", "html", "xml"],
)
def test_other_formats_get_advice(content: bytes, expected: str, path: Path) -> None:
    path.write_bytes(content)
    assert read_error(path).startswith(expected)


def test_a_text_table_is_not_a_workbook(path: Path) -> None:
    for content in (b"", b"email;name\n", "é".encode("utf-16")):
        path.write_bytes(content)
        assert not is_workbook(path)
    assert not is_workbook(path.parent) and not is_workbook(path.parent / "nothing")


def test_a_strict_workbook_gets_advice(path: Path) -> None:
    strict = '<workbook xmlns="http://purl.oclc.org/ooxml/spreadsheetml/main"/>'
    write_raw_workbook(path, "<sheetData/>", workbook=strict)
    assert 'save it as "Excel Workbook (.xlsx)"' in read_error(path)


@pytest.mark.parametrize(
    "sheet",
    [
        # openpyxl would skip these rows and cells silently.
        '<row r="2"><c><v>1</v></c></row><row r="1"><c><v>2</v></c></row>',
        '<row r="1"><c r="B1"><v>1</v></c><c r="A1"><v>2</v></c></row>',
        '<row r="1048577"><c><v>1</v></c></row>',
        '<row><c r="XFE1"><v>1</v></c></row>',
        '<row r="x"><c><v>1</v></c></row>',
        "<row><c><v>abc</v></c></row>",
        '<row><c t="s"><v>7</v></c></row>',
        "<row>",
        f"<row><c><v>{'9' * 5000}</v></c></row>",
    ],
)
def test_malformed_sheets_are_rejected(sheet: str, path: Path) -> None:
    write_raw_workbook(path, f"<sheetData>{sheet}</sheetData>")
    assert read_error(path).startswith("contains errors, or is not a workbook. Open it in ")


def test_a_document_type_is_rejected(path: Path) -> None:
    """Entities of a document type could expand without limit."""
    bomb = '<!DOCTYPE sst [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    write_raw_workbook(path, inline_row("x"), sharedStrings=f'{bomb}<sst xmlns="{MAIN}"><si><t>&b;</t></si></sst>')
    assert read_error(path).startswith("contains errors, or is not a workbook. ")
    encoded = f'<?xml version="1.0" encoding="cp037"?><sst xmlns="{MAIN}"/>'.encode("cp037")
    write_raw_workbook(path, inline_row("x"), sharedStrings=encoded)  # type: ignore[arg-type, unused-ignore]
    assert read_error(path).startswith("contains errors, or is not a workbook. ")


def test_a_workbook_that_is_too_large_is_rejected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(expected: str, **limits: int) -> None:
        with monkeypatch.context() as patch:
            for name, limit in limits.items():
                patch.setattr(excel_tables if hasattr(excel_tables, name) else excel_files, name, limit)
            assert expected in read_error(path)

    write_raw_workbook(path, f"<sheetData>{inline_row(*['x'] * 10) * 50}</sheetData>", styles=f"<a>{' ' * 10_000}</a>")
    check("is too large: it is larger than 0 MiB", MAX_INPUT_BYTES=100)
    check("is too large: unpacked, it is larger than 0 MiB", _MAX_UNPACKED_BYTES=1000)
    check("is too large: it has more than 0 MiB of formats", _MAX_PART_BYTES=1000)
    check("is too large: it has too many texts or formats", _MAX_TEXT_TAGS=1)
    check("is too large: it has too many texts or formats", _MAX_PART_TAGS=5)
    check("is too large: a sheet has more than 499 cells", MAX_CELLS=499)
    check("a cell in row 1 has more than 0 characters", MAX_CELL_LENGTH=0)
    # The gap before a cell takes memory as well.
    write_raw_workbook(path, '<sheetData><row><c r="XFD1"><v>1</v></c></row></sheetData>')
    check("is too large: a sheet has more than 1,000 cells", MAX_CELLS=1000)
    # Elements that openpyxl would store, in a row and elsewhere.
    monkeypatch.setattr(excel_survey, "_MAX_ELEMENTS", 50)
    for sheet in (f"<sheetData><row>{'<x/>' * 60}</row></sheetData>", "<x/>" * 60, f"<c>{'<v/>' * 60}</c>"):
        write_raw_workbook(path, sheet)
        check("contains errors, or is not a workbook. ")
    write_raw_workbook(path, f"<sheetData>{inline_row('x', 'y') * 60}</sheetData>")
    assert len(read_cells(path)) == 60


def test_a_workbook_unpacks_to_no_more_than_it_declares(path: Path) -> None:
    write_raw_workbook(path, f"<sheetData>{inline_row('x' * 100_000) * 10}</sheetData>")
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"xl/worksheets/agents.xml") - 46
    assert content[entry : entry + 4] == b"PK\x01\x02"
    content[entry + 24 : entry + 28] = (500).to_bytes(4, "little")
    path.write_bytes(content)
    assert "is damaged or incomplete" in read_error(path)


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    mutated = bytearray(content)
    if rng.random() < 0.3:
        return content[: rng.randrange(len(content))]
    for _ in range(rng.randrange(1, 5)):
        start = rng.randrange(len(mutated))
        inserted = rng.choice(
            [b"", b"9" * 40, b"-1", b"<x>", b"&amp;", b"1E999", b"NaN", b'"', b"A0", bytes([rng.randrange(256)])]
        )
        mutated[start : start + rng.randrange(6)] = inserted
    return bytes(mutated)


def test_damaged_workbooks_have_no_other_error(path: Path, seeded_random: random.Random) -> None:
    save_sheet(
        path, [["Email", "Born", "Fee"], ["a@example.com", date(1990, 1, 2), 1.5], ["b@example.com", True, None]]
    )
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    readable = 0
    for _ in range(1500):
        if seeded_random.random() < 0.4:
            path.write_bytes(mutate_bytes(content, seeded_random))
        else:
            changed = seeded_random.choice([*parts, "xl/worksheets/sheet1.xml"])
            with zipfile.ZipFile(path, "w") as archive:
                for name, part in parts.items():
                    archive.writestr(name, mutate_bytes(part, seeded_random) if name == changed else part)
        try:
            json.dumps(read_cells(path), ensure_ascii=False).encode()
            readable += 1
        except CommandError:
            pass
    assert 0 < readable < 1500


def test_a_written_workbook_has_text_numbers_and_dates(path: Path) -> None:
    rows: list[list[object]] = [
        ["key", "amount", "date", "long"],
        ["=1+1", Decimal("7500.00"), date(2026, 3, 31), "x" * 100],
        ["00123", 7, None, "#N/A"],
        ["a\x0b\x1f\ud800_x000D_\r\n", Decimal("1E+2"), "", " "],
    ]
    with open(path, "wb") as file:
        write_workbook(file, rows)
    sheet = load_sheet(path)
    assert [[(cell.value, cell.data_type, cell.number_format) for cell in row] for row in sheet["A2:C3"]] == [
        [("=1+1", "s", "@"), (7500, "n", "0.00"), (datetime(2026, 3, 31), "d", "yyyy-mm-dd")],
        [("00123", "s", "@"), (7, "n", "0"), (None, "n", "General")],
    ]
    assert all(cell.font.bold for cell in sheet[1]) and not sheet["A2"].font.bold and sheet.freeze_panes == "A2"
    assert [sheet.column_dimensions[letter].width for letter in "ABCD"] == [15, 9, 12, 50]
    assert read_cells(path)[1:] == [
        ["=1+1", "7500", "2026-03-31", "x" * 100],
        ["00123", "7", "", "#N/A"],
        ["a\x0b\x1f\ufffd_x000D_", "100"],
    ]


def test_a_sheet_has_at_most_a_million_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel_tables, "MAX_DATA_ROWS", 2)
    with open(path, "wb") as file, pytest.raises(CommandError, match="at most 2 rows and a header"):
        write_workbook(file, [["id"], [1], [2], [3]])


def test_a_workbook_that_cannot_be_written(path: Path) -> None:
    """The error of the disk or of the rows is raised, without others from openpyxl's generators and archive."""

    def interrupted_rows() -> Iterator[list[str]]:
        yield from [["a"]] * 1000
        raise KeyboardInterrupt

    with open(path, "wb") as file, pytest.raises(KeyboardInterrupt):
        write_workbook(file, interrupted_rows())
    # The device has no space.
    with pytest.raises(OSError, match="No space left on device"), open("/dev/full", "wb", buffering=0) as file:
        write_workbook(file, [["a"]])
    gc.collect()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(generate=5, seed=7) as sandbox:
        yield sandbox


@pytest.fixture
def export(sandbox: Sandbox, tmp_path: Path) -> Callable[..., CommandResult]:
    """Exports deals with the options."""

    def run(*options: str | Path) -> CommandResult:
        return run_command("deals", "export", *options, url=sandbox.url, cwd=tmp_path)

    return run


def test_ids_from_a_workbook(export: Callable[..., CommandResult], sandbox: Sandbox, path: Path) -> None:
    save_sheet(path, [["Name", "Deal ID"], ["x", "g_1"], ["y", None], ["z", "g_2"]])
    workbook = load_sheet(path).parent
    workbook.active.row_dimensions[4].hidden = True
    workbook.save(path)
    completed = export("--ids", "agents.xlsx", "--out", "a.csv")
    note = "dealkit: agents.xlsx: 1 hidden or filtered row is included: row 4.\n"
    assert completed == (0, "2 deals in a.csv\n", note)
    (path.parent / "ids.txt").write_text("g_1\ng_2\ng_3\n")
    completed = export("--ids", "ids.txt", "--exclude-ids", path, "--out", "b.csv")
    assert completed.stdout == "1 deal in b.csv\n"

    workbook.create_sheet("Other").append(["id"])
    workbook.save(path)
    completed = export("--ids", path, "--out", "c.csv")
    assert completed.code == 2 and '--sheet "Agents"' in completed.stderr
    assert export("--ids", path, "--sheet", "agents", "--out", "c.csv").stdout == "2 deals in c.csv\n"
    with Terminal("deals", "export", "--ids", path, "--out", path.with_name("d.csv"), url=sandbox.url) as terminal:
        terminal.wait_for("Enter a number from 1 to 2: ")
        terminal.enter("1\n")
        assert terminal.end() == 0
    assert "  1  Agents\n  2  Other\n" in terminal.screen

    save_sheet(path, [["g_canary"]])
    assert "needs exactly one column named id or deal_id" in export("--ids", path, "--out", "e.csv").stderr
    # A CSV file with the name of a workbook.
    path.write_text("id\ng_1\n")
    assert export("--ids", path, "--out", "e.csv").stdout == "1 deal in e.csv\n"


def test_an_export_to_a_workbook(tmp_path: Path) -> None:
    deals = [
        '{"id": "=1+1", "expiry_date": "2026-03-31", "created_at": "2024-01-01T00:00:00.5Z", "metadata": {"a": "ü"},'
        ' "application": {"id": "00123", "requested_amount": 12500.50}}',
        '{"id": "d_2", "expiry_date": "1900-01-01"}',
        json.dumps({"id": "d_3", "metadata": {"a": "x" * MAX_CELL_TEXT}}),
    ]
    (tmp_path / "ids.txt").write_text("=1+1\nd_2\nd_3\n00404\n")
    with Sandbox(deals) as sandbox:
        command = ["deals", "export", "--ids", "ids.txt", "--out", "o.xlsx"]
        completed = run_command(*command, url=sandbox.url, cwd=tmp_path)
        assert (
            completed.code == 1
            and completed.stderr == ""
            and completed.stdout.startswith("2 of 4 deals are in o.xlsx. ")
        )
        retry_command = "dealkit deals export --ids o.xlsx.failed.xlsx --out o-2.xlsx"
        assert completed.stdout.splitlines()[-1].strip() == retry_command
        completed = run_command(*command, "--overwrite", url=sandbox.url, cwd=tmp_path)
        assert completed.code == 1
        sandbox.clear_requests()
        retried = [*retry_command.split()[1:-1], "o-2.csv"]
        assert run_command(*retried, url=sandbox.url, cwd=tmp_path).stdout == "1 deal in o-2.csv\n"
        assert [request.path for request in sandbox.requests] == ["/v1/deals/d_3"]
        # The export can be the list of ids.
        completed = run_command(*command[:3], "o.xlsx", "--out", "p.ndjson", url=sandbox.url, cwd=tmp_path)
        assert completed.stdout == "2 deals in p.ndjson\n"
        (tmp_path / "o.xlsx").unlink()
        completed = run_command(*command, url=sandbox.url, cwd=tmp_path)
        assert "o.xlsx.failed.xlsx, the list of failed deals of an earlier export, already exists." in completed.stderr
    sheet = load_sheet(tmp_path / "o.xlsx.failed.xlsx")
    assert [[cell.value for cell in row][:4] for row in sheet] == [
        ["id", "kind", "status", "outcome"],
        ["d_3", "decode", None, "succeeded"],
        ["00404", "status", "404", "rejected"],
    ]
    assert sheet["E2"].value == "metadata is too long for a cell of Excel: use .csv or .ndjson"
    save_sheet(tmp_path / "o.xlsx.failed.xlsx", [["mine"]])
    completed = run_command(*command, "--overwrite", url=sandbox.url, cwd=tmp_path)
    assert "o.xlsx.failed.xlsx was not written by dealkit, so it was left unchanged." in completed.stderr


def test_the_cells_of_an_exported_workbook(tmp_path: Path) -> None:
    deal = (
        '{"id": "=1+1", "expiry_date": "2026-03-31", "created_at": "2024-01-01T00:00:00.5Z", "metadata": {"a": "ü"},'
        ' "application": {"id": "00123", "requested_amount": 12500.50, "decisioned_on": "1900-01-01"},'
        ' "listing_contract": {"sale_price": 1234567890123456, "side_split": 50}}'
    )
    (tmp_path / "ids.txt").write_text("=1+1\n")
    with Sandbox([deal]) as sandbox:
        command = ["deals", "export", "--ids", "ids.txt", "--out", "o.xlsx"]
        assert run_command(*command, url=sandbox.url, cwd=tmp_path) == (0, "1 deal in o.xlsx\n", "")
    sheet = load_sheet(tmp_path / "o.xlsx")
    assert {
        name.value: (cell.value, cell.data_type, cell.number_format)
        for name, cell in zip(*sheet, strict=True)
        if cell.value
    } == {
        "id": ("=1+1", "s", "@"),
        "expiry_date": (datetime(2026, 3, 31), "d", "yyyy-mm-dd"),
        "created_at": ("2024-01-01T00:00:00.500000Z", "s", "@"),
        "listing_contract.side_split": (50, "n", "0"),
        # Excel would store only 15 of these digits.
        "listing_contract.sale_price": ("1234567890123456", "s", "@"),
        "application.id": ("00123", "s", "@"),
        # Excel counts days from March 1900 correctly.
        "application.decisioned_on": ("1900-01-01", "s", "@"),
        "application.requested_amount": (12500.5, "n", "0.00"),
        "metadata": ('{"a":"ü"}', "s", "@"),
    }


def test_more_ids_than_rows_of_a_sheet(
    export: Callable[..., CommandResult], sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealkit._cli.export_formats.MAX_DATA_ROWS", 2)
    (tmp_path / "ids.txt").write_text("g_1\ng_2\ng_3\n")
    completed = export("--ids", "ids.txt", "--out", "o.xlsx")
    assert completed.code == 2 and "a sheet of Excel holds at most 2 deals, and there are 3 ids" in completed.stderr
    assert not sandbox.requests


@pytest.mark.parametrize(
    ("name", "character"), [("semicolon", ";"), (";", ";"), ("Tab", "\t"), ("pipe", "|"), ("comma", ",")]
)
def test_the_delimiter_of_an_export(
    name: str, character: str, export: Callable[..., CommandResult], tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("g_1\nnope\ng_2\n")
    assert export("--ids", "ids.txt", "--out", "o.csv", "--delimiter", name).code == 1
    lines = (tmp_path / "o.csv").read_text("utf-8-sig").splitlines()
    assert len(lines) == 3 and lines[0].startswith(f"id{character}status{character}phase{character}")
    failures = (tmp_path / "o.csv.failed.csv").read_text("utf-8-sig")
    assert failures.startswith(f"id{character}kind{character}")
    # dealkit reads both files, and replaces them.
    assert export("--ids", "o.csv", "--out", "p.ndjson").stdout == "2 deals in p.ndjson\n"
    assert "o.csv.failed.csv has no ids to retrieve" in export("--ids", "o.csv.failed.csv", "--out", "q.ndjson").stderr
    assert export("--ids", "ids.txt", "--out", "o.csv", "--overwrite", "--delimiter", name).code == 1


def test_the_delimiter_must_fit_the_format(
    export: Callable[..., CommandResult], sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("g_1\ng_2\n")
    completed = export("--ids", "ids.txt", "--out", "o.csv", "--delimiter", "x")
    assert completed.code == 2 and "--delimiter must be one of comma, semicolon, tab, pipe" in completed.stderr
    completed = export("--ids", "ids.txt", "--out", "o.xlsx", "--delimiter", "tab")
    assert completed.code == 2 and "--delimiter is only for .csv files" in completed.stderr
    assert not sandbox.requests
    # The command for the failures has the same delimiter.
    sandbox.fail_next(status=409, times=1)
    completed = export("--ids", "ids.txt", "--out", "f.csv", "--delimiter", "|")
    assert completed.stdout.endswith("  dealkit deals export --ids f.csv.failed.csv --out f-2.csv --delimiter pipe\n")
    # A stopped export does not continue with another delimiter.
    sandbox.fail_next(status=401, times=None, path="/v1/deals/g_2")
    command = ["--ids", "ids.txt", "--out", "o.csv", "--concurrency", "1"]
    assert "1 deal, in o.csv.part" in export(*command, "--delimiter", "tab").stderr
    assert "or with another --delimiter" in export(*command).stderr
    sandbox.clear_faults()
    assert export(*command, "--delimiter", "tab").stdout == "2 deals in o.csv\n"


def test_without_openpyxl(
    export: Callable[..., CommandResult], sandbox: Sandbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error appears before any request, and names the package to install."""
    save_sheet(path, [["id"], ["g_1"]])
    (path.parent / "ids.txt").write_text("g_1\n")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for options in (["--ids", path, "--out", "o.csv"], ["--ids", "ids.txt", "--out", "o.xlsx"]):
        completed = export(*options)
        assert completed.code == 2 and 'Run: pip install "dealkit[excel]". ' in completed.stderr
    assert not sandbox.requests

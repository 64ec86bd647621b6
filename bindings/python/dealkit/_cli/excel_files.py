"""Excel workbooks as files: recognizes formats that cannot be read, and rejects files that would take too much memory."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile, ZipInfo

from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import MAX_INPUT_BYTES, explain_os_error, file_display_name

MAX_CELLS = 20_000_000
"""The maximum number of cells in a workbook, counted up to the last cell of each row."""

MAX_CELL_LENGTH = 100_000
"""The maximum number of characters in a cell. Excel's own limit is 32,767."""

# The maximum size of a workbook's XML, and of a part of it that is no sheet: the library reads such a part as a whole.
_MAX_XML_BYTES = 1 << 30
_MAX_PART_BYTES = 32 << 20

# Element tags in a workbook, which has up to three elements for each cell. Bounds the time and the memory of reading.
_MAX_TAGS = 8 * MAX_CELLS

_ZIP, _ZIP_EMPTY, _OLE = b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BLOCK_BYTES = 1 << 20

_CONTENT_TYPES = "[Content_Types].xml"
_STRICT_NAMESPACE = "http://purl.oclc.org/ooxml/"
# A part that openpyxl reads piece by piece.
_STREAMED_PARTS = ("worksheet", "sst")

SAVE_ADVICE = "Open it in Excel or LibreOffice, save it as an Excel workbook (.xlsx), and use that file"


def is_workbook(path: Path) -> bool:
    """Returns whether a file is a workbook, judged by its content: one that `read_sheet` reads, or one for which it
    gives advice, such as an .xls or .ods file, a web page or a damaged workbook. Any other file is a text table.
    """
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(512)
    except OSError:
        return False  # reading the table reports the error
    return start.startswith((_ZIP, _ZIP_EMPTY, _OLE)) or _is_markup(start)


def _is_markup(start: bytes) -> bool:
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith((b"<html", b"<!doctype", b"<table", b"<?xml", b"<meta", b"<head"))


def import_openpyxl() -> Any:
    """Imports openpyxl, which is an optional dependency."""
    try:
        import openpyxl  # type: ignore[import-untyped, unused-ignore]
        import openpyxl.reader.excel  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise CommandError(
            'Excel workbooks need openpyxl, which is not installed here. Run: pip install "dealkit[excel]". Or save the '
            'sheet as "CSV UTF-8" in Excel, and use that file'
        ) from None
    # openpyxl warns of content that it does not read, such as data validations, and of invalid dates, which it replaces
    # by #VALUE!.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"openpyxl\b")
    return openpyxl


@contextmanager
def open_package(path: Path) -> Iterator[IO[bytes]]:
    """Opens a workbook, and checks that its format can be read and its content is not too large."""
    with _translate_errors(path), open(path, "rb") as file:
        start = file.read(len(_OLE))
        file.seek(0)
        if start == _OLE:
            raise CommandError(f"{file_display_name(path)} {_describe_ole_file(file)}")
        if not start.startswith((_ZIP, _ZIP_EMPTY)):
            raise CommandError(
                f"{file_display_name(path)} is a web page or XML, not a workbook; some programs export such files as .xls. {SAVE_ADVICE}"
            )
        if file.seek(0, 2) > MAX_INPUT_BYTES:
            raise _too_large(path, f"larger than {MAX_INPUT_BYTES >> 20} MiB")
        file.seek(0)
        with ZipFile(file) as archive:
            _check_parts(path, archive)
        file.seek(0)
        yield file


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raises CommandError in place of any error. openpyxl raises errors of many types for damaged workbooks."""
    try:
        yield
    except CommandError:
        raise
    except OSError as error:
        # openpyxl raises OSError without a reason for a workbook without its main part. A wrong offset in the archive is
        # an invalid argument.
        if error.errno in (None, errno.EINVAL):
            raise damaged_workbook(path) from None
        raise CommandError(f"{file_display_name(path)} cannot be read: {explain_os_error(error)}") from None
    except MemoryError:
        raise _too_large(path, "more than fits into the memory of this computer") from None
    except BadZipFile:
        raise CommandError(
            f"{file_display_name(path)} is damaged or incomplete. Copy or download it again, or open it in Excel, repair it, and "
            "save it"
        ) from None
    except Exception:
        raise damaged_workbook(path) from None


def damaged_workbook(path: Path) -> CommandError:
    return CommandError(f"{file_display_name(path)} contains errors, or is not a workbook. {SAVE_ADVICE}")


def _too_large(path: Path, reason: str) -> CommandError:
    return CommandError(
        f"{file_display_name(path)} is too large: it is {reason}. Is it the right file? If so, split it, or delete the sheets and "
        "columns that are not needed"
    )


def _describe_ole_file(file: IO[bytes]) -> str:
    """Describes a file in the format of Excel before 2007, which also wraps workbooks with a password."""
    encrypted, end = "EncryptedPackage".encode("utf-16-le"), b""
    while block := file.read(_BLOCK_BYTES):
        if encrypted in end + block:
            return (
                "is protected by a password. Open it in Excel, remove the password (File, Info, Protect Workbook, Encrypt with "
                "Password, empty the field), save it, and run the command again"
            )
        end = block[-len(encrypted) :]
    return f"is in the format of Excel before 2007 (.xls). {SAVE_ADVICE}"


def _check_parts(path: Path, archive: ZipFile) -> None:
    names = {*archive.namelist()}
    if kind := _recognize_other_format(names):
        raise CommandError(f"{file_display_name(path)} is {kind}. {SAVE_ADVICE}")
    # zipfile reads no more bytes of a part than the archive's directory says.
    xml_parts = [part for part in archive.infolist() if part.filename.lower().endswith((".xml", ".rels", ".vml"))]
    if sum(part.file_size for part in xml_parts) > _MAX_XML_BYTES:
        raise _too_large(path, f"more than {_MAX_XML_BYTES >> 20} MiB when unpacked")
    tag_count = 0
    for part in xml_parts:
        root = _check_prolog(path, archive, part)
        if root.startswith(_STRICT_NAMESPACE):
            raise CommandError(
                f'{file_display_name(path)} is a "Strict Open XML Spreadsheet". Open it in Excel, save it as "Excel Workbook (.xlsx)", '
                "and use that file"
            )
        if part.file_size > _MAX_PART_BYTES and root.rpartition(" ")[2] not in _STREAMED_PARTS:
            raise _too_large(
                path, f"more than {_MAX_PART_BYTES >> 20} MiB of formats and other content that is no table"
            )
        with archive.open(part) as source:
            while block := source.read(_BLOCK_BYTES):
                tag_count += block.count(b"<")
                if tag_count > _MAX_TAGS:
                    raise _too_large(path, f"more than {MAX_CELLS:,} cells")


def _recognize_other_format(names: set[str]) -> str | None:
    if "xl/workbook.bin" in names:
        return "in Excel's binary format (.xlsb)"
    if any(name.startswith("Index/") and name.endswith(".iwa") for name in names) or "Index.zip" in names:
        return "a Numbers document (.numbers)"
    if "mimetype" in names and "content.xml" in names:
        return "a LibreOffice or OpenDocument file (.ods)"
    return None if _CONTENT_TYPES in names else "a .zip file without a workbook"


def _check_prolog(path: Path, archive: ZipFile, part: ZipInfo) -> str:
    """Returns the name of a part's first element, after its namespace. Rejects XML with a document type, whose entities could
    expand without limit, and XML in an encoding in which tags cannot be counted.
    """
    root = ""
    parser = expat.ParserCreate(namespace_separator=" ")

    def check_encoding(version: str, encoding: str | None, standalone: int) -> None:
        if encoding and encoding.lower() not in ("utf-8", "utf-16", "us-ascii", "iso-8859-1"):
            raise damaged_workbook(path)

    def reject_document_type(*_: object) -> None:
        raise damaged_workbook(path)

    def store_root(name: str, attributes: dict[str, str]) -> None:
        nonlocal root
        root = root or name

    parser.XmlDeclHandler = check_encoding
    parser.StartDoctypeDeclHandler = reject_document_type
    parser.StartElementHandler = store_root
    with archive.open(part) as source:
        while not root and (block := source.read(4096)):
            parser.Parse(block, False)
    return root

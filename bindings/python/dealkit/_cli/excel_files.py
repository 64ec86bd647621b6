"""Excel workbooks as files: recognizes formats that cannot be read, and rejects files that would take too much memory."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Literal
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile, ZipInfo

from dealkit._cli.excel_survey import SheetSurvey, survey_sheet
from dealkit._cli.exit_codes import CommandError
from dealkit._cli.files import MAX_INPUT_BYTES, explain_os_error, file_display_name

MAX_CELLS = 20_000_000
"""The maximum number of cells in a sheet, counted up to the last cell of each row."""

MAX_CELL_LENGTH = 100_000
"""The maximum number of characters in a cell. Excel's own limit is 32,767."""

# The maximum size of all parts of a workbook that are read, and of a part that openpyxl reads as a whole.
_MAX_UNPACKED_BYTES = 1 << 30
_MAX_PART_BYTES = 32 << 20

# The maximum number of tags in a table of texts, which has four for each text, and in a part that openpyxl reads as a whole.
_MAX_TEXT_TAGS = 4 * 5_000_000
_MAX_PART_TAGS = 2_000_000

_ZIP, _ZIP_EMPTY, _OLE = b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BLOCK_BYTES = 1 << 20

_CONTENT_TYPES = "[Content_Types].xml"
_STRICT_NAMESPACE = "http://purl.oclc.org/ooxml/"
_MAIN_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SHEET_ROOT, _TEXTS_ROOT = f"{_MAIN_NAMESPACE} worksheet", f"{_MAIN_NAMESPACE} sst"

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


def is_workbook_name(path: Path) -> bool:
    """Returns whether a file to be written is a workbook, judged by its name."""
    return path.suffix.lower() == ".xlsx"


def can_write_workbooks() -> bool:
    """Returns whether openpyxl, which is an optional dependency, is installed."""
    return find_spec("openpyxl") is not None


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


class CheckedArchive(ZipFile):
    """The archive of a workbook. It checks each part before it is read for the first time, so that no part takes too much
    memory. zipfile itself reads no more bytes of a part than the archive's directory says.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        super().__init__(file)
        self.surveys: dict[str, SheetSurvey] = {}
        """The surveys of the sheets that have been opened, by the name of the part."""
        self._path = path
        self._checked_parts: set[str] = set()
        self._checked_bytes = 0

    def open(
        self,
        name: str | ZipInfo,
        mode: Literal["r", "w"] = "r",
        pwd: bytes | None = None,
        *,
        force_zip64: bool = False,
    ) -> IO[bytes]:
        part = name if isinstance(name, ZipInfo) else self.getinfo(name)
        if part.filename not in self._checked_parts:
            self._checked_parts.add(part.filename)
            self._check(part)
        return super().open(part, mode, pwd, force_zip64=force_zip64)

    def read(self, name: str | ZipInfo, pwd: bytes | None = None) -> bytes:
        part = name if isinstance(name, ZipInfo) else self.getinfo(name)
        if part.file_size > _MAX_PART_BYTES:
            raise self._too_large(f"it has more than {_MAX_PART_BYTES >> 20} MiB of formats")
        return super().read(part, pwd)

    def _check(self, part: ZipInfo) -> None:
        self._checked_bytes += part.file_size
        if self._checked_bytes > _MAX_UNPACKED_BYTES:
            raise self._too_large(f"unpacked, it is larger than {_MAX_UNPACKED_BYTES >> 20} MiB")
        with super().open(part) as source:
            root = self._check_prolog(source)
        if root.startswith(_STRICT_NAMESPACE):
            raise CommandError(
                f'{file_display_name(self._path)} is a "Strict Open XML Spreadsheet". Open it in Excel, save it as "Excel Workbook '
                '(.xlsx)", and use that file'
            )
        with super().open(part) as source:
            if root == _SHEET_ROOT:
                self.surveys[part.filename] = survey = survey_sheet(source, MAX_CELLS)
                if survey.cell_count > MAX_CELLS:
                    raise self._too_large(f"a sheet has more than {MAX_CELLS:,} cells")
                return
            remaining_tags = _MAX_TEXT_TAGS if root == _TEXTS_ROOT else _MAX_PART_TAGS
            while block := source.read(_BLOCK_BYTES):
                remaining_tags -= block.count(b"<")
                if remaining_tags < 0:
                    raise self._too_large("it has too many texts or formats")

    def _check_prolog(self, source: IO[bytes]) -> str:
        """Returns the name of a part's first element, after its namespace. Rejects XML with a document type, whose entities
        could expand without limit, and XML in an encoding in which tags cannot be counted.
        """
        root = ""
        parser = expat.ParserCreate(namespace_separator=" ")

        def check_encoding(version: str, encoding: str | None, standalone: int) -> None:
            if encoding and encoding.lower() not in ("utf-8", "utf-16", "us-ascii", "iso-8859-1"):
                raise damaged_workbook(self._path)

        def reject_document_type(*_: object) -> None:
            raise damaged_workbook(self._path)

        def store_root(name: str, attributes: dict[str, str]) -> None:
            nonlocal root
            root = root or name

        parser.XmlDeclHandler = check_encoding
        parser.StartDoctypeDeclHandler = reject_document_type
        parser.StartElementHandler = store_root
        while not root and (block := source.read(4096)):
            parser.Parse(block, False)
        return root

    def _too_large(self, reason: str) -> CommandError:
        return _too_large(self._path, reason)


@contextmanager
def open_archive(path: Path) -> Iterator[CheckedArchive]:
    """Opens a workbook, and checks that its format can be read."""
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
            raise _too_large(path, f"it is larger than {MAX_INPUT_BYTES >> 20} MiB")
        with CheckedArchive(path, file) as archive:
            if kind := _recognize_other_format({*archive.namelist()}):
                raise CommandError(f"{file_display_name(path)} is {kind}. {SAVE_ADVICE}")
            yield archive


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
        raise _too_large(path, "it does not fit into the memory of this computer") from None
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
        f"{file_display_name(path)} is too large: {reason}. Is it the right file? If so, split it, or delete the sheets and "
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


def _recognize_other_format(names: set[str]) -> str | None:
    if "xl/workbook.bin" in names:
        return "in Excel's binary format (.xlsb)"
    if any(name.startswith("Index/") and name.endswith(".iwa") for name in names) or "Index.zip" in names:
        return "a Numbers document (.numbers)"
    if "mimetype" in names and "content.xml" in names:
        return "a LibreOffice or OpenDocument file (.ods)"
    return None if _CONTENT_TYPES in names else "a .zip file without a workbook"

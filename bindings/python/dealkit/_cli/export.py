"""`dealkit deals export`: many deals into a file, and those that could not be retrieved into another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO

from dealkit import APIStatusError, AuthenticationError, Client, DealkitError
from dealkit._cli.advice import OF_THE_SERVICE, code_of, explanation, in_words
from dealkit._cli.connection import address, connect
from dealkit._cli.exits import DONE, INCOMPLETE, INTERRUPTED, UNWRITABLE, Failed
from dealkit._cli.files import STANDARD_INPUT, is_there, named, refuse_inputs
from dealkit._cli.ids import read_ids
from dealkit._cli.part import Part, Write, failed_of, part_of
from dealkit._cli.screen import Progress, command_line, counted, safe, say, tell

# After this many consecutive failures that would be the same for any deal, or twice as many as are in flight, the
# service is considered to be out of order.
_IN_A_ROW = 25


def run(options: Namespace) -> int:
    """Retrieves the deals and writes the file, or resumes where an earlier run stopped."""
    out = Path(options.out)
    write = _writer_of(out)
    if is_there(out) and not options.overwrite:
        raise Failed(f"{named(out)} exists; choose another name, or replace it with --overwrite")
    refuse_inputs([out, part_of(out), failed_of(out)], [options.ids, options.ca_file, options.client_cert])
    found = read_ids(options.ids)
    if found.column not in (None, "id"):
        tell(f"reading the ids from the column {safe(found.column or '')}")
    with connect(options) as client, _part(out, found.ids, options) as part:
        if found.duplicates:
            tell(f"{counted(found.duplicates, 'repeated id')} skipped: each deal is retrieved once")
        if part.done:
            failed = f", of which {part.failed:,} could not be retrieved" if part.failed else ""
            so_far = f"{part.done:,} of {counted(len(found.ids), 'deal')} are done{failed}"
            tell(f"resuming where the last run stopped: {so_far}")
        try:
            _retrieve(client, found.ids, part, options.concurrency)
            part.complete(write)
        except KeyboardInterrupt as interrupt:
            raise Failed("stopped" + _left(part, options), INTERRUPTED) from interrupt
        except DealkitError as error:
            raise Failed(explanation(error) + _left(part, options), code_of(error)) from error
        except OSError as error:
            raise _unwritable(out, error, _left(part, options)) from error
    return _sum_up(out, len(found.ids), part.failed)


def _writer_of(out: Path) -> Write:
    """What writes the kind of file that the extension of its name asks for."""
    match out.suffix.lower():
        case ".ndjson":
            return _write_lines
        case ".csv":
            from dealkit._cli.flat import write

            return write
        case ".parquet":
            from dealkit._cli.parquet import writer

            return writer()
    raise Failed("--out must end in .ndjson or .csv or .parquet, which selects the format")


def _write_lines(file: IO[bytes], deals: Iterator[tuple[int, bytes]]) -> dict[int, list[str]]:
    file.writelines(deal + b"\n" for _, deal in deals)
    return {}


def _part(out: Path, ids: list[str], options: Namespace) -> Part:
    try:
        return Part(out, ids, address(options), restart=options.restart, overwrite=options.overwrite)
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: OSError, left: str = "") -> Failed:
    return Failed(f"{named(out)} cannot be written: {error.strerror or error}{left}", UNWRITABLE)


def _retrieve(client: Client, ids: list[str], part: Part, concurrency: int) -> None:
    """Retrieves the deals that have not come yet, in order, so that a single number records the progress."""
    progress = Progress("deal", len(ids), part.done, part.failed)
    # Consecutive failures that no single deal is to blame for. They are recorded once anything else comes.
    in_a_row: list[DealkitError] = []
    has_service = part.done > 0

    def add(come: list[DealkitError]) -> None:
        for error in come:
            status = str(error.status_code) if isinstance(error, APIStatusError) else ""
            part.add_failed([part.next_id(), error.kind, status, error.outcome, in_words(error)])
            progress.advance(failed=True)
        come.clear()

    try:
        left = ids[part.done :]
        with client.deals.retrieve_many(left, concurrency=concurrency, on_error="return") as deals:
            for deal in deals:
                if not isinstance(deal, DealkitError):
                    has_service = True
                    add(in_a_row)
                    part.add(deal.to_json())
                    progress.advance()
                elif isinstance(deal, AuthenticationError):
                    raise deal
                elif _is_of_service(deal):
                    in_a_row.append(deal)
                    if len(in_a_row) >= max(_IN_A_ROW, 2 * concurrency):
                        tell(f"{len(in_a_row)} calls in a row have failed; stopped after the last of them")
                        raise deal
                else:
                    has_service = True
                    add(in_a_row)
                    add([deal])
        if in_a_row and not has_service:
            raise in_a_row[0]
        add(in_a_row)
    finally:
        progress.end()


def _is_of_service(error: DealkitError) -> bool:
    """Whether an error is likely to be the same for every deal, and to be temporary."""
    # A response that is too large did arrive, and concerns only its own deal.
    return isinstance(error, OF_THE_SERVICE) and error.outcome != "succeeded"


def _sum_up(out: Path, total: int, failed: int) -> int:
    if not failed:
        say(f"{counted(total, 'deal')} in {named(out)}")
        return DONE
    say(f"{total - failed:,} of {counted(total, 'deal')} in {named(out)}")
    say(
        f"{failed:,} could not be retrieved; {named(failed_of(out))} says why. Once that is fixed, this retrieves them into "
        "another file:"
    )
    others = (out.with_name(f"{out.stem}-{number}{out.suffix}") for number in count(2))
    again = next(other for other in others if not other.exists())
    say(f"  {command_line(['deals', 'export', '--ids', str(failed_of(out)), '--out', str(again)])}")
    return INCOMPLETE


def _left(part: Part, options: Namespace) -> str:
    """What a stopped export leaves behind, and how to resume it."""
    try:
        part.save()
    except OSError:
        pass  # What was saved before counts.
    if not part.done:
        part.discard()
        return ""
    arguments = [argument for argument in options.arguments if argument != "--restart"]
    same_ids = ", with the same ids" if options.ids == STANDARD_INPUT else ""
    failed = f", and {part.failed:,} that could not be retrieved" if part.failed else ""
    kept = f"{counted(part.done - part.failed, 'deal')}{failed}, in {named(part_of(Path(options.out)))}"
    return f"\nKept: {kept}. To continue, run the same command again{same_ids}:\n  {command_line(arguments)}"

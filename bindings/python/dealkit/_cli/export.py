"""`dealkit deals export`: many deals into a file, and those that could not be retrieved into another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

from dealkit._cli import flat
from dealkit._cli.advice import code_of, explanation, in_words
from dealkit._cli.connection import address, connect
from dealkit._cli.exits import DONE, INCOMPLETE, UNWRITABLE, Failed, Interrupted
from dealkit._cli.forms import form_of
from dealkit._cli.ids import STANDARD_INPUT, read_ids
from dealkit._cli.part import Part, Position, failed_of, part_of
from dealkit._cli.screen import Progress, command_line, counted, safe, say, tell
from dealkit._cli.table_file import refuse_no_folder
from dealkit._client.client import Client
from dealkit._models.classes import Deal
from dealkit.exceptions import (
    APIConnectionError,
    APIStatusError,
    AuthenticationError,
    DealkitError,
    InternalServerError,
    RateLimitError,
)

# After this many consecutive failures that would be the same for any deal, or twice as many as are in flight, the
# service is considered to be out of order.
_IN_A_ROW = 25

_FAILED_HEADER = flat.header_line(["id", "kind", "status", "outcome", "message"])


def run(options: Namespace) -> int:
    """Retrieves the deals and writes the file, or resumes where an earlier run stopped."""
    out = Path(options.out)
    form = form_of(out)
    refuse_no_folder(out)
    if out.exists() and not options.overwrite:
        raise Failed(f"{out} exists; choose another name, or replace it with --overwrite")
    found = read_ids(options.ids)
    if found.column not in (None, "id"):
        tell(f"reading the ids from the column {safe(found.column or '')}")
    with connect(options) as client, Part(out, found.ids, address(options), restart=options.restart) as part:
        if found.duplicates:
            tell(f"{counted(found.duplicates, 'repeated id')} skipped: each deal is retrieved once")
        if part.at.done:
            tell(f"resuming where the last run stopped: {_so_far(part.at, len(found.ids))}")
        part.begin(form.header, _FAILED_HEADER)
        try:
            _retrieve(client, found.ids, part, form.line, options.concurrency)
            part.save()
            part.close()
            form.finish(part_of(out), out)
        except KeyboardInterrupt as interrupt:
            raise Interrupted("stopped" + _left(part, options)) from interrupt
        except DealkitError as error:
            raise Failed(explanation(error) + _left(part, options), code_of(error)) from error
        except OSError as error:
            raise Failed(f"{out} cannot be written: {error.strerror}{_left(part, options)}", UNWRITABLE) from error
        part.discard()
    return _sum_up(out, len(found.ids), part.at.failed)


def _retrieve(client: Client, ids: list[str], part: Part, line: Callable[[Deal], str], concurrency: int) -> None:
    """Retrieves the deals that have not come yet, in order, so that a single number records the progress."""
    progress = Progress("deal", len(ids), part.at.done, part.at.failed)
    # Consecutive failures that no single deal is to blame for. They are recorded once anything else comes.
    in_a_row: list[DealkitError] = []
    has_service = part.at.done > 0
    deals = client.deals.retrieve_many(islice(ids, part.at.done, None), concurrency=concurrency, on_error="return")

    def add(come: list[Deal | DealkitError]) -> None:
        for deal in come:
            is_there = _add(deal, ids[part.at.done], part, line)
            progress.advance(failed=not is_there)

    try:
        with deals:
            for deal in deals:
                if isinstance(deal, AuthenticationError):
                    raise deal
                if isinstance(deal, DealkitError) and _is_of_service(deal):
                    in_a_row.append(deal)
                    if len(in_a_row) >= max(_IN_A_ROW, 2 * concurrency):
                        tell(f"{len(in_a_row)} calls in a row have failed; stopped after the last of them")
                        raise deal
                else:
                    has_service = True
                    add([*in_a_row, deal])
                    in_a_row.clear()
        if in_a_row and not has_service:
            raise in_a_row[0]
        add([*in_a_row])
    finally:
        progress.end()


def _add(deal: Deal | DealkitError, id: str, part: Part, line: Callable[[Deal], str]) -> bool:
    """Adds a deal, or why there is none; returns whether there is one."""
    try:
        if isinstance(deal, DealkitError):
            raise deal
        part.add(line(deal))
    except DealkitError as error:
        # The error of a deal that cannot be written does not have its id.
        error.id = id
        part.add("", _failed_line(error))
        return False
    return True


def _is_of_service(error: DealkitError) -> bool:
    """Whether an error is likely to be the same for every deal, and to be temporary."""
    # A response that is too large did arrive, and concerns only its own deal.
    return isinstance(error, APIConnectionError | InternalServerError | RateLimitError) and error.outcome != "succeeded"


def _failed_line(error: DealkitError) -> str:
    status = str(error.status_code) if isinstance(error, APIStatusError) else ""
    return flat.csv_line([error.id or "", error.kind, status, error.outcome, in_words(error)])


def _sum_up(out: Path, total: int, failed: int) -> int:
    if not failed:
        say(f"{counted(total, 'deal')} in {out}")
        return DONE
    say(f"{total - failed:,} of {counted(total, 'deal')} in {out}")
    say(
        f"{failed:,} could not be retrieved; {failed_of(out)} says why. Once that is fixed, this retrieves them into "
        "another file:"
    )
    others = (out.with_name(f"{out.stem}-{number}{out.suffix}") for number in count(2))
    again = next(other for other in others if not other.exists())
    say(f"  {command_line(['deals', 'export', '--ids', str(failed_of(out)), '--out', str(again)])}")
    return INCOMPLETE


def _so_far(at: Position, total: int) -> str:
    failed = f", of which {at.failed:,} could not be retrieved" if at.failed else ""
    return f"{at.done:,} of {counted(total, 'deal')} are done{failed}"


def _left(part: Part, options: Namespace) -> str:
    """What a stopped export leaves behind, and how to resume it."""
    if not part.at.done:
        part.discard()
        return ""
    arguments = [argument for argument in options.arguments if argument != "--restart"]
    same_ids = ", with the same ids" if options.ids == STANDARD_INPUT else ""
    out = Path(options.out)
    there = [f"{counted(part.at.done - part.at.failed, 'deal')} in {part_of(out)}"]
    if part.at.failed:
        there.append(f"{counted(part.at.failed, 'deal')} that could not be retrieved, in {failed_of(out)}")
    return f"\nKept: {' and '.join(there)}. To continue, run the same command again{same_ids}:\n  {command_line(arguments)}"

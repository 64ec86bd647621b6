"""`dealkit deals export`: many deals into a file, and those that could not be retrieved into another."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dealkit import APIStatusError, AuthenticationError, DealkitError
from dealkit._cli.advice import OF_THE_SERVICE, failure_of, in_words
from dealkit._cli.exits import DONE, INCOMPLETE, INTERRUPTED, Failed
from dealkit._cli.files import STANDARD, is_there, named, refuse_inputs
from dealkit._cli.formats import format_of
from dealkit._cli.ids import Ids, ids_in, is_missing
from dealkit._cli.part import Damaged, Part, failed_of, part_of
from dealkit._cli.screen import Progress, command_line, counted, say, tell
from dealkit._cli.service import address, connect

# After this many consecutive failures that would be the same for any deal, or twice as many as are in flight, the
# service is considered to be out of order.
_IN_A_ROW = 25


def run(options: Namespace) -> int:
    """Retrieves the deals and writes the file, or resumes where an earlier run stopped."""
    out = Path(options.out)
    form = format_of(out, options.on_unreadable)
    if is_there(out) and not options.overwrite:
        raise Failed(f"{named(out)} exists: choose another name, or replace it with --overwrite")
    read = [options.ids, *options.exclude_ids, options.ca_file, options.client_cert]
    refuse_inputs([out, part_of(out), failed_of(out)], read)
    ids = _ids(options)
    if not ids:
        say("there are no ids left, so nothing was retrieved")
        return DONE
    with connect(options) as client:
        deals = client.with_raw_response.deals if form.is_raw else client.deals
        with closing(Part(out, form, ids, address(options), options)) as part:
            if part.done:
                failed = f", of which {part.failed:,} could not be retrieved" if part.failed else ""
                so_far = f"{part.done:,} of {counted(len(ids), 'deal')} are done{failed}"
                tell(f"resuming where the last run stopped: {so_far}")
            try:
                _retrieve(deals, ids, part, options.concurrency)
                failures = part.complete()
            except Damaged:
                raise
            except KeyboardInterrupt as interrupt:
                raise Failed("stopped" + _left(part, options), INTERRUPTED) from interrupt
            except (DealkitError, Failed) as error:
                failure = failure_of(error) if isinstance(error, DealkitError) else error
                raise Failed(f"{failure}{_left(part, options)}", failure.code) from error
    options.result["errors"] += failures
    return _sum_up(out, options, len(ids), failures)


def _ids(options: Namespace) -> Ids:
    """The ids to be exported, each once."""
    ids = Ids(ids_in(options.ids))
    if not ids:
        raise Failed(f"there are no ids to retrieve in {named(options.ids)}")
    for source in options.exclude_ids:
        left = ids.without(ids_in(source))
        tell(f"{counted(len(ids) - len(left), 'id')} skipped: {named(source)} has the deals")
        ids = left
    return ids


def _retrieve(calls: Any, ids: Ids, part: Part, concurrency: int) -> None:
    """Retrieves the deals that have not come yet, in order, so that a single number records the progress."""
    progress = Progress("deal", len(ids), part.done, part.failed)
    # Consecutive failures that no single deal is to blame for. They are recorded once anything else comes.
    in_a_row: list[DealkitError] = []
    has_service = part.done > 0

    def add(come: list[DealkitError]) -> None:
        for error in come:
            status = str(error.status_code) if isinstance(error, APIStatusError) else ""
            part.add(None, [error.kind, status, error.outcome, in_words(error)])
            progress.advance(failed=True)
        come.clear()

    try:
        with calls.retrieve_many(ids.since(part.done), concurrency=concurrency, on_error="return") as deals:
            for deal in deals:
                if isinstance(deal, AuthenticationError):
                    raise deal
                # A response that is too large did arrive, and concerns only its own deal.
                if isinstance(deal, OF_THE_SERVICE) and deal.outcome != "succeeded":
                    in_a_row.append(deal)
                    if len(in_a_row) >= max(_IN_A_ROW, 2 * concurrency):
                        tell(f"{len(in_a_row)} calls in a row have failed; stopped after the last of them")
                        raise deal
                    continue
                has_service = True
                add(in_a_row)
                if isinstance(deal, DealkitError):
                    add([deal])
                else:
                    part.add(deal)
                    progress.advance()
        if in_a_row and not has_service:
            raise in_a_row[0]
        add(in_a_row)
    finally:
        progress.end()


def _sum_up(out: Path, options: Namespace, total: int, failures: list[dict[str, str]]) -> int:
    failed, missing = len(failures), sum(is_missing(failure["status"]) for failure in failures)
    options.result["counts"] = {"deals": total, "written": total - failed, "failed": failed, "missing": missing}
    options.result["files"] = {"deals": str(out), **({"failed": str(failed_of(out))} if failed else {})}
    if not failed:
        say(f"{counted(total, 'deal')} in {named(out)}")
        return DONE
    say(f"{total - failed:,} of {counted(total, 'deal')} in {named(out)}; {named(failed_of(out))} has the others:")
    if missing:
        say(f"{missing:,} not found: according to the service, there {'is' if missing == 1 else 'are'} no such deal")
    if missing < failed:
        again = out.with_name(f"{out.stem}-2{out.suffix}")
        say(f"{failed - missing:,} could not be retrieved. When that is fixed, retrieve them into another file:")
        say(f"  {command_line(['deals', 'export', '--ids', str(failed_of(out)), '--out', str(again)])}")
    return INCOMPLETE


def _left(part: Part, options: Namespace) -> str:
    """What a stopped export leaves behind, and how to resume it."""
    with suppress(Failed):
        part.save()
    done, failed = part.saved, part.failed
    if not done:
        part.discard()
        return ""
    same_ids = ", with the same ids" if options.ids == STANDARD else ""
    others = f", and {failed:,} that could not be retrieved" if failed else ""
    kept = f"{counted(done - failed, 'deal')}{others}, in {named(part_of(Path(options.out)))}"
    options.result["counts"] = {"done": done, "failed": failed}
    options.result["files"] = {"part": str(part_of(Path(options.out)))}
    return f"\nKept: {kept}. To continue, run the same command again{same_ids}:\n  {command_line(options.arguments)}"

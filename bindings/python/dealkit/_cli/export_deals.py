"""`dealkit deals export`: writes deals to a file, and writes a list of the deals that could not be retrieved to a
second file."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dealkit import APIStatusError, AuthenticationError, DealkitError
from dealkit._cli.csv_tables import DELIMITERS
from dealkit._cli.deal_ids import DealIds, is_deal_missing, read_ids
from dealkit._cli.error_messages import SERVICE_ERRORS, format_error, to_command_error
from dealkit._cli.exit_codes import DONE, INCOMPLETE, INTERRUPTED, CommandError
from dealkit._cli.export_formats import choose_format
from dealkit._cli.files import STANDARD_INPUT, file_display_name, output_file_exists, reject_outputs_that_are_inputs
from dealkit._cli.partial_export import DamagedPartialExport, PartialExport, failures_path, partial_path
from dealkit._cli.service import make_client, service_url
from dealkit._cli.terminal import Progress, format_command, format_count, print_message, print_result

# The export stops after this many consecutive errors of the service, or after twice the concurrency if that number is
# larger.
_MAX_CONSECUTIVE_FAILURES = 25


def run(options: Namespace) -> int:
    """Retrieves the deals and writes the output file. Resumes an earlier run that was stopped."""
    out = Path(options.out)
    export_format = choose_format(out, options.on_unreadable, options.delimiter)
    if output_file_exists(out) and not options.overwrite:
        raise CommandError(
            f"{file_display_name(out)} already exists. Choose another name with --out, or use --overwrite to replace the file."
        )
    inputs = [options.ids, *options.exclude_ids, options.ca_file, options.client_cert]
    reject_outputs_that_are_inputs([out, partial_path(out), failures_path(out)], inputs)
    ids = _load_ids(options)
    if not ids:
        print_result("Nothing was retrieved: the files in --exclude-ids already have all of these deals.")
        return DONE
    if export_format.max_deals is not None and len(ids) > export_format.max_deals:
        raise CommandError(
            f"a sheet of Excel holds at most {export_format.max_deals:,} deals, and there are {len(ids):,} ids: split the list, or name a "
            ".csv file with --out"
        )
    with make_client(options) as client:
        deals = client.with_raw_response.deals if export_format.is_raw else client.deals
        with closing(PartialExport(out, export_format, ids, service_url(options), options)) as partial:
            if partial.done:
                failures_text = f", {partial.failed:,} of them could not be retrieved" if partial.failed else ""
                progress_text = f"{partial.done:,} of {format_count(len(ids), 'deal')} are done{failures_text}"
                print_message(f"Continuing the stopped export: {progress_text}.")
            try:
                _retrieve(deals, ids, partial, options.concurrency)
                failures = partial.complete()
            except DamagedPartialExport:
                raise
            except KeyboardInterrupt as interrupt:
                raise CommandError(
                    "The export was stopped." + _describe_partial_export(partial, options), INTERRUPTED
                ) from interrupt
            except (DealkitError, CommandError) as error:
                failure = to_command_error(error) if isinstance(error, DealkitError) else error
                raise CommandError(f"{failure}{_describe_partial_export(partial, options)}", failure.code) from error
    options.result["errors"] += failures
    return _print_summary(out, options, len(ids), failures)


def _load_ids(options: Namespace) -> DealIds:
    """Returns the ids to export, without duplicates."""
    ids = DealIds(read_ids(options.ids, options.sheet))
    if not ids:
        raise CommandError(
            f"Nothing was retrieved: {file_display_name(options.ids)} has no ids to retrieve. Is it the right file? Ids of deals that do not "
            "exist are skipped in a list of failed deals."
        )
    for source in options.exclude_ids:
        remaining_ids = ids.excluding(read_ids(source, options.sheet))
        print_message(
            f"{format_count(len(ids) - len(remaining_ids), 'id')} skipped: {file_display_name(source)} already has these deals."
        )
        ids = remaining_ids
    return ids


def _retrieve(calls: Any, ids: DealIds, partial: PartialExport, concurrency: int) -> None:
    """Retrieves the remaining deals. Their order is the order of the ids, so a single number records the progress."""
    progress = Progress("deal", len(ids), partial.done, partial.failed)
    # Consecutive errors that the service causes, and not a single deal. If a later call gets a response, the service
    # works again, and these errors are recorded as failures of their deals.
    consecutive_failures: list[DealkitError] = []
    has_responded = partial.done > 0

    def add_failures(failures: list[DealkitError]) -> None:
        for error in failures:
            status = str(error.status_code) if isinstance(error, APIStatusError) else ""
            partial.add(None, [error.kind, status, error.outcome, format_error(error)])
            progress.advance(failed=True)
        failures.clear()

    try:
        with calls.retrieve_many(ids.from_position(partial.done), concurrency=concurrency, on_error="return") as deals:
            for deal in deals:
                if isinstance(deal, AuthenticationError):
                    raise deal
                # A response that is too large is a failure of a single deal, because the service did respond.
                if isinstance(deal, SERVICE_ERRORS) and deal.outcome != "succeeded":
                    consecutive_failures.append(deal)
                    if len(consecutive_failures) >= max(_MAX_CONSECUTIVE_FAILURES, 2 * concurrency):
                        print_message(
                            f"The export stops, because the last {len(consecutive_failures)} requests have all failed."
                        )
                        raise deal
                    continue
                has_responded = True
                add_failures(consecutive_failures)
                if isinstance(deal, DealkitError):
                    add_failures([deal])
                else:
                    partial.add(deal)
                    progress.advance()
        if consecutive_failures and not has_responded:
            raise consecutive_failures[0]
        add_failures(consecutive_failures)
    finally:
        progress.end()


def _print_summary(out: Path, options: Namespace, deal_count: int, failures: list[dict[str, str]]) -> int:
    failed_count, missing_count = len(failures), sum(is_deal_missing(failure["status"]) for failure in failures)
    options.result["counts"] = {
        "deals": deal_count,
        "written": deal_count - failed_count,
        "failed": failed_count,
        "missing": missing_count,
    }
    options.result["files"] = {"deals": str(out), **({"failed": str(failures_path(out))} if failed_count else {})}
    if not failed_count:
        print_result(f"{format_count(deal_count, 'deal')} in {file_display_name(out)}")
        return DONE
    print_result(
        f"{deal_count - failed_count:,} of {format_count(deal_count, 'deal')} are in {file_display_name(out)}. {file_display_name(failures_path(out))} lists the other deals:"
    )
    if missing_count:
        print_result(
            f"{format_count(missing_count, 'deal')} not found: the service has no deal with {'this id' if missing_count == 1 else 'these ids'}."
        )
    if missing_count < failed_count:
        retry_path = out.with_name(f"{out.stem}-2{out.suffix}")
        print_result(
            f"{format_count(failed_count - missing_count, 'deal')} could not be retrieved, for the reasons in the column message. Once they "
            "are solved, retrieve the rest into another file:"
        )
        retry_arguments = ["deals", "export", "--ids", str(failures_path(out)), "--out", str(retry_path)]
        if options.delimiter is not None:
            names = {delimiter: name for name, delimiter in DELIMITERS.items()}
            retry_arguments += ["--delimiter", names[options.delimiter]]
        print_result(f"  {format_command(retry_arguments)}")
    return INCOMPLETE


def _describe_partial_export(partial: PartialExport, options: Namespace) -> str:
    """Saves the results of a stopped export. Returns a message about the results, with the command that resumes the
    export."""
    with suppress(CommandError):
        partial.save()
    done_count, failed_count = partial.saved, partial.failed
    if not done_count:
        partial.remove()
        return ""
    same_ids = ", with the same ids" if options.ids == STANDARD_INPUT else ""
    failures_text = f", and {failed_count:,} that could not be retrieved" if failed_count else ""
    saved_text = f"{format_count(done_count - failed_count, 'deal')}{failures_text}, in {file_display_name(partial_path(Path(options.out)))}"
    options.result["counts"] = {"done": done_count, "failed": failed_count}
    options.result["files"] = {"part": str(partial_path(Path(options.out)))}
    return f"\nSaved: {saved_text}. To continue, run the same command again{same_ids}:\n  {format_command(options.arguments)}"

"""`dealkit check --conformance`: tests where a service violates the specification, and how it behaves where the
specification leaves details open. The sandbox calls such a behavior a variant, and can simulate it.

The requests in the tables below create and change nothing. The output shows no content of the service's responses,
because it may be personal data or the key.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple, get_args

from dealkit import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    Client,
    Deal,
    DealkitError,
    DecodeError,
    fields,
)
from dealkit._cli.error_messages import format_error, to_command_error
from dealkit._cli.exit_codes import DONE, INCOMPLETE
from dealkit._cli.service import generate_unknown_id, make_client
from dealkit._cli.terminal import format_table, print_result
from dealkit.testing import VARIANTS

_MAX_EXACT_DIGITS = 15

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?")

_DEAL_RULE = '"Retrieve a deal": a deal that exists is returned as the Deal resource, and only such a deal'
_KEY_RULE = '"Authentication": the header x-service-key is required on both operations'
_UNKNOWN_OPERATION_RULE = '"Endpoints": a request that is not an operation is rejected as an error of the client'
_METHODS_RULE = "RFC 9110, 9.3: HEAD gets the response of GET, and OPTIONS lists the methods, or both are rejected"
_CONDITIONS_RULE = "RFC 9110, 13: a condition is ignored, or the response is 304 or 412"


class _Probe(NamedTuple):
    """A request and its allowed responses."""

    name: str
    request: str
    """The method, and the path below /v1. `{no}` stands for the id of a deal that does not exist, and `{deal}` for the
    id in `--deal`.
    """
    allowed_statuses: str
    """The statuses that the specification allows. The sandbox responds with the first of them by default."""
    rule: str
    variants: Mapping[int, str] = {}
    """The sandbox variants that respond with a different status than the sandbox's default, by status."""
    uses_unknown_key: bool = False
    """True for a request with a key that the service does not know."""
    headers: Mapping[str, str] = {}


_REJECTED = "400 401 403 404 405 410 414 422 501"

_PROBES = [
    _Probe("a deal that does not exist", "GET deals/{no}", "404 400 403 410 422", _DEAL_RULE),
    _Probe("a made-up key", "GET deals/{deal}", "401 403 400 404", _KEY_RULE, {403: "forbidden"}, True),
    _Probe("an unknown method", "PROPFIND deals/{deal}", f"405 {_REJECTED}", _UNKNOWN_OPERATION_RULE),
    _Probe("an unknown path", "GET {no}", f"404 {_REJECTED}", _UNKNOWN_OPERATION_RULE),
    _Probe("HEAD of no deal", "HEAD deals/{no}", f"404 {_REJECTED}", _METHODS_RULE),
    _Probe("the methods of a deal", "OPTIONS deals/{deal}", f"204 200 {_REJECTED}", _METHODS_RULE),
]
_DEAL_PROBES = [
    _Probe("a known deal", "GET deals/{deal}", "200", _DEAL_RULE),
    _Probe("HEAD of a known deal", "HEAD deals/{deal}", "200 204 405 501", _METHODS_RULE),
    _Probe("if it has changed", "GET deals/{deal}", "200 304", _CONDITIONS_RULE, headers={"If-None-Match": "*"}),
    _Probe(
        "if it is another", "GET deals/{deal}", "200 412", _CONDITIONS_RULE, headers={"If-Match": '"dealkit-check"'}
    ),
]


class _Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error_variant(self) -> str:
        """The sandbox variant that sends error responses with a body like this response's body."""
        if not self.body:
            return "errors-empty"
        if isinstance(document := self.json(), dict):
            return "" if {"type", "title", "detail"} & {*document} else "errors-foreign"
        return "errors-html" if "html" in self.headers.get("content-type", "") else "errors-text"

    def json(self, **options: Any) -> Any:
        with suppress(ValueError, RecursionError):
            return json.loads(self.body, **options)


def run(options: Namespace) -> int:
    """Sends the requests and reports the results."""
    probes = [*_PROBES, *(_DEAL_PROBES if options.deal else ())]
    responses: dict[str, _Response] = {}
    rows, breach_count, interruption = [], 0, None
    with (
        make_client(options, max_retries=0) as client,
        client.with_options(service_key=generate_unknown_id()) as client_with_unknown_key,
    ):
        print_result(f"Sending up to {len(probes)} requests, {options.rate_limit:g} a second at most.\n")
        try:
            for probe in probes:
                response, breach = _send_probe(
                    client_with_unknown_key if probe.uses_unknown_key else client, probe, options.deal
                )
                breach_count += bool(breach)
                if response is not None and not breach:
                    responses[probe.name] = response
                is_reference = response is not None and probe.allowed_statuses.startswith(str(response.status))
                verdict = (
                    f"breaks the specification: {breach}"
                    if breach
                    else "as the sandbox"
                    if is_reference
                    else "permissible"
                )
                status = str(response.status) if response is not None else "no response"
                rows.append({"Question": probe.name, "Answer": status, "Verdict": verdict})
        except DealkitError as error:
            interruption = to_command_error(error)
    detected_variants = {*_find_variants(probes, responses)}
    variants = [name for name in VARIANTS if name in detected_variants]
    counts = {"asked": len(rows), "breaches": breach_count}
    options.result.update(
        counts=counts, variants=variants, answers=[{name.lower(): text for name, text in row.items()} for row in rows]
    )
    if rows:
        print_result(format_table(rows))
    if interruption is not None:
        raise interruption
    print_result(
        f"\nTo make the sandbox respond like this service:\n  dealkit-server --variant {','.join(variants) or 'reference'}"
    )
    if not options.deal:
        print_result(
            "No deal was read. To check how the service writes deals, and whether it checks the key for them, add --deal with the id of a deal."
        )
    return INCOMPLETE if breach_count else DONE


def _send_probe(client: Client, probe: _Probe, deal_id: str | None) -> tuple[_Response | None, str]:
    """Sends a request. Returns the response, or None if there was none, and the rule that the service violates, or "".
    Raises the error of the call if further requests would be pointless.
    """
    method, path = probe.request.split()
    segments = [
        segment.format(no=generate_unknown_id(), deal=deal_id or generate_unknown_id()) for segment in path.split("/")
    ]
    try:
        raw = client.request(method, *segments, headers=probe.headers)
        response = _Response(raw.status_code, raw.headers, raw.body)
    except APIStatusError as error:
        # The check ends if the service rejects the key or asks for fewer requests. The error has the reason.
        if error.status_code in (429, 503) or (error.status_code == 401 and probe.rule == _DEAL_RULE):
            raise
        response = _Response(error.status_code, error.headers, error.body)
    except APIConnectionError as error:
        if error.outcome == "not_sent" or isinstance(error, APITimeoutError):
            raise
        return None, probe.rule
    return response, _find_breach(probe, response, deal_id)


def _find_breach(probe: _Probe, response: _Response, deal_id: str | None) -> str:
    if str(response.status) not in probe.allowed_statuses.split():
        return probe.rule
    if probe.request.startswith("GET") and response.status == 200:
        try:
            if Deal.from_json(response.body).id != deal_id:
                return probe.rule
        except DecodeError as error:
            return f'"Deal (response of retrieve)": {format_error(error)}'
    return ""


def _find_variants(probes: list[_Probe], responses: Mapping[str, _Response]) -> Iterator[str]:
    """Yields the names of the sandbox variants that respond like this service. Yields '' if none does."""
    for probe in probes:
        if (response := responses.get(probe.name)) is not None:
            yield probe.variants.get(response.status, "")
    missing_deal, known_deal = responses.get("a deal that does not exist"), responses.get("a known deal")
    if missing_deal is not None:
        yield missing_deal.error_variant
    if any("content-length" not in response.headers for response in (missing_deal, known_deal) if response is not None):
        yield "chunked"
    if known_deal is not None:
        feature_counts: Counter[str] = Counter()
        # Numbers are read as strings, because their notation matters. A document that is nested too deeply counts as
        # empty.
        _count_document_features(Deal, known_deal.json(parse_int=str, parse_float=str) or {}, feature_counts)
        if not feature_counts["present"] and (feature_counts["null"] or feature_counts["missing"]):
            yield "nulls" if feature_counts["null"] else "sparse"
        yield from (name for name in ("extra", "numbers", "times", "iso-times") if feature_counts[name])


def _count_document_features(model: Any, document: Mapping[str, Any], feature_counts: Counter[str]) -> None:
    """Counts the features of a document by which variants differ: missing optional fields, undocumented fields, and
    unusual numbers and times.
    """
    fields_by_name = {field.wire_name: field for field in fields(model)}
    feature_counts["extra"] += len(document.keys() - fields_by_name.keys())
    for name, field in fields_by_name.items():
        value, kind = document.get(name), (get_args(field.type) or [field.type])[0]
        if value is None:
            feature_counts["null" if name in document else "missing"] += not field.required
        elif isinstance(value, dict | list) and kind is not str:
            for item in value if isinstance(value, list) else [value]:
                _count_document_features(kind, item or {}, feature_counts)
        else:
            feature_counts["present"] += not field.required
            text = str(value)  # a number is a string here, exactly as written
            if kind is int:
                feature_counts["numbers"] += not text.lstrip("-").isdigit() or abs(int(text)) > 2**53
            elif kind is Decimal:
                feature_counts["numbers"] += "e" in text.lower() or sum(map(str.isdigit, text)) > _MAX_EXACT_DIGITS
            elif kind is datetime:
                if _RFC_3339.fullmatch(text):
                    feature_counts["times"] += text[-1:] not in "Zz"
                else:
                    feature_counts["iso-times"] += 1

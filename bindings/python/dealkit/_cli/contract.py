"""`dealkit check --conformance`: how a service answers where the specification leaves something open, and where it breaks it.

What is asked is the table below. Nothing of it creates or changes anything, and nothing that a service has sent is shown, because it
may be personal, or the key.
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
from dealkit._cli.advice import failure_of, in_words
from dealkit._cli.exits import DONE, INCOMPLETE
from dealkit._cli.screen import say, table
from dealkit._cli.service import connect, made_up
from dealkit.testing import VARIANTS

_ENOUGH_DIGITS = 15

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?")

_DEAL = '"Retrieve a deal": a deal that exists is returned as the Deal resource, and only such a deal'
_KEY = '"Authentication": the header x-service-key is required on both operations'
_OTHER = '"Endpoints": what is not an operation is refused; the request is wrong, and not the service'
_METHODS = "RFC 9110, 9.3: HEAD answers as GET does, and OPTIONS says which methods there are, or they are refused"
_CONDITIONS = "RFC 9110, 13: a condition is ignored, or it is answered by 304 or 412"


class _Question(NamedTuple):
    """A request, and what may come of it."""

    name: str
    request: str
    """Method and path below /v1; `{no}` stands for the id of a deal that does not exist, `{deal}` for a known one, if any."""
    permissible: str
    """The statuses that keep the specification, that of the reference first."""
    rule: str
    variants: Mapping[int, str] = {}
    """The variants that statuses other than the reference's stand for."""
    is_stranger: bool = False
    """Whether it is asked with a made-up key."""
    headers: Mapping[str, str] = {}


_REFUSED = "400 401 403 404 405 410 414 422 501"

_ANYBODY = [
    _Question("a deal that does not exist", "GET deals/{no}", "404 400 403 410 422", _DEAL),
    _Question("a made-up key", "GET deals/{deal}", "401 403 400 404", _KEY, {403: "forbidden"}, True),
    _Question("an unknown method", "PROPFIND deals/{deal}", f"405 {_REFUSED}", _OTHER),
    _Question("an unknown path", "GET {no}", f"404 {_REFUSED}", _OTHER),
    _Question("HEAD of no deal", "HEAD deals/{no}", f"404 {_REFUSED}", _METHODS),
    _Question("the methods of a deal", "OPTIONS deals/{deal}", f"204 200 {_REFUSED}", _METHODS),
]
_OF_A_DEAL = [
    _Question("a known deal", "GET deals/{deal}", "200", _DEAL),
    _Question("HEAD of a known deal", "HEAD deals/{deal}", "200 204 405 501", _METHODS),
    _Question("if it has changed", "GET deals/{deal}", "200 304", _CONDITIONS, headers={"If-None-Match": "*"}),
    _Question("if it is another", "GET deals/{deal}", "200 412", _CONDITIONS, headers={"If-Match": '"dealkit-check"'}),
]


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> str:
        """What the body is, as the variants call it, since the service's own words may hold anything."""
        if not self.body:
            return "errors-empty"
        if isinstance(found := self.json(), dict):
            return "" if {"type", "title", "detail"} & {*found} else "errors-foreign"
        return "errors-html" if "html" in self.headers.get("content-type", "") else "errors-text"

    def json(self, **options: Any) -> Any:
        with suppress(ValueError, RecursionError):
            return json.loads(self.body, **options)


def run(options: Namespace) -> int:
    """Asks, and reports."""
    questions = [*_ANYBODY, *(_OF_A_DEAL if options.deal else ())]
    answers: dict[str, _Answer] = {}
    shown, breaches, stopped = [], 0, None
    with connect(options, max_retries=0) as client, client.with_options(service_key=made_up()) as stranger:
        say(f"Sending up to {len(questions)} requests, {options.rate_limit:g} a second at most.\n")
        try:
            for question in questions:
                answer, breach = _ask(stranger if question.is_stranger else client, question, options.deal)
                breaches += bool(breach)
                if answer is not None and not breach:
                    answers[question.name] = answer
                is_usual = answer is not None and question.permissible.startswith(str(answer.status))
                verdict = (
                    f"breaks the contract: {breach}" if breach else "as the sandbox" if is_usual else "permissible"
                )
                came = str(answer.status) if answer is not None else "no response"
                shown.append({"Question": question.name, "Answer": came, "Verdict": verdict})
        except DealkitError as error:
            stopped = failure_of(error)
    found = {*_variants(questions, answers)}
    variants = [name for name in VARIANTS if name in found]
    counts = {"asked": len(shown), "breaches": breaches}
    options.result.update(
        counts=counts, variants=variants, answers=[{name.lower(): text for name, text in row.items()} for row in shown]
    )
    if shown:
        say(table(shown))
    if stopped is not None:
        raise stopped
    say(f"\nTo respond like the service:\n  dealkit-server --variant {','.join(variants) or 'reference'}")
    if not options.deal:
        say("Without --deal ID, it is not known how deals are written, and whether keys guard them.")
    return INCOMPLETE if breaches else DONE


def _ask(client: Client, question: _Question, known: str | None) -> tuple[_Answer | None, str]:
    """The answer, if there is one, and which rule it breaks. Raises where nothing more can be asked."""
    method, path = question.request.split()
    segments = [segment.format(no=made_up(), deal=known or made_up()) for segment in path.split("/")]
    try:
        response = client.request(method, *segments, headers=question.headers)
        answer = _Answer(response.status_code, response.headers, response.body)
    except APIStatusError as error:
        # It says best why nothing else can be asked.
        if error.status_code in (429, 503) or (error.status_code == 401 and question.rule == _DEAL):
            raise
        answer = _Answer(error.status_code, error.headers, error.body)
    except APIConnectionError as error:
        if error.outcome == "not_sent" or isinstance(error, APITimeoutError):
            raise
        return None, question.rule
    return answer, _breach(question, answer, known)


def _breach(question: _Question, answer: _Answer, known: str | None) -> str:
    if str(answer.status) not in question.permissible.split():
        return question.rule
    if question.request.startswith("GET") and answer.status == 200:
        try:
            if Deal.from_json(answer.body).id != known:
                return question.rule
        except DecodeError as error:
            return f'"Deal (response of retrieve)": {in_words(error)}'
    return ""


def _variants(questions: list[_Question], answers: Mapping[str, _Answer]) -> Iterator[str]:
    """The variants with which the sandbox answers as the service does."""
    for question in questions:
        if (answer := answers.get(question.name)) is not None:
            yield question.variants.get(answer.status, "")
    missing, known = answers.get("a deal that does not exist"), answers.get("a known deal")
    if missing is not None:
        yield missing.form
    if any("content-length" not in answer.headers for answer in (missing, known) if answer is not None):
        yield "chunked"
    if known is not None:
        seen: Counter[str] = Counter()
        # Numbers as they are written. A document that is nested too deeply for this tells nothing.
        _look_at(Deal, known.json(parse_int=str, parse_float=str) or {}, seen)
        if not seen["there"] and (seen["null"] or seen["missing"]):
            yield "nulls" if seen["null"] else "sparse"
        yield from (name for name in ("extra", "numbers", "times", "iso-times") if seen[name])


def _look_at(model: Any, found: Mapping[str, Any], seen: Counter[str]) -> None:
    """Counts what a document has and how it is written. A document without any optional field shows nothing else."""
    known = {field.wire_name: field for field in fields(model)}
    seen["extra"] += len(found.keys() - known.keys())
    for name, field in known.items():
        value, kind = found.get(name), (get_args(field.type) or [field.type])[0]
        if value is None:
            seen["null" if name in found else "missing"] += not field.required
        elif isinstance(value, dict | list) and kind is not str:
            for item in value if isinstance(value, list) else [value]:
                _look_at(kind, item or {}, seen)
        else:
            seen["there"] += not field.required
            text = str(value)  # as the document has it: numbers are read as their texts
            if kind is int:
                seen["numbers"] += not text.lstrip("-").isdigit() or abs(int(text)) > 2**53
            elif kind is Decimal:
                seen["numbers"] += "e" in text.lower() or sum(map(str.isdigit, text)) > _ENOUGH_DIGITS
            elif kind is datetime:
                if _RFC_3339.fullmatch(text):
                    seen["times"] += text[-1:] not in "Zz"
                else:
                    seen["iso-times"] += 1

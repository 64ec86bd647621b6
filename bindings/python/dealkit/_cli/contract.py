"""`dealkit check --contract`: how a service answers where the specification leaves something open, and where it breaks it.

What is asked is the table below. Requests are sent as they are written there, which no client of dealkit would do: without a key,
with methods and paths that the interface does not have. None of them creates or changes anything at a service that keeps the
specification, and nothing that a service has sent is shown, because it may be personal, or the key.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import ssl
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPErrorProcessor, HTTPSHandler, ProxyHandler, Request, build_opener

from dealkit import (
    APIConnectionError,
    AuthenticationError,
    Deal,
    DecodeError,
    RateLimitError,
    ThrottledError,
    __version__,
    fields,
)
from dealkit._cli.advice import in_words
from dealkit._cli.exits import DONE, INCOMPLETE, NO_SERVICE, UNWRITABLE, Failed
from dealkit._cli.files import is_there, named, replacing
from dealkit._cli.screen import Progress, counted, label, painted, pairs, safe, say, say_all, table
from dealkit._cli.service import address, connect, probe
from dealkit.testing import READINGS

_MOST_BYTES = 16 << 20
_ENOUGH_DIGITS = 15

_DEAL = '"Retrieve a deal": a deal that exists is returned as the Deal resource, and only such a deal'
_KEY = '"Authentication": the header x-service-key is required on both operations'
_OTHER = '"Endpoints": what is not an operation is refused; the request is wrong, and not the service'
_ESCAPES = "RFC 3986, 2.4: the identifier in a path is decoded once, whatever is escaped in it"
_METHODS = "RFC 9110, 9.3: HEAD answers as GET does, and OPTIONS says which methods there are, or they are refused"
_CONDITIONS = "RFC 9110, 13: a condition is ignored, or it is answered by 304 or 412"
_CREATE = '"Errors": a create without a required field is invalid; the request is wrong, and not the service'


_CREATED = """\
an invalid create was accepted, or ended without a response, so no more were sent: an agent without a name may have been created; \
look for it at the service"""


class Question(NamedTuple):
    """A request, and what may come of it."""

    name: str
    request: str
    """Method and path; `{no}` stands for the id of a deal that does not exist, `{deal}` for a known one, if there is any."""
    permissible: str
    """The statuses that keep the specification, that of the reference first."""
    rule: str
    readings: Mapping[int, str] = {}
    """The readings that statuses other than the reference's stand for."""
    key: str | None = "yours"
    headers: Mapping[str, str] = {}
    body: str | None = None


_REFUSED = "400 401 403 404 405 410 414 422 501"

ANYBODY = [
    Question("a deal that does not exist", "GET /v1/deals/{no}", "404 400 403 410 422", _DEAL),
    Question("a made-up key", "GET /v1/deals/{deal}", "401 403 400 404", _KEY, {403: "forbidden"}, "made-up"),
    Question("no key", "GET /v1/deals/{deal}", "401 403 400 404", _KEY, key=None),
    Question("an unknown method", "PROPFIND /v1/deals/{deal}", f"405 {_REFUSED}", _OTHER),
    Question("an unknown path", "GET /v1/{no}", f"404 {_REFUSED}", _OTHER),
    Question("a slash at the end", "GET /v1/deals/{no}/", f"404 {_REFUSED} 301 302 307 308", _OTHER),
    Question("two slashes", "GET /v1//deals/{no}", f"404 {_REFUSED} 301 302 307 308", _OTHER),
    Question("a path in capitals", "GET /V1/DEALS/{no}", f"404 {_REFUSED} 301 302 307 308", _OTHER),
    Question("an escape that is not UTF-8", "GET /v1/deals/{no}%FF", f"404 {_REFUSED}", _OTHER),
    Question("an escaped slash", "GET /v1/deals/{no}%2Fx", f"404 {_REFUSED}", _ESCAPES),
    Question("HEAD of no deal", "HEAD /v1/deals/{no}", f"404 {_REFUSED}", _METHODS),
    Question("the methods of a deal", "OPTIONS /v1/deals/{deal}", f"204 200 {_REFUSED}", _METHODS),
    Question("the methods of agents", "OPTIONS /v1/agents", f"204 200 {_REFUSED}", _METHODS),
]

OF_A_DEAL = [
    Question("a known deal", "GET /v1/deals/{deal}", "200", _DEAL),
    Question("its id, all of it escaped", "GET /v1/deals/{escaped}", "200", _ESCAPES),
    Question("its id, escaped twice", "GET /v1/deals/{twice}", f"404 {_REFUSED}", _ESCAPES),
    Question("HEAD of a known deal", "HEAD /v1/deals/{deal}", "200 204 405 501", _METHODS),
    Question("if it has changed", "GET /v1/deals/{deal}", "200 304", _CONDITIONS, headers={"If-None-Match": "*"}),
    Question(
        "if it is another", "GET /v1/deals/{deal}", "200 412", _CONDITIONS, headers={"If-Match": '"dealkit-check"'}
    ),
]

_BAD_REQUEST = {400: "bad-request"}
_TEXT = {"Content-Type": "text/plain"}
# Without any required field, so that even a service that takes everything creates nobody who could be taken for a person.
CREATES = [
    Question("a create of {}", "POST /v1/agents", "422 400", _CREATE, _BAD_REQUEST, body="{}"),
    Question("with a made-up key", "POST /v1/agents", "401 403 400 404 422", _KEY, {}, "made-up", body="{}"),
    Question("of a list", "POST /v1/agents", "422 400", _CREATE, body="[]"),
    Question("of broken JSON", "POST /v1/agents", "400 422", _CREATE, body="{"),
    Question("declared as text", "POST /v1/agents", "415 400 406 422", _CREATE, headers=_TEXT, body="{}"),
    Question(
        "with a name of 256 letters", "POST /v1/agents", "422 400", _CREATE, body=f'{{"first_name":"{"x" * 256}"}}'
    ),
    Question("with an undocumented field", "POST /v1/agents", "422 400", _CREATE, body='{"dealkit_check":1}'),
]


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """What the body is, in words of ours, since the service's own may hold anything."""
        if not self.body:
            return "no body"
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if isinstance(found := self.json(), dict):
            return "problem details" if {"type", "title", "detail"} & {*found} else "JSON"
        return (
            "a web page" if media_type == "text/html" else "text" if media_type.startswith("text/") else "other content"
        )

    def json(self, **options: Any) -> Any:
        with suppress(ValueError, RecursionError):
            return json.loads(self.body, **options)


_ERRORS = {"no body": "errors-empty", "a web page": "errors-html", "JSON": "errors-foreign", "text": "errors-text"}


class _AsItCame(HTTPErrorProcessor):
    """Follows no redirect, which would take the key along, and makes no error of a status."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


class _Sender:
    """Sends requests as they are written, one after the other, and no more in a second than is asked for."""

    def __init__(self, options: Namespace) -> None:
        self._base = address(options)
        # A client has accepted both, and whichever there is.
        key = os.environ.get("DEALKIT_SERVICE_KEY")
        self._keys = {
            "yours": key or Path(os.environ["DEALKIT_SERVICE_KEY_FILE"]).read_text().strip(),
            "made-up": f"dealkit-check-{secrets.token_hex(8)}",
        }
        trust = ssl.create_default_context()
        if options.ca_file:
            trust.load_verify_locations(options.ca_file)
        if options.client_cert:
            trust.load_cert_chain(options.client_cert)
        is_here = re.fullmatch(r"localhost|127\.[0-9.]+|::1", urlsplit(self._base).hostname or "")
        proxies = ProxyHandler({} if is_here else None)
        self._opener = build_opener(_AsItCame(), HTTPSHandler(context=trust), proxies)
        self._timeout: float = options.timeout or 60
        self._every = 1 / options.rate_limit
        self._next = time.monotonic() + self._every

    def ask(self, question: Question, ids: Mapping[str, str]) -> Answer | None:
        """The answer, or None if the connection ended without one. Fails where there is no connection, or no end."""
        method, path = question.request.split()
        headers = {"Accept": "application/json", "User-Agent": f"dealkit/{__version__}"}
        if question.body is not None:
            headers["Content-Type"] = "application/json"
        if question.key:
            headers["x-service-key"] = self._keys[question.key]
        data = None if question.body is None else question.body.encode()
        request = Request(self._base + path.format(**ids), data, {**headers, **question.headers}, method=method)
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._every
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                body, until = b"", time.monotonic() + self._timeout
                while len(body) < _MOST_BYTES and (part := response.read1(1 << 16)):
                    body += part
                    if time.monotonic() > until:
                        raise TimeoutError
                return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, body)
        except (URLError, TimeoutError) as error:
            why = safe(str(getattr(error, "reason", "it takes too long")))
            raise Failed(f"the service cannot be reached any more: {why}", NO_SERVICE) from None
        except (OSError, HTTPException):
            return None


def _breach(question: Question, answer: Answer | None, known: str | None) -> tuple[str, str] | None:
    """What came that breaks the contract, and what that says; or None."""
    if answer is None:
        return "the connection ended without a response", question.rule
    came = f"{answer.status} with {answer.kind}"
    method, path = question.request.split()
    if str(answer.status) not in question.permissible.split():
        return came, question.rule
    for status, header, section in ((405, "allow", "15.5.6"), (401, "www-authenticate", "15.5.2")):
        if answer.status == status and header not in answer.headers:
            return f"{came}, without the header {header}", f"RFC 9110, {section}: a {status} has the header {header}"
    serves = "POST" if path.endswith("agents") else "GET"
    allowed = answer.headers.get("allow", serves) if method in ("OPTIONS", "PROPFIND") else serves
    if serves not in re.split(r"[\s,]+", allowed):
        rule = "RFC 9110, 10.2.1: the header allow lists the methods that there are"
        return f"{came}, with {serves} missing from the header allow", rule
    is_declared = answer.headers.get("content-type", "").startswith("application/problem+json")
    if is_declared and answer.body and not isinstance(answer.json(), dict):
        return f"{came}, declared as problem details", "RFC 9457, 3: problem details are a JSON object"
    if method == "GET" and answer.status == 200:
        try:
            if Deal.from_json(answer.body).id != known:
                return "a deal with another id", question.rule
        except DecodeError as error:
            return in_words(error), '"Deal (response of retrieve)": names and types of the fields'
    return None


def _look_at(model: Any, found: Mapping[str, Any], seen: Counter[str]) -> None:
    """Counts what a document has and how it is written. A document without any optional field shows nothing else."""
    known = {field.wire_name: field for field in fields(model)}
    seen["undocumented"] += len(found.keys() - known.keys())
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
                seen["times"] += text[-1:] not in "Zz"


class Findings:
    """The questions with their answers, and what follows from them."""

    def __init__(self, known: str | None) -> None:
        self.known = known
        self.answers: dict[str, tuple[Question, Answer | None]] = {}
        self.breaches: dict[str, tuple[str, str]] = {}
        self.stopped = ""

    def add(self, question: Question, answer: Answer | None) -> None:
        self.answers[question.name] = question, answer
        if breach := _breach(question, answer, self.known):
            self.breaches[question.name] = breach

    def answer(self, name: str) -> Answer | None:
        """The answer to a question, if there is one and it keeps the contract."""
        return self.answers[name][1] if name in self.answers and name not in self.breaches else None

    @property
    def deal(self) -> Counter[str]:
        """What a known deal shows."""
        seen: Counter[str] = Counter()
        if (answer := self.answer("a known deal")) is not None:
            # Numbers as they are written. A document that is nested too deeply for this tells nothing.
            _look_at(Deal, answer.json(parse_int=str, parse_float=str) or {}, seen)
        return seen

    @property
    def readings(self) -> list[str]:
        """The readings with which the sandbox answers as the service does, in the order in which it plays them."""
        found = {q.readings.get(a.status, "") for q, a in self.answers.values() if a and q.name not in self.breaches}
        missing, deal = self.answer("a deal that does not exist"), self.deal
        if missing is not None:
            found.add(_ERRORS.get(missing.kind, ""))
        sized = [a for a in (missing, self.answer("a known deal")) if a is not None]
        if any("content-length" not in answer.headers for answer in sized):
            found.add("chunked")
        if deal and not deal["there"]:
            found.add("nulls" if deal["null"] else "sparse" if deal["missing"] else "")
        found |= {name for name in ("numbers", "times") if deal[name]} | ({"extra"} if deal["undocumented"] else set())
        return [name for name in READINGS if name in found]

    @property
    def is_strict(self) -> bool:
        answer = self.answer("with an undocumented field")
        problem = answer.json() if answer is not None else None
        errors = problem.get("errors") if isinstance(problem, dict) else None
        return isinstance(errors, list) and any(
            isinstance(e, dict) and e.get("code") == "unknown_field" for e in errors
        )

    def not_known(self, options: Namespace) -> Iterator[str]:
        yield (
            "the status of a successful create, because no valid create is ever sent: if you know it to be 200, add ok to the "
            "readings of the profile"
        )
        if self.known is None:
            yield "how deals are written, and whether keys guard them: name one with --deal ID"
        if (refused := self.answer("a made-up key")) and refused.status == 404:
            yield "whether keys are looked at: a made-up key got a 404, as at another server, or at a wrong path of the service"
        if not options.creates:
            yield "how an invalid create is refused, and whether undocumented fields are: --creates sends invalid creates"
        forms = Counter(a.kind for _, a in self.answers.values() if a and a.status >= 400 and a.kind != "no body")
        if len(forms) > 1:
            yield f"one form of errors: there are {', '.join(forms)}; the sandbox has that of a deal that does not exist"
        if self.deal["there"] and (self.deal["missing"] or self.deal["null"]):
            yield (
                f"which fields may be missing or null: of this deal's, {self.deal['missing']} are missing and "
                f"{self.deal['null']} null; the sandbox leaves out all of them (sparse, nulls) or none"
            )


def run(options: Namespace) -> int:
    """Asks, reports, and writes the profile."""
    out = Path(options.profile_out) if options.profile_out else None
    if out and is_there(out):
        raise Failed(f"{named(out)} exists; choose another name, or delete it")
    with connect(options, max_retries=0) as client:
        questions = [*ANYBODY, *(OF_A_DEAL if options.deal else ()), *(CREATES if options.creates else ())]
        most = f"{counted(len(questions) + 1, 'request')}, {options.rate_limit:g} a second at most"
        creates = f"{len(CREATES)} of them are invalid creates." if options.creates else "None of them is a create."
        say(f"Sending up to {most}. {creates}")
        first = probe(client)
        # It says best why nothing else can be asked.
        if isinstance(first, APIConnectionError | AuthenticationError | RateLimitError | ThrottledError):
            raise first
    findings = _ask(_Sender(options), questions, options.deal)
    _report(findings, options)
    if findings.stopped:
        # Half of the answers would make a profile that claims too much.
        why = f"{findings.stopped}{'; no profile was written' * bool(out)}"
        raise Failed(why, INCOMPLETE if findings.breaches else NO_SERVICE)
    if out:
        _write(out, findings, options)
    return INCOMPLETE if findings.breaches else DONE


def _ask(sender: _Sender, questions: list[Question], known: str | None) -> Findings:
    findings = Findings(known)
    no = f"dealkit-check-{secrets.token_hex(8)}"
    escaped = "".join(f"%{byte:02X}" for byte in (known or "").encode())
    ids = {"no": no, "deal": quote(known or no, safe=""), "escaped": escaped, "twice": escaped.replace("%", "%25")}
    progress = Progress("request", len(questions))
    try:
        for question in questions:
            answer = sender.ask(question, ids)
            if answer and answer.status in (429, 503):
                findings.stopped = (
                    f"the service asks for fewer requests (it answered {answer.status}), so no more were sent"
                )
                break
            findings.add(question, answer)
            progress.advance()
            if question.body and (answer is None or answer.status < 300):
                findings.stopped = _CREATED
                break
    except Failed as why:
        findings.stopped = str(why)
    finally:
        progress.end()
    return findings


def _report(findings: Findings, options: Namespace) -> None:
    result: dict[str, Any] = options.result
    result["counts"] = {"asked": len(findings.answers), "breaches": len(findings.breaches)}
    result["answers"] = [
        {
            "question": name,
            "request": _shown(question.request),
            "answer": f"{answer.status} with {answer.kind}" if answer else "no response",
            "verdict": _verdict(question, answer) if name not in findings.breaches else "breaks the contract",
        }
        for name, (question, answer) in findings.answers.items()
    ]
    result["breaches"] = [
        {"asked": f"{name}: {_shown(findings.answers[name][0].request)}", "came": came, "contract": rule}
        for name, (came, rule) in findings.breaches.items()
    ]
    result["readings"], result["strict"] = findings.readings, findings.is_strict
    result["not_known"] = [*findings.not_known(options)]
    say()
    say_all(table([{label(name): text for name, text in row.items()} for row in result["answers"]]))
    for breach in result["breaches"]:
        say()
        say(painted("Breaks the contract", "red"))
        say_all(pairs({label(name): text for name, text in breach.items()}, indent="  "))
    say()
    say(f"Readings: {', '.join(findings.readings) or 'reference'}{', and strict' * findings.is_strict}")
    for text in result["not_known"]:
        say(f"Not known: {text}.")


def _verdict(question: Question, answer: Answer | None) -> str:
    return "as the sandbox" if answer and question.permissible.startswith(str(answer.status)) else "permissible"


def _shown(request: str) -> str:
    return re.sub(r"\{\w+\}", "{id}", request)


def _write(out: Path, findings: Findings, options: Namespace) -> None:
    lines = [
        f"# How a service reads the specification, as `dealkit check --contract` found on {date.today()}.",
        "# For `dealkit-server --profile FILE`; in Python, Sandbox(**tomllib.load(file)).",
        *(f"# Not known: {text}." for text in findings.not_known(options)),
        f'reading = "{",".join(findings.readings) or "reference"}"',
        f"strict = {str(findings.is_strict).lower()}",
    ]
    try:
        with replacing(out) as file:
            file.write("\n".join([*lines, ""]).encode())
    except OSError as error:
        raise Failed(f"{named(out)} cannot be written: {error.strerror}", UNWRITABLE) from error
    options.result["files"]["profile"] = str(out)

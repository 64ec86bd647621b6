"""`dealkit check --contract`: the reading that a service takes, the profile with which the sandbox takes it, and what breaks the
contract."""

from __future__ import annotations

import json
import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import dealkit
from conftest import Authority, answer

from dealkit.testing import READINGS, Sandbox

ALL = ("--deal", "d_1", "--creates")


def check(url: str, *options: str | Path, key: str = "sandbox-key") -> Any:
    return dealkit("check", "--contract", "--rate-limit", "1000", "--json", *options, url=url, key=key)


def found(url: str, *options: str | Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(check(url, *options).shown)
    assert result.pop("errors") == []
    del result["files"]
    return result


MIXED = ["sparse,extra,errors-html", "forbidden,bad-request,nulls,chunked,errors-foreign", "numbers,times,errors-empty"]


@pytest.mark.parametrize("reading", [*READINGS, *MIXED])
@pytest.mark.parametrize("strict", [False, True])
def test_the_reading_is_found_and_the_profile_plays_it(reading: str, strict: bool, tmp_path: Path) -> None:
    profile = tmp_path / "service.toml"
    with Sandbox(reading=reading, strict=strict) as service:
        seen = found(service.url, *ALL, "--profile-out", profile)
        assert service.agents == []
    # No valid create is sent, so its status stays unknown.
    assert ",".join(seen["readings"]) == ("" if reading in ("ok", "reference") else reading)
    assert seen["breaches"] == [] and len(seen["not_known"]) == 1
    # What a problem does not say cannot be known.
    assert seen["strict"] == (strict and "errors-" not in reading)
    with Sandbox(**tomllib.loads(profile.read_text())) as double:
        assert found(double.url, *ALL) == seen


def test_only_what_was_announced_is_sent(dealkit_sandbox: Sandbox) -> None:
    for options, most in (((), 14), (("--deal", "d_1"), 20), (ALL, 27)):
        dealkit_sandbox.clear_requests()
        done = dealkit("check", "--contract", "--rate-limit", "1000", *options, url=dealkit_sandbox.url)
        assert done.code == 0 and done.shown.startswith(f"Sending up to {most} requests, 1000 a second at most.")
        sent = dealkit_sandbox.requests
        assert len(sent) <= most
        methods = {request.method for request in sent}
        assert methods == {"GET", "HEAD", "OPTIONS", "PROPFIND", *(["POST"] if options == ALL else [])}
        bodies = [json.loads(request.body) for request in sent if request.body not in (b"", b"{")]
        assert not any({"email", "last_name", "profile"} & {*body} for body in bodies)
        assert dealkit_sandbox.agents == []
        assert ("--deal ID" in done.shown, "--creates" in done.shown) == (not options, options != ALL)
        assert "sandbox-key" not in done.shown and "d_1" not in done.shown


class Broken:
    """A sandbox behind a server that answers some requests itself."""

    def __init__(self, sandbox: Sandbox, pattern: str, instead: bytes) -> None:
        self._port = int(sandbox.url.rpartition(":")[2])
        self._pattern, self._instead = pattern, instead

    def __call__(self, request: bytes) -> bytes:
        if re.search(self._pattern, request.decode(), re.DOTALL):
            return self._instead
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            request = re.sub(rb"(?i)connection: \S+\r\n", b"", request)
            connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            return b"".join(iter(lambda: connection.recv(65536), b""))


UNKNOWN = r"^GET /v1/deals/dealkit-check-\w+ (?=.*sandbox-key)"
KNOWN = r"^GET /v1/deals/d_1 (?!.*\r\nIf-)(?=.*sandbox-key)"
DEAL = '{"id": "d_1"}'
PROBLEM = {"Content-Type": "application/problem+json"}


@pytest.mark.parametrize(
    ("pattern", "instead", "asked", "came", "contract"),
    [
        (UNKNOWN, answer(200, '{"id": "x"}'), "a deal that does not exist", "200 with JSON", "Retrieve a deal"),
        (UNKNOWN, answer(500, "sandbox-key"), "a deal that does not exist", "500 with other content", "Retrieve"),
        (UNKNOWN, answer(302), "a deal that does not exist", "302 with no body", "Retrieve a deal"),
        (UNKNOWN, answer(404, "<h1>", PROBLEM), "a deal that", "declared as problem details", "RFC 9457, 3"),
        (r"Key: dealkit.*\r\n\r\n$", answer(200, DEAL), "a made-up key", "200 with JSON", "Authentication"),
        (r"Key: dealkit.*\r\n\r\n$", answer(401), "a made-up key", "without the header www-auth", "RFC 9110, 15.5.2"),
        (r"^GET (?!.*-Key)", answer(200, DEAL), "no key", "200 with JSON", "Authentication"),
        (r"^PROPFIND", answer(405), "an unknown method", "without the header allow", "RFC 9110, 15.5.6"),
        (r"^PROPFIND", b"\0\r\n\r\n", "an unknown method", "the connection ended without a response", "Endpoints"),
        (r"^GET /v1/dealkit", answer(500), "an unknown path", "500 with no body", "Endpoints"),
        (r"%FF ", answer(500), "an escape that is not UTF-8", "500 with no body", "Endpoints"),
        (r"%2Fx ", answer(200, DEAL), "an escaped slash", "200 with JSON", "RFC 3986"),
        (r"^HEAD /v1/deals/d_1", answer(500), "HEAD of a known deal", "500 with no body", "RFC 9110, 9.3"),
        (
            r"^OPTIONS .*deals",
            answer(200, "", {"Allow": "POST, HEAD"}),
            "the methods of a deal",
            "GET missing",
            "10.2.1",
        ),
        (r"^OPTIONS .*agents", answer(204, "", {"Allow": "GET"}), "the methods of agents", "POST missing", "10.2.1"),
        (KNOWN, answer(200, "<h1>Log in</h1>"), "a known deal", "", "Deal (response of retrieve)"),
        (KNOWN, answer(200, '{"id": "d_1", "quotes": [{"id": 1}]}'), "a known deal", "quotes[0].id", "Deal (response"),
        (KNOWN, answer(200, '{"id": "d_2"}'), "a known deal", "a deal with another id", "Retrieve a deal"),
        (KNOWN, answer(204), "a known deal", "204 with no body", "Retrieve a deal"),
        (r"/%64%5F%31 ", answer(404), "its id, all of it escaped", "404 with no body", "RFC 3986"),
        (r"/%2564%255F%2531 ", answer(200, DEAL), "its id, escaped twice", "200 with JSON", "RFC 3986"),
        (r"If-None-Match", answer(500), "if it has changed", "500 with no body", "RFC 9110, 13"),
        (r"If-Match", answer(304), "if it is another", "304 with no body", "RFC 9110, 13"),
        (r"^(?!.*text/plain).*sandbox-key.*\r\n\r\n\{\}", answer(500), "a create of {}", "500 with no body", "Errors"),
        (r"text/plain", answer(500), "declared as text", "500 with no body", "Errors"),
    ],
)
def test_a_breach_is_named(
    pattern: str, instead: bytes, asked: str, came: str, contract: str, dealkit_sandbox: Sandbox, peer: Any
) -> None:
    done = check(peer(Broken(dealkit_sandbox, pattern, instead)).url, *ALL)
    result = json.loads(done.shown)
    assert done.code == 1 and result["counts"]["breaches"] == 1 and result["counts"]["asked"] == 26
    (breach,) = result["breaches"]
    assert breach["asked"].startswith(asked) and came in breach["came"] and contract in breach["contract"], breach
    for text in (breach["came"], breach["contract"], breach["asked"]):
        assert text in re.sub(r"\s+", " ", done.told)
    assert "sandbox-key" not in done.shown + done.told


def test_over_tls_with_a_key_in_a_file(dealkit_sandbox: Sandbox, peer: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    secure = peer(Broken(dealkit_sandbox, "^never", b""), authority.issue(), authority.file)
    (tmp_path / "key").write_text("sandbox-key\n")
    options = ["--json", "--rate-limit", "1000"]
    trusts: list[str | Path] = ["--ca-file", authority.file, "--client-cert", authority.issue("client")]
    env = {"DEALKIT_SERVICE_KEY_FILE": str(tmp_path / "key"), "HTTPS_PROXY": "http://127.0.0.1:9"}
    done = dealkit("check", "--contract", *options, *trusts, url=secure.url, key="", env=env)
    assert done.code == 0 and json.loads(done.shown)["counts"] == {"asked": 13, "breaches": 0}


def test_a_create_that_is_accepted_is_the_last(dealkit_sandbox: Sandbox, peer: Any) -> None:
    lenient = peer(Broken(dealkit_sandbox, r"\r\n\r\n\{\}", answer(201, '{"id": "a"}')))
    done = check(lenient.url, *ALL)
    assert done.code == 1 and "an agent without a name may have been created" in done.told
    assert sum(request.startswith(b"POST") for request in lenient.requests) == 1


def test_a_service_that_asks_for_fewer_requests_gets_none(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    dealkit_sandbox.fail_next(status=429, after=5, times=None)
    done = check(dealkit_sandbox.url, *ALL, "--profile-out", tmp_path / "service.toml")
    assert done.code == 3 and "it answered 429" in done.told and len(dealkit_sandbox.requests) == 6
    assert "no profile was written" in done.told and [*tmp_path.iterdir()] == []
    assert json.loads(done.shown)["counts"]["asked"] == 4


def test_what_keeps_it_from_asking(dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    (there := tmp_path / "there.toml").write_text("mine")
    done = check(dealkit_sandbox.url, "--profile-out", there)
    assert done.code == 2 and "exists; choose another name" in done.told and there.read_text() == "mine"
    done = dealkit("check", "--deal", "d_1", url=dealkit_sandbox.url)
    assert done.code == 2 and "belong to --contract" in done.told
    assert dealkit_sandbox.requests == []
    done = check(dealkit_sandbox.url, key="hunter2")
    assert done.code == 3 and "rejects the key" in done.told and "hunter2" not in done.told
    assert len(dealkit_sandbox.requests) == 1
    done = check(f"{dealkit_sandbox.url}/wrong")
    assert "as at another server, or at a wrong path" in done.shown
    done = check("http://127.0.0.1:9")
    assert done.code == 3 and "nothing is listening" in done.told

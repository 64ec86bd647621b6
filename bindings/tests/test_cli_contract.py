"""`dealkit check --conformance`: the variant of a service, and violations of the specification."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest
from commands import run_command
from conftest import CertificateAuthority, http_response

from dealkit.testing import VARIANTS, Sandbox


def run_conformance_check(url: str, *options: str, key: str = "sandbox-key") -> Any:
    return run_command("check", "--conformance", "--rate-limit", "1000", "--json", *options, url=url, key=key)


COMBINED_VARIANTS = ["sparse,extra,errors-html", "forbidden,nulls,chunked,errors-foreign", "numbers,times,errors-empty"]


def test_variants_are_detected() -> None:
    for variant in (*VARIANTS, *COMBINED_VARIANTS):
        with Sandbox(variant=variant) as service:
            done = run_conformance_check(service.url, "--deal", "d_1")
            sent = service.requests
        found = json.loads(done.stdout)
        # The command creates no agents, so the variants of creates stay unknown.
        expected = variant if variant not in ("ok", "reference", "bad-request") else ""
        assert (done.code, ",".join(found["variants"]), found["errors"]) == (0, expected, []), variant
        assert f"\n  dealkit-server --variant {expected or 'reference'}\n" in done.stderr
        assert {one["verdict"] for one in found["answers"]} <= {"as the sandbox", "permissible"}
        assert {request.method for request in sent} == {"GET", "HEAD", "OPTIONS", "PROPFIND"}


def test_only_the_announced_requests_are_sent(dealkit_sandbox: Sandbox) -> None:
    for options, max_requests in (((), 6), (("--deal", "d_1"), 10)):
        dealkit_sandbox.clear_requests()
        done = run_command("check", "--conformance", "--rate-limit", "1000", *options, url=dealkit_sandbox.url)
        assert done.code == 0 and done.stdout.startswith(
            f"Sending up to {max_requests} requests, 1000 a second at most."
        )
        assert len(dealkit_sandbox.requests) <= max_requests and ("No deal was read." in done.stdout) == (not options)
        assert "sandbox-key" not in done.stdout and "d_1" not in done.stdout


class FaultyProxy:
    """A proxy of a sandbox that responds to requests that match a pattern itself."""

    def __init__(self, sandbox: Sandbox, pattern: str, replacement: bytes) -> None:
        self._port = int(sandbox.url.rpartition(":")[2])
        self._pattern, self._replacement = pattern, replacement

    def __call__(self, request: bytes) -> bytes:
        if re.search(self._pattern, request.decode(), re.DOTALL | re.IGNORECASE):
            return self._replacement
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            request = re.sub(rb"(?i)connection: \S+\r\n", b"", request)
            connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            return b"".join(iter(lambda: connection.recv(65536), b""))


UNKNOWN_DEAL_REQUEST = r"^GET /v1/deals/dealkit-check-\w+ (?=.*sandbox-key)"
KNOWN_DEAL_REQUEST = r"^GET /v1/deals/d_1 (?!.*\r\nIf-)(?=.*sandbox-key)"
UNKNOWN_KEY_REQUEST = r"^GET .*key: dealkit-check-"
DEAL = '{"id": "d_1"}'


def test_a_violation_is_reported(dealkit_sandbox: Sandbox, peer: Any) -> None:
    for pattern, replacement, asked, rule in (
        (UNKNOWN_DEAL_REQUEST, http_response(200, '{"id": "x"}'), "a deal that does not exist", "Retrieve a deal"),
        (UNKNOWN_DEAL_REQUEST, http_response(500, "sandbox-key"), "a deal that does not exist", "Retrieve a deal"),
        (UNKNOWN_DEAL_REQUEST, http_response(302), "a deal that does not exist", "Retrieve a deal"),
        (UNKNOWN_KEY_REQUEST, http_response(200, DEAL), "a made-up key", "Authentication"),
        (r"^PROPFIND", b"\0\r\n\r\n", "an unknown method", "Endpoints"),
        (r"^GET /v1/dealkit", http_response(500), "an unknown path", "Endpoints"),
        (r"^HEAD /v1/deals/d_1", http_response(500), "HEAD of a known deal", "RFC 9110, 9.3"),
        (KNOWN_DEAL_REQUEST, http_response(200, "<h1>Log in</h1>"), "a known deal", "Deal (response of retrieve)"),
        (
            KNOWN_DEAL_REQUEST,
            http_response(200, '{"id": "d_1", "quotes": [{"id": 1}]}'),
            "a known deal",
            "quotes[0].id",
        ),
        (KNOWN_DEAL_REQUEST, http_response(200, '{"id": "d_2"}'), "a known deal", "Retrieve a deal"),
        (r"If-None-Match", http_response(500), "if it has changed", "RFC 9110, 13"),
    ):
        done = run_conformance_check(peer(FaultyProxy(dealkit_sandbox, pattern, replacement)).url, "--deal", "d_1")
        result = json.loads(done.stdout)
        assert (done.code, result["counts"]) == (1, {"asked": 10, "breaches": 1}), (pattern, done)
        (breach,) = (one for one in result["answers"] if one["verdict"].startswith("breaks the specification: "))
        assert breach["question"] == asked and rule in breach["verdict"] and breach["verdict"] in done.stderr
        assert "sandbox-key" not in done.stdout + done.stderr


def test_the_check_works_over_tls_with_a_key_file(dealkit_sandbox: Sandbox, peer: Any, tmp_path: Any) -> None:
    authority = CertificateAuthority(tmp_path / "ca")
    secure = peer(FaultyProxy(dealkit_sandbox, "^never", b""), authority.issue(), authority.file)
    (tmp_path / "key").write_text("sandbox-key\n")
    trusts = ["--ca-file", str(authority.file), "--client-cert", str(authority.issue("client"))]
    env = {"DEALKIT_SERVICE_KEY_FILE": str(tmp_path / "key")}
    command = ["check", "--conformance", "--json", "--rate-limit", "1000"]
    completed = run_command(*command, *trusts, url=secure.url, key="", env=env)
    assert completed.code == 0 and json.loads(completed.stdout)["counts"] == {"asked": 6, "breaches": 0}


@pytest.mark.parametrize("status", [429, 503])
def test_a_rate_limited_service_gets_no_more_requests(status: int, dealkit_sandbox: Sandbox) -> None:
    dealkit_sandbox.fail_next(status=status, after=3, times=None)
    completed = run_conformance_check(dealkit_sandbox.url)
    assert completed.code == 3 and str(status) in completed.stderr and len(dealkit_sandbox.requests) == 4
    assert json.loads(completed.stdout)["counts"] == {"asked": 3, "breaches": 0}


def test_errors_before_the_requests(dealkit_sandbox: Sandbox) -> None:
    done = run_command("check", "--deal", "d_1", url=dealkit_sandbox.url)
    assert done.code == 2 and "--deal works only together with --conformance." in done.stderr
    assert dealkit_sandbox.requests == []
    completed = run_conformance_check(dealkit_sandbox.url, key="hunter2")
    assert completed.code == 3 and "rejects the service key" in completed.stderr and "hunter2" not in completed.stderr
    assert len(dealkit_sandbox.requests) == 1
    completed = run_conformance_check("http://127.0.0.1:9")
    assert completed.code == 3 and "nothing is listening" in completed.stderr

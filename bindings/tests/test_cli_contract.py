"""`dealkit check --conformance`: the variant of a service, and violations of the specification."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import pytest
from commands import dealkit
from conftest import Authority, answer

from dealkit.testing import VARIANTS, Sandbox


def check(url: str, *options: str, key: str = "sandbox-key") -> Any:
    return dealkit("check", "--conformance", "--rate-limit", "1000", "--json", *options, url=url, key=key)


MIXED = ["sparse,extra,errors-html", "forbidden,nulls,chunked,errors-foreign", "numbers,times,errors-empty"]


def test_variants_are_detected() -> None:
    for variant in (*VARIANTS, *MIXED):
        with Sandbox(variant=variant) as service:
            done = check(service.url, "--deal", "d_1")
            sent = service.requests
        found = json.loads(done.shown)
        # The command creates no agents, so the variants of creates stay unknown.
        expected = variant if variant not in ("ok", "reference", "bad-request") else ""
        assert (done.code, ",".join(found["variants"]), found["errors"]) == (0, expected, []), variant
        assert f"\n  dealkit-server --variant {expected or 'reference'}\n" in done.told
        assert {one["verdict"] for one in found["answers"]} <= {"as the sandbox", "permissible"}
        assert {request.method for request in sent} == {"GET", "HEAD", "OPTIONS", "PROPFIND"}


def test_only_the_announced_requests_are_sent(dealkit_sandbox: Sandbox) -> None:
    for options, max_requests in (((), 6), (("--deal", "d_1"), 10)):
        dealkit_sandbox.clear_requests()
        done = dealkit("check", "--conformance", "--rate-limit", "1000", *options, url=dealkit_sandbox.url)
        assert done.code == 0 and done.shown.startswith(
            f"Sending up to {max_requests} requests, 1000 a second at most."
        )
        assert len(dealkit_sandbox.requests) <= max_requests and ("Without --deal ID" in done.shown) == (not options)
        assert "sandbox-key" not in done.shown and "d_1" not in done.shown


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


UNKNOWN = r"^GET /v1/deals/dealkit-check-\w+ (?=.*sandbox-key)"
KNOWN = r"^GET /v1/deals/d_1 (?!.*\r\nIf-)(?=.*sandbox-key)"
STRANGER = r"^GET .*key: dealkit-check-"
DEAL = '{"id": "d_1"}'


def test_a_violation_is_reported(dealkit_sandbox: Sandbox, peer: Any) -> None:
    for pattern, replacement, asked, rule in (
        (UNKNOWN, answer(200, '{"id": "x"}'), "a deal that does not exist", "Retrieve a deal"),
        (UNKNOWN, answer(500, "sandbox-key"), "a deal that does not exist", "Retrieve a deal"),
        (UNKNOWN, answer(302), "a deal that does not exist", "Retrieve a deal"),
        (STRANGER, answer(200, DEAL), "a made-up key", "Authentication"),
        (r"^PROPFIND", b"\0\r\n\r\n", "an unknown method", "Endpoints"),
        (r"^GET /v1/dealkit", answer(500), "an unknown path", "Endpoints"),
        (r"^HEAD /v1/deals/d_1", answer(500), "HEAD of a known deal", "RFC 9110, 9.3"),
        (KNOWN, answer(200, "<h1>Log in</h1>"), "a known deal", "Deal (response of retrieve)"),
        (KNOWN, answer(200, '{"id": "d_1", "quotes": [{"id": 1}]}'), "a known deal", "quotes[0].id"),
        (KNOWN, answer(200, '{"id": "d_2"}'), "a known deal", "Retrieve a deal"),
        (r"If-None-Match", answer(500), "if it has changed", "RFC 9110, 13"),
    ):
        done = check(peer(FaultyProxy(dealkit_sandbox, pattern, replacement)).url, "--deal", "d_1")
        result = json.loads(done.shown)
        assert (done.code, result["counts"]) == (1, {"asked": 10, "breaches": 1}), (pattern, done)
        (breach,) = (one for one in result["answers"] if one["verdict"].startswith("breaks the contract: "))
        assert breach["question"] == asked and rule in breach["verdict"] and breach["verdict"] in done.told
        assert "sandbox-key" not in done.shown + done.told


def test_over_tls_with_a_key_in_a_file(dealkit_sandbox: Sandbox, peer: Any, tmp_path: Any) -> None:
    authority = Authority(tmp_path / "ca")
    secure = peer(FaultyProxy(dealkit_sandbox, "^never", b""), authority.issue(), authority.file)
    (tmp_path / "key").write_text("sandbox-key\n")
    trusts = ["--ca-file", str(authority.file), "--client-cert", str(authority.issue("client"))]
    env = {"DEALKIT_SERVICE_KEY_FILE": str(tmp_path / "key")}
    command = ["check", "--conformance", "--json", "--rate-limit", "1000"]
    done = dealkit(*command, *trusts, url=secure.url, key="", env=env)
    assert done.code == 0 and json.loads(done.shown)["counts"] == {"asked": 6, "breaches": 0}


@pytest.mark.parametrize("status", [429, 503])
def test_a_rate_limited_service_gets_no_more_requests(status: int, dealkit_sandbox: Sandbox) -> None:
    dealkit_sandbox.fail_next(status=status, after=3, times=None)
    done = check(dealkit_sandbox.url)
    assert done.code == 3 and str(status) in done.told and len(dealkit_sandbox.requests) == 4
    assert json.loads(done.shown)["counts"] == {"asked": 3, "breaches": 0}


def test_errors_before_the_requests(dealkit_sandbox: Sandbox) -> None:
    done = dealkit("check", "--deal", "d_1", url=dealkit_sandbox.url)
    assert done.code == 2 and "--deal belongs to --conformance" in done.told
    assert dealkit_sandbox.requests == []
    done = check(dealkit_sandbox.url, key="hunter2")
    assert done.code == 3 and "rejects the key" in done.told and "hunter2" not in done.told
    assert len(dealkit_sandbox.requests) == 1
    done = check("http://127.0.0.1:9")
    assert done.code == 3 and "nothing is listening" in done.told

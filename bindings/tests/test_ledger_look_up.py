"""Looks up rows in a ledger without a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from processes import HANG_SECONDS

from dealkit import Client, LedgerError, ledger
from dealkit.ledger import LedgerRow, look_up, resolve
from dealkit.testing import Sandbox

CANARY = "canary@example.com"


def create(sandbox: Sandbox, ledger: Path, *emails: str) -> None:
    rows: list[Any] = [{"email": email, "first_name": "A", "last_name": "B", "profile": {}} for email in emails]
    with Client(base_url=sandbox.url, service_key=sandbox.service_key) as client:
        for _ in client.agents.create_many(rows, ledger=ledger, key="email", concurrency=1, on_error="return"):
            pass


def test_look_up_returns_a_row_for_each_key(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    ledger = tmp_path / "agents.ledger"
    emails = ["a@example.com", "b@example.com", "c@example.com"]
    assert look_up(ledger, emails) == [None] * 3 and not ledger.exists()
    dealkit_sandbox.fail_next(status=422)
    create(dealkit_sandbox, ledger, *emails[:2])
    rejected = LedgerRow("rejected", None, 422, title="Unprocessable Entity")
    created = LedgerRow("succeeded", dealkit_sandbox.agents[0].id, None)
    found = look_up(str(ledger), iter(emails), key_name="email")
    assert [row and row._replace(sent_at=None, request_id=None) for row in found] == [rejected, created, None]
    assert [row is not None and row.sent_at is not None for row in found] == [True, True, False]
    assert found[0] and found[0].request_id in {request.request_id for request in dealkit_sandbox.requests}
    assert look_up(ledger, reversed(emails)) == found[::-1]


def test_look_up_rejects_invalid_arguments(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    ledger = tmp_path / "agents.ledger"
    create(dealkit_sandbox, ledger, CANARY)
    with pytest.raises(
        LedgerError, match='its keys are called "email", but the keys in use are called "phone"'
    ) as raised:
        look_up(ledger, [CANARY], key_name="phone")
    assert raised.value.reason == "other_keys" and CANARY not in str(raised.value)
    with pytest.raises(LedgerError, match="not a regular file"):
        look_up(tmp_path, [CANARY])
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        (1, [], TypeError, "path must be the path of a file, not int"),
        (ledger, CANARY, TypeError, "keys must be an iterable of str, not one str"),
        (ledger, [CANARY, 1], TypeError, "the key at index 1 must be a str, not int"),
        (
            ledger,
            ["\ud800canary"],
            ValueError,
            "the key at index 0 contains an unpaired surrogate, which is not valid text",
        ),
    ]
    for path, keys, kind, text in wrong:
        with pytest.raises(kind) as caught:
            look_up(path, keys)
        assert str(caught.value) == text
    with pytest.raises(TypeError, match="key_name must be the name of a field, not list"):
        look_up(ledger, [], key_name=[])  # type: ignore[arg-type]


def test_paths_may_be_bytes_and_need_not_be_text(tmp_path: Path, dealkit_sandbox: Sandbox) -> None:
    # Bytes are also valid paths, although the declared type excludes them.
    folder: Any = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("the file system takes only valid text")
    name = folder + b"/\xff.ledger"
    path = Path(os.fsdecode(name))
    create(dealkit_sandbox, path, "a@example.com")
    for given in (name, path, str(path)):
        assert ledger.path(given) == path and look_up(given, ["a@example.com"])[0] is not None
        assert ledger.summary(given).succeeded == 1 and resolve(given, {}) == 0
        assert ledger.display_name(given).endswith("caf\ufffd/\ufffd.ledger")
    assert ledger.in_folder(folder) == ledger.in_folder(os.fsdecode(folder)) == [path]
    ledger.backup(name, folder + b"/\xfe")
    assert ledger.summary(folder + b"/\xfe").succeeded == 1
    with dealkit_sandbox.client() as client:
        rows: list[Any] = [{"email": "b@example.com", "first_name": "A", "last_name": "B", "profile": {}}]
        for expected in ("created", "already_created"):
            (row,) = client.agents.create_many(rows, ledger=name, key="email")
            assert row.result == expected
    # These bytes are a URL, not the name of a file.
    url: Any = b"postgresql://db.example.com/\xff"
    assert ledger.path(url) is None


@pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")
def test_in_folder_includes_unreadable_ledgers(dealkit_sandbox: Sandbox) -> None:
    """The unreadable ledger may be a colleague's with the same rows."""
    code = "import os, sys; from dealkit import ledger\nif os.geteuid() == 0: os.seteuid(65534)\nprint(*ledger.in_folder(sys.argv[1]))"
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        create(dealkit_sandbox, folder / "theirs.ledger", "a@example.com")
        (folder / "photograph.jpg").write_bytes(bytes(5000))
        for path in folder.iterdir():
            path.chmod(0)
        found = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert found.stdout.split() == [str(folder / "theirs.ledger")], found.stderr

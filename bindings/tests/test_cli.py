"""The `dealkit` command: what all its commands have in common, `dealkit deal` and `dealkit check`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import Terminal, dealkit, environment
from conftest import answer, exact
from processes import HANGS

from dealkit import Client
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f"
COMMANDS = [["deal"], ["deals", "export"], ["agents", "import"], ["check"]]


def test_the_command_is_installed_and_so_is_the_module(dealkit_sandbox: Sandbox) -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["dealkit"] == "dealkit._cli:main"
    done = subprocess.run(
        [sys.executable, "-m", "dealkit", "deal", "d_1"],
        env=environment(dealkit_sandbox.url, "sandbox-key"),
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Deal d_1\n")


def test_version_and_help() -> None:
    from dealkit import __version__

    assert dealkit("--version") == (0, f"dealkit {__version__}\n", "")
    for command in ([], *COMMANDS):
        code, shown, told = dealkit(*command, "--help")
        assert (code, told) == (0, "")
        general = ("DEALKIT_SERVICE_KEY", "DEALKIT_BASE_URL", "exit codes:", "130", "NO_COLOR")
        for said in ("examples:", "dealkit --help") if command else general:
            assert said in shown, (command, said)
        assert "--service-key" not in shown


@pytest.mark.parametrize("group", [[], ["deals"], ["agents"], ["ledger"]])
def test_without_a_command_the_help_is_shown(group: list[str]) -> None:
    done = dealkit(*group)
    assert done == dealkit(*group, "--help") and done.code == 0 and "COMMAND" in done.shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["deal"], "the following arguments are required: ID"),
        (["deal", "a", KEY], "too many arguments\n"),
        (["deal", "a", "--service-key", KEY], "there is no option --service-key here; the service key goes into"),
        (["check", f"--key={KEY}"], "there is no option --key here; the service key goes into DEALKIT_SERVICE_KEY"),
        (["check", f"--shout={KEY}"], "there is no option --shout here\n"),
        (["check", f"--timeuot={KEY}"], "there is no option --timeuot here; is it --timeout?\n"),
        (["check", "--timeout", KEY], "argument --timeout: must be a number greater than zero"),
        (["agents", "import", "a.csv", f"--keys={KEY}"], "there is no option --keys here; is it --key?\n"),
        (
            ["agents", "import", "a.csv", f"--api-key={KEY}"],
            "there is no option --api-key here; the service key goes into",
        ),
        (["deals", "export", "--concurrency", "0"], "argument --concurrency: must be a number greater than zero"),
    ],
)
def test_wrong_use_says_what_is_wrong_and_shows_no_value(arguments: list[str], told: str) -> None:
    done = dealkit(*arguments, url="http://127.0.0.1:9")
    assert (done.code, done.shown) == (2, "")
    assert done.told.startswith(f"dealkit: {told}") and "--help" in done.told
    assert KEY not in done.told


@pytest.mark.parametrize(
    ("url", "key", "told"),
    [
        ("https://deals.example.com", "", "the service key is missing: put it into the environment variable"),
        ("", KEY, "the address of the service is missing: pass it with --base-url https://"),
        ("deals.example.com", KEY, "the base URL is not an absolute URL such as https://deals.example.com"),
        ("http://deals.example.com", KEY, "the base URL is plain http to another machine"),
        ("https://deals.example.com", f"{KEY} ", "DEALKIT_SERVICE_KEY must be 1 to 1024 visible ASCII characters"),
    ],
)
def test_what_is_not_set_up(url: str, key: str, told: str) -> None:
    for command in (["deal", "d_1"], ["check"]):
        done = dealkit(*command, url=url, key=key)
        assert (done.code, done.shown) == (2, "")
        assert done.told.startswith(f"dealkit: {told}") and KEY not in done.told


VIEW = """\
Deal d
  status      CLOSED
  created_at  2024-01-31 09:30:00+00:00
  listing_contract
    id          lc_1
    sale_price  1,450,000
    address
      city  São Paulo
  application
    requested_amount  12,500.50
    offers
      id                     of_1
      percent_of_commission  10.10

      id                     of_2
      percent_of_commission  5.5
  contacts
    type  BUYER
    fields
      label  Note
      value  two\\nlines

    type  SELLER
  extra
    new
      rate  1.10
      on    True
"""
SEEN: dict[str, Any] = {
    "id": "d",
    "status": "CLOSED",
    "created_at": "2024-01-31T10:30:00+01:00",
    "listing_contract": {"id": "lc_1", "sale_price": 1450000, "address": {"city": "São Paulo"}},
    "contacts": [{"type": "BUYER", "fields": [{"label": "Note", "value": "two\nlines"}]}, {"type": "SELLER"}],
}


def seen() -> str:
    """The deal with its numbers, digit for digit."""
    numbers = (
        '"application": {"requested_amount": 12500.50, "offers": [{"id": "of_1", "percent_of_commission": 10.10}, '
        '{"id": "of_2", "percent_of_commission": 5.5}]}, "new": {"rate": 1.10, "on": true}'
    )
    return f"{json.dumps(SEEN)[:-1]}, {numbers}}}"


def test_a_deal_as_people_read_it() -> None:
    with Sandbox([seen()]) as sandbox:
        assert dealkit("deal", "d", url=sandbox.url) == (0, VIEW, "")


def test_a_deal_as_json(dealkit_sandbox: Sandbox, client: Client) -> None:
    dealkit_sandbox.insert_deal(seen())
    code, shown, told = dealkit("deal", "d", "--json", url=dealkit_sandbox.url, env={"PYTHONIOENCODING": "ascii"})
    assert (code, told) == (0, "")
    assert exact(shown) == exact(client.deals.retrieve("d").to_json())
    assert '"requested_amount": 12500.50' in shown and "São Paulo" in shown


def test_json_cannot_command_the_terminal_and_is_the_same_document() -> None:
    hostile = "a\x1b[2Jb\x9bc\u202ed\re\x7f"
    with Sandbox([{"id": "d", "status": hostile, "metadata": {hostile: hostile}}]) as sandbox:
        with Terminal("deal", "d", "--json", url=sandbox.url) as terminal:
            assert terminal.end() == 0
        assert not set("\x1b\x9b\u202e\x7f") & set(terminal.screen)
        assert json.loads(terminal.screen)["metadata"] == {hostile: hostile}
        assert "\\x1b[2Jb\\x9bc\\u202ed\\re\\x7f" in dealkit("deal", "d", url=sandbox.url).shown
        # Elsewhere, it is as exact as the service's.
        assert "\u202e" in dealkit("deal", "d", "--json", url=sandbox.url).shown


def test_colours_are_for_terminals(dealkit_sandbox: Sandbox) -> None:
    for env, colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal("deal", "d_1", url=dealkit_sandbox.url, env=env) as terminal:
            assert terminal.end() == 0
            assert ("\x1b[1mDeal d_1\x1b[0m" in terminal.screen) == colours
            assert "Burlington" in terminal.screen
    assert "\x1b" not in dealkit("deal", "d_1", url=dealkit_sandbox.url).shown


@pytest.mark.parametrize(
    ("fault", "code", "told"),
    [
        ({"status": 401}, 3, "The service rejects the key."),
        ({"status": 403}, 3, "The service knows the key, but does not allow it to do this."),
        ({"status": 404}, 1, "The service has no such deal."),
        ({"status": 429, "retry_after": 0}, 3, "The service asks for fewer requests."),
        ({"status": 500}, 3, "The service failed. Try again later"),
        ({"status": 302}, 3, "302 Found"),
        ({"cut": "after-bytes:9", "after_cut": "eof"}, 3, ""),
        ({"malformed": True}, 3, ""),
    ],
)
def test_a_call_that_fails(fault: dict[str, Any], code: int, told: str, dealkit_sandbox: Sandbox) -> None:
    dealkit_sandbox.fail_next(times=None, **fault)
    dealkit_sandbox.insert_deal({"id": "my-deal"})
    done = dealkit("deal", "my-deal", url=dealkit_sandbox.url)
    assert (done.code, done.shown) == (code, "")
    assert done.told.startswith("dealkit: GET /v1/deals/{id}: ") and told in done.told
    assert "sandbox-key" not in done.told and "my-deal" not in done.told


def test_who_reads_the_output_may_stop(dealkit_sandbox: Sandbox) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "dealkit", "deal", "d_1", "--json"],
        env=environment(dealkit_sandbox.url, "sandbox-key"),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANGS,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("command", [["deal", "d_1"], ["--help"]])
def test_a_full_disk(command: list[str], dealkit_sandbox: Sandbox) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dealkit", *command],
            env=environment(dealkit_sandbox.url, "sandbox-key"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANGS,
        )
    assert (done.returncode, done.stderr) == (
        4,
        "dealkit: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("stream", ["", "2", "<"])
def test_a_stream_that_is_closed(stream: str, dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    closed = f"{stream}&-" if stream == "<" else f"{stream}>&-"
    command = "deals export --ids - --out d.csv" if stream == "<" else "deal d_1"
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m dealkit {command} {closed}"],
        env=environment(dealkit_sandbox.url, "sandbox-key"),
        capture_output=True,
        text=True,
        timeout=HANGS,
        cwd=tmp_path,
    )
    told = {"": "dealkit: standard output is closed", "<": "dealkit: standard input is closed", "2": ""}[stream]
    assert done.returncode == {"": 4, "<": 2, "2": 0}[stream], done
    assert done.stderr.startswith(told) and "Traceback" not in done.stderr


def checked(done: Any) -> dict[str, str]:
    """The results of a check, by label."""
    lines = done.shown.split("\n\n")[0].splitlines()
    return {label: value.strip() for label, _, value in (line.partition(" ") for line in lines)}


def test_check(dealkit_sandbox: Sandbox) -> None:
    done = dealkit("check", url=dealkit_sandbox.url)
    found = checked(done)
    assert (done.code, done.told) == (0, "")
    assert found.pop("Reached").endswith("s, over HTTP/1.1")
    assert found == {"Service": dealkit_sandbox.url, "Key": "accepted"}
    # It only reads: once with the key, and once with a made-up key, which shows that keys are looked at.
    asked = [(request.method, request.status) for request in dealkit_sandbox.requests]
    assert asked == [("GET", 404), ("GET", 401)]
    assert dealkit_sandbox.agents == []


@pytest.mark.parametrize(
    ("fault", "code", "key", "told"),
    [
        ({"status": 401}, 3, "not accepted", "Is it the key for this service, and is it complete?"),
        ({"status": 403}, 3, "not allowed to read deals", "Ask whoever issued the key."),
        ({"status": 503}, 3, "unclear whether it is accepted", "The service failed."),
        ({"status": 404, "times": 2}, 3, "unclear whether it is accepted", "Check the base URL, its path too."),
        ({"status": 200, "body": '{"id": "d"}'}, 0, "accepted", ""),
    ],
)
def test_check_of_a_response(fault: dict[str, Any], code: int, key: str, told: str, dealkit_sandbox: Sandbox) -> None:
    dealkit_sandbox.fail_next(**fault)
    done = dealkit("check", url=dealkit_sandbox.url)
    assert (done.code, done.told, checked(done)["Key"]) == (code, "", key)
    assert told in done.shown


def test_check_of_a_service_that_is_not_there(peer: Any, nowhere: str) -> None:
    done = dealkit("check", url=f"http://{nowhere}")
    assert done.code == 3 and checked(done)["Reached"].startswith("no, after ")
    assert (
        "nothing is listening at the host and port in the base URL; are they right, and is the service up? [see --base-url] ("
        in done.shown
    )

    env = {"HTTPS_PROXY": f"http://{nowhere}", "NO_PROXY": "", "no_proxy": ""}
    done = dealkit("check", "--base-url", "https://deals.example.com", env=env)
    assert done.code == 3 and "the proxy cannot be reached; is its address right, and is it up?" in done.shown

    # A login page, as of a hotel's network, is not a response of the service.
    done = dealkit("check", url=peer(answer(200, "<h1>Log in</h1>", {"Content-Type": "text/html"})).url)
    assert done.code == 3 and "but it did not respond as it should" in checked(done)["Reached"]
    assert "Is a login page in the way?" in done.shown


def test_the_package_does_not_import_the_command() -> None:
    script = "import sys, dealkit; dealkit.Client, dealkit.Deal; print(*(n for n in sys.modules if 'dealkit._cli.' in n or 'argparse' in n))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANGS)
    assert shown.stdout.strip() == ""


def test_a_narrow_terminal(dealkit_sandbox: Sandbox) -> None:
    """No line is wider, no word is cut, and no value is lost."""
    wide = dealkit("deal", "d_1", url=dealkit_sandbox.url).shown
    for arguments in (["deal", "d_1"], ["check"], ["agents", "import", "--help"], ["deal", "nope"]):
        with Terminal(*arguments, url=dealkit_sandbox.url, env={"COLUMNS": "40", "NO_COLOR": "1"}) as terminal:
            terminal.end()
        words = {word for word in re.split(r"\s+", wide if arguments == ["deal", "d_1"] else "") if word}
        assert words <= {*terminal.screen.split()}
        for line in terminal.screen.splitlines():
            assert len(line) <= 40 or len(line.split()) == 1 or line.startswith(("usage:", "  dealkit ")), line


@pytest.mark.parametrize("command", ["check", "deal nope", "deals export --ids - --out o.csv", "ledger show no.ledger"])
def test_every_command_can_print_one_object(command: str, dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    done = dealkit(*command.split(), "--json", url=dealkit_sandbox.url, given="d_1\nd_9\n", cwd=tmp_path)
    found = json.loads(done.shown)
    assert done.shown.count("\n") == 1 and {"counts", "files", "errors"} <= {*found}
    assert len(found["errors"]) == (command != "check")
    assert all(one["message"] in done.told or one["id"] == "d_9" for one in found["errors"])


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    for line, completions in (("dealkit de", ["deal", "deals"]), ("dealkit agents import --date", ["--date-format"])):
        env = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"), "_ARGCOMPLETE_IFS": "\n"}
        env |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
        subprocess.run([sys.executable, "-m", "dealkit"], env={**os.environ, **env}, check=True, timeout=HANGS)
        assert [one.strip() for one in (tmp_path / "out").read_text().split("\n")] == completions

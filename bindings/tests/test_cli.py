"""Common behaviour of the `dealkit` commands, and the commands `dealkit deal` and `dealkit check`."""

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
from commands import Terminal, command_environment, run_command
from conftest import http_response, parse_exact
from processes import HANG_SECONDS

from dealkit import Client
from dealkit.testing import Sandbox

KEY = "sk-canary-0b5e1f"
COMMANDS = [["deal"], ["deals", "export"], ["agents", "import"], ["check"]]


def test_the_command_and_python_m_dealkit_run(dealkit_sandbox: Sandbox) -> None:
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["dealkit"] == "dealkit._cli:main"
    completed = subprocess.run(
        [sys.executable, "-m", "dealkit", "deal", "d_1"],
        env=command_environment(dealkit_sandbox.url, "sandbox-key"),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert (completed.returncode, completed.stderr) == (0, "") and completed.stdout.startswith("Deal d_1\n")


def test_version_and_help() -> None:
    from dealkit import __version__

    assert run_command("--version") == (0, f"dealkit {__version__}\n", "")
    for command in ([], *COMMANDS):
        code, stdout, stderr = run_command(*command, "--help")
        assert (code, stderr) == (0, "")
        general = ("DEALKIT_SERVICE_KEY", "DEALKIT_BASE_URL", "exit codes:", "130", "NO_COLOR")
        for expected in ("examples:", "dealkit --help") if command else general:
            assert expected in stdout, (command, expected)
        assert "--service-key" not in stdout


@pytest.mark.parametrize("group", [[], ["deals"], ["agents"], ["ledger"]])
def test_a_group_without_a_command_prints_its_help(group: list[str]) -> None:
    completed = run_command(*group)
    assert completed == run_command(*group, "--help") and completed.code == 0 and "COMMAND" in completed.stdout


@pytest.mark.parametrize(
    ("arguments", "expected_error"),
    [
        (["deal"], "ID is missing. The command is: dealkit deal ID [OPTIONS]\n"),
        (
            ["deal", "a", KEY],
            "There are too many arguments for dealkit deal. If a name contains spaces, put it in quotation marks.\n",
        ),
        (
            ["deal", "a", "--service-key", KEY],
            "There is no option --service-key for dealkit deal. The service key goes into",
        ),
        (
            ["check", f"--key={KEY}"],
            "There is no option --key for dealkit check. The service key goes into the environment",
        ),
        (["check", f"--shout={KEY}"], "There is no option --shout for dealkit check.\n"),
        (["check", f"--timeuot={KEY}"], "There is no option --timeuot for dealkit check. Did you mean --timeout?\n"),
        (["check", "--timeout", KEY], "--timeout must be a number greater than zero.\n"),
        (
            ["agents", "import", "a.csv", f"--keys={KEY}"],
            "There is no option --keys for dealkit agents import. Did you mean --key?\n",
        ),
        (
            ["agents", "import", "a.csv", f"--api-key={KEY}"],
            "There is no option --api-key for dealkit agents import. The service key goes into",
        ),
        (["deals", "export", "--concurrency", "0"], "--concurrency must be a number greater than zero.\n"),
        (
            ["deals", "export", "--exclude-ids", KEY],
            "--ids and --out are missing. The command is: dealkit deals export",
        ),
        (["check", "--timeout"], "--timeout needs a value, as in --timeout SECONDS.\n"),
        (["check", f"--json={KEY}"], "--json is used without a value. Remove the equals sign and the text after it.\n"),
        (["check", f"-k{KEY}"], "There is no option -k for dealkit check.\n"),
        (["deal", "a", "--on-unreadable", KEY], "--on-unreadable must be raise or skip.\n"),
        (
            ["deal", "a", "--out", KEY],
            "There is no option --out for dealkit deal. --out belongs to dealkit deals export.\n",
        ),
        (["--json", "check"], "--json must follow the command: dealkit check … --json\n"),
        ([KEY], "There is no such command. The commands are dealkit deal, dealkit deals export, "),
        (["agent", "import", KEY], "There is no such command. Did you mean dealkit agents import?\n"),
        (["exprot"], "There is no such command. Did you mean dealkit deals export?\n"),
        (["ledger", "shwo"], "There is no such command. Did you mean dealkit ledger show?\n"),
    ],
)
def test_wrong_arguments_are_named_without_their_values(arguments: list[str], expected_error: str) -> None:
    completed = run_command(*arguments, url="http://127.0.0.1:9")
    assert (completed.code, completed.stdout) == (2, "")
    assert completed.stderr.startswith(f"dealkit: {expected_error}") and "--help" in completed.stderr
    assert KEY not in completed.stderr


@pytest.mark.parametrize(
    ("url", "key", "expected_error"),
    [
        (
            "https://deals.example.com",
            "",
            "The service key (your password for the service) is missing. To enter it, run ",
        ),
        ("", KEY, "The address of the service is missing. Add it to the command, as in --base-url https://"),
        ("deals.example.com", KEY, "--base-url is not an absolute URL such as https://deals.example.com"),
        ("http://deals.example.com", KEY, "the base URL is plain http to another machine"),
        ("https://deals.example.com", f"{KEY} ", "DEALKIT_SERVICE_KEY must be 1 to 1024 visible ASCII characters"),
    ],
)
def test_a_missing_or_invalid_url_or_key_is_an_error(url: str, key: str, expected_error: str) -> None:
    for command in (["deal", "d_1"], ["check"]):
        completed = run_command(*command, url=url, key=key)
        assert (completed.code, completed.stdout) == (2, "")
        assert completed.stderr.startswith(f"dealkit: {expected_error}") and KEY not in completed.stderr
        if "ASCII" in expected_error:
            assert completed.stderr.endswith(
                "your password for the service) again, without spaces before or after it.\n"
            )


EXPECTED_OUTPUT = """\
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
OUTPUTS: dict[str, Any] = {
    "id": "d",
    "status": "CLOSED",
    "created_at": "2024-01-31T10:30:00+01:00",
    "listing_contract": {"id": "lc_1", "sale_price": 1450000, "address": {"city": "São Paulo"}},
    "contacts": [{"type": "BUYER", "fields": [{"label": "Note", "value": "two\nlines"}]}, {"type": "SELLER"}],
}


def expected_output() -> str:
    """The expected output for the deal, with every digit of its numbers."""
    numbers = (
        '"application": {"requested_amount": 12500.50, "offers": [{"id": "of_1", "percent_of_commission": 10.10}, '
        '{"id": "of_2", "percent_of_commission": 5.5}]}, "new": {"rate": 1.10, "on": true}'
    )
    return f"{json.dumps(OUTPUTS)[:-1]}, {numbers}}}"


def test_deal_prints_values_and_nested_models() -> None:
    with Sandbox([expected_output()]) as sandbox:
        assert run_command("deal", "d", url=sandbox.url) == (0, EXPECTED_OUTPUT, "")


def test_a_deal_as_json(dealkit_sandbox: Sandbox, client: Client) -> None:
    dealkit_sandbox.insert_deal(expected_output())
    code, stdout, stderr = run_command(
        "deal", "d", "--json", url=dealkit_sandbox.url, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (code, stderr) == (0, "")
    assert parse_exact(stdout) == parse_exact(client.deals.retrieve("d").to_json())
    assert '"requested_amount": 12500.50' in stdout and "São Paulo" in stdout


def test_json_escapes_control_characters_on_a_terminal_only() -> None:
    hostile = "a\x1b[2Jb\x9bc\u202ed\re\x7f"
    with Sandbox([{"id": "d", "status": hostile, "metadata": {hostile: hostile}}]) as sandbox:
        with Terminal("deal", "d", "--json", url=sandbox.url) as terminal:
            assert terminal.end() == 0
        assert not set("\x1b\x9b\u202e\x7f") & set(terminal.screen)
        assert json.loads(terminal.screen)["metadata"] == {hostile: hostile}
        assert "\\x1b[2Jb\\x9bc\\u202ed\\re\\x7f" in run_command("deal", "d", url=sandbox.url).stdout
        # Without a terminal, the output is the service's exact document.
        assert "\u202e" in run_command("deal", "d", "--json", url=sandbox.url).stdout


def test_colours_appear_on_terminals_only(dealkit_sandbox: Sandbox) -> None:
    for env, colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal("deal", "d_1", url=dealkit_sandbox.url, env=env) as terminal:
            assert terminal.end() == 0
            assert ("\x1b[1mDeal d_1\x1b[0m" in terminal.screen) == colours
            assert "Burlington" in terminal.screen
    assert "\x1b" not in run_command("deal", "d_1", url=dealkit_sandbox.url).stdout


@pytest.mark.parametrize(
    ("fault", "code", "expected_error"),
    [
        ({"status": 401}, 3, "The service rejects the service key (your password for the service). Check that"),
        ({"status": 403}, 3, "but the key does not permit this request. Ask the service's operator"),
        ({"status": 404}, 1, "The service has no such deal."),
        ({"status": 429, "retry_after": 0}, 3, "The service received too many requests."),
        ({"status": 500}, 3, "The service failed. Try again later"),
        ({"status": 302}, 3, "302 Found"),
        ({"cut": "after-bytes:9", "after_cut": "eof"}, 3, ""),
        ({"malformed": True}, 3, ""),
    ],
)
def test_a_failed_call_prints_advice_and_sets_the_exit_code(
    fault: dict[str, Any], code: int, expected_error: str, dealkit_sandbox: Sandbox
) -> None:
    dealkit_sandbox.fail_next(times=None, **fault)
    dealkit_sandbox.insert_deal({"id": "my-deal"})
    completed = run_command("deal", "my-deal", url=dealkit_sandbox.url)
    assert (completed.code, completed.stdout) == (code, "")
    assert completed.stderr.startswith("dealkit: GET /v1/deals/{id}: ") and expected_error in completed.stderr
    assert "sandbox-key" not in completed.stderr and "my-deal" not in completed.stderr


def test_a_closed_pipe_ends_the_command_quietly(dealkit_sandbox: Sandbox) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    completed = subprocess.run(
        [sys.executable, "-m", "dealkit", "deal", "d_1", "--json"],
        env=command_environment(dealkit_sandbox.url, "sandbox-key"),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANG_SECONDS,
    )
    os.close(writer)
    assert (completed.returncode, completed.stderr) == (141, "")


@pytest.mark.parametrize("command", [["deal", "d_1"], ["--help"]])
def test_a_full_disk(command: list[str], dealkit_sandbox: Sandbox) -> None:
    with open("/dev/full", "w") as full:
        completed = subprocess.run(
            [sys.executable, "-m", "dealkit", *command],
            env=command_environment(dealkit_sandbox.url, "sandbox-key"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_SECONDS,
        )
    assert (completed.returncode, completed.stderr) == (
        4,
        "dealkit: The output cannot be written: the disk is full. Free some space.\n",
    )


@pytest.mark.parametrize("stream", ["", "2", "<"])
def test_a_closed_standard_stream_is_no_crash(stream: str, dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    closed = f"{stream}&-" if stream == "<" else f"{stream}>&-"
    command = "deals export --ids - --out d.csv" if stream == "<" else "deal d_1"
    completed = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m dealkit {command} {closed}"],
        env=command_environment(dealkit_sandbox.url, "sandbox-key"),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=tmp_path,
    )
    expected_error = {
        "": "dealkit: Nothing was done, because standard output is closed.",
        "<": "dealkit: Standard input is closed",
        "2": "",
    }[stream]
    assert completed.returncode == {"": 4, "<": 2, "2": 0}[stream], completed
    assert completed.stderr.startswith(expected_error) and "Traceback" not in completed.stderr


def parse_check(completed: Any) -> dict[str, str]:
    """Parses the output of a check, by label."""
    lines = completed.stdout.split("\n\n")[0].splitlines()
    return {label: value.strip() for label, _, value in (line.partition(" ") for line in lines)}


def test_check_reports_the_service_and_the_key(dealkit_sandbox: Sandbox) -> None:
    completed = run_command("check", url=dealkit_sandbox.url)
    result = parse_check(completed)
    assert (completed.code, completed.stderr) == (0, "")
    assert result.pop("Reached").endswith("s, over HTTP/1.1")
    assert result == {"Service": dealkit_sandbox.url, "Key": "accepted"}
    # The check only reads. A second request with an unknown key shows whether the service checks keys.
    requests = [(request.method, request.status) for request in dealkit_sandbox.requests]
    assert requests == [("GET", 404), ("GET", 401)]
    assert dealkit_sandbox.agents == []


@pytest.mark.parametrize(
    ("fault", "code", "key", "expected_error"),
    [
        (
            {"status": 401},
            3,
            "not accepted",
            "Check that the key is complete, and that it is the key for this service.",
        ),
        ({"status": 403}, 3, "not allowed to read deals", "Ask the service's operator for the permission."),
        ({"status": 503}, 3, "unclear whether it is accepted", "The service failed."),
        (
            {"status": 404, "times": 2},
            3,
            "unclear whether it is accepted",
            "Check the service's address (base URL), with its path.",
        ),
        ({"status": 200, "body": '{"id": "d"}'}, 0, "accepted", ""),
    ],
)
def test_check_of_error_responses(
    fault: dict[str, Any], code: int, key: str, expected_error: str, dealkit_sandbox: Sandbox
) -> None:
    dealkit_sandbox.fail_next(**fault)
    completed = run_command("check", url=dealkit_sandbox.url)
    assert (completed.code, completed.stderr, parse_check(completed)["Key"]) == (code, "", key)
    assert expected_error in completed.stdout


def test_check_of_an_unreachable_service(peer: Any, refusing_address: str) -> None:
    completed = run_command("check", url=f"http://{refusing_address}")
    assert completed.code == 3 and parse_check(completed)["Reached"].startswith("no, after ")
    assert (
        "nothing is listening at the host and port in the base URL; are they right, and is the service up? [see --base-url] ("
        in completed.stdout
    )

    assert completed.stdout.endswith("whether a firewall or a proxy blocks the connection.\n")

    env = {"HTTPS_PROXY": f"http://{refusing_address}", "NO_PROXY": "", "no_proxy": ""}
    completed = run_command("check", "--base-url", "https://deals.example.com", env=env)
    assert (
        completed.code == 3 and "the proxy cannot be reached; is its address right, and is it up?" in completed.stdout
    )

    # A captive portal's login page is not a response of the service.
    completed = run_command("check", url=peer(http_response(200, "<h1>Log in</h1>", {"Content-Type": "text/html"})).url)
    assert completed.code == 3 and "but it did not respond as it should" in parse_check(completed)["Reached"]
    assert "Perhaps the login page of your network has responded" in completed.stdout


def test_the_package_does_not_import_the_command() -> None:
    script = "import sys, dealkit; dealkit.Client, dealkit.Deal; print(*(n for n in sys.modules if 'dealkit._cli.' in n or 'argparse' in n))"
    completed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    )
    assert completed.stdout.strip() == ""


def test_lines_wrap_on_a_narrow_terminal(dealkit_sandbox: Sandbox) -> None:
    """Lines fit the terminal, words are not cut, and no value is missing."""
    wide = run_command("deal", "d_1", url=dealkit_sandbox.url).stdout
    for arguments in (["deal", "d_1"], ["check"], ["agents", "import", "--help"], ["deal", "nope"]):
        with Terminal(*arguments, url=dealkit_sandbox.url, env={"COLUMNS": "40", "NO_COLOR": "1"}) as terminal:
            terminal.end()
        words = {word for word in re.split(r"\s+", wide if arguments == ["deal", "d_1"] else "") if word}
        assert words <= {*terminal.screen.split()}
        for line in terminal.screen.splitlines():
            assert len(line) <= 40 or len(line.split()) == 1 or line.startswith(("usage:", "  dealkit ")), line


@pytest.mark.parametrize("command", ["check", "deal nope", "deals export --ids - --out o.csv", "ledger show no.ledger"])
def test_json_prints_one_object_for_every_command(command: str, dealkit_sandbox: Sandbox, tmp_path: Path) -> None:
    completed = run_command(*command.split(), "--json", url=dealkit_sandbox.url, stdin="d_1\nd_9\n", cwd=tmp_path)
    result = json.loads(completed.stdout)
    assert completed.stdout.count("\n") == 1 and {"counts", "files", "errors"} <= {*result}
    assert len(result["errors"]) == (command != "check")
    assert all(item["message"] in completed.stderr or item["id"] == "d_9" for item in result["errors"])


def test_a_shell_completes_commands_and_options(tmp_path: Path) -> None:
    for line, completions in (("dealkit de", ["deal", "deals"]), ("dealkit agents import --date", ["--date-format"])):
        env = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"), "_ARGCOMPLETE_IFS": "\n"}
        env |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
        subprocess.run([sys.executable, "-m", "dealkit"], env={**os.environ, **env}, check=True, timeout=HANG_SECONDS)
        assert [item.strip() for item in (tmp_path / "out").read_text().split("\n")] == completions

"""`dealkit deal`: one deal, for people or as JSON."""

from __future__ import annotations

import sys
from argparse import Namespace

from dealkit._cli.connection import connect
from dealkit._cli.exits import DONE
from dealkit._cli.screen import is_terminal, json_safe, say
from dealkit._cli.view import view


def run(options: Namespace) -> int:
    """Retrieves the deal and shows it."""
    with connect(options) as client:
        deal = client.deals.retrieve(options.id)
    if options.json:
        # As bytes: JSON is UTF-8, whatever the terminal's encoding.
        text = deal.to_json(indent=2)
        sys.stdout.buffer.write((json_safe(text) if is_terminal(sys.stdout) else text).encode() + b"\n")
    else:
        for line in view(deal):
            say(line)
    return DONE

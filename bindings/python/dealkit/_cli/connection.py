"""The service that a command uses: its address from an option or the environment, its key only from the environment or a
file that it names."""

from __future__ import annotations

import os
import secrets
from argparse import Namespace

from dealkit import Client, ClientOptions, Deal, DealkitError, RawResponse
from dealkit._cli.advice import NO_ADDRESS, NO_KEY
from dealkit._cli.exits import Failed


def connect(options: Namespace, *, max_retries: int | None = None) -> Client:
    """A client with the options of the command line. Nothing is sent yet."""
    if not (os.environ.get("DEALKIT_SERVICE_KEY") or os.environ.get("DEALKIT_SERVICE_KEY_FILE")):
        raise Failed(NO_KEY)
    if not address(options):
        raise Failed(NO_ADDRESS)
    settings: ClientOptions = {
        "base_url": options.base_url,
        "timeout": options.timeout,
        "ca_file": options.ca_file,
        "client_cert": options.client_cert,
        "allow_http": options.allow_http,
        "rate_limit": getattr(options, "rate_limit", None),
        "max_retries": max_retries,
        "on_unreadable": getattr(options, "on_unreadable", None),
    }
    return Client(**settings)


def address(options: Namespace) -> str:
    """The address of the service, as the user gave it."""
    given: str = options.base_url or os.environ.get("DEALKIT_BASE_URL", "")
    return given.rstrip("/")


def probe(client: Client) -> RawResponse[Deal] | DealkitError:
    """Requests a deal that does not exist, which shows whether the service is there, and changes nothing."""
    try:
        response = client.with_raw_response.deals.retrieve(f"dealkit-check-{secrets.token_hex(8)}")
        response.parse()
        return response
    except DealkitError as error:
        return error

"""Corrects generated bodies that match the schema but break a rule that openapi.json cannot express."""

import json
import re
from pathlib import Path

import schemathesis

# A URL that matches the pattern of `image_url` can still have an invalid host.
OPENAPI = json.loads((Path(__file__).parents[1] / "contract" / "openapi.json").read_text())
MATCHES_PATTERN = re.compile(OPENAPI["components"]["schemas"]["CreateAgent"]["properties"]["image_url"]["pattern"])


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: object) -> object:
    """Replaces a matching URL with a URL that has a valid host, and the original URL as its query."""
    url = body.get("image_url") if isinstance(body, dict) else None
    if not isinstance(url, str) or not MATCHES_PATTERN.match(url):
        return body
    return {**body, "image_url": f"https://example.com/ada.png?{url}"}

"""What openapi.json cannot say of a body, and a schema-valid body may therefore get wrong."""

import json
import re
from pathlib import Path

import schemathesis

# The pattern of `image_url` cannot say what a host is.
OPENAPI = json.loads((Path(__file__).parents[1] / "contract" / "openapi.json").read_text())
MATCHES_PATTERN = re.compile(OPENAPI["components"]["schemas"]["CreateAgent"]["properties"]["image_url"]["pattern"])


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: object) -> object:
    """Gives a URL that matches the pattern a host, and its own characters as the query."""
    url = body.get("image_url") if isinstance(body, dict) else None
    if not isinstance(url, str) or not MATCHES_PATTERN.match(url):
        return body
    return {**body, "image_url": f"https://example.com/ada.png?{url}"}

"""Sphinx configuration of the site, which `make site` builds; every warning is an error."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "dealkit"
version = release = tomllib.loads((HERE.parent / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    # The project's own extensions, in the folder `extensions`.
    "command",
    "contract",
    "documented",
    "finding",
    "measured",
    "pages",
    "rust",
    "stubs",
]
exclude_patterns = ["extensions", "requirements.txt"]

# The copy button copies only the input, without prompts and output.
copybutton_prompt_text = "$ "
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

# In Markdown, blocks that rustdoc should not take for programs are fenced with colons.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# `rust:` is for links to the Rust reference (`rust.py`), which Sphinx does not generate.
myst_url_schemes = ["http", "https", "mailto", "rust"]

# The Python reference.
add_module_names = False
toc_object_entries_show_parents = "hide"
# Text in backticks in the docstrings of Rust and Python is code.
default_role = "code"
autoclass_content = "both"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
# References that stay unresolved: Python's own types are on another host, which is not contacted; type variables have no page;
# UnresolvedRow is documented under its public name.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!dealkit).*"),
    (
        "py:class",
        r"dealkit\..*\.(T(_co)?|Created(Once)?|Creations|(Agent|Deal)CallsType|Requested|Retriev(ed|als(OrErrors)?)|UnresolvedRow)",
    ),
]

html_theme = "pydata_sphinx_theme"
html_title = "dealkit"
html_favicon = "../server/src/sandbox/docs/icon.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
# Pages without subpages need no list of them.
html_sidebars = {page: [] for page in ("why", "speed", "changelog")}
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": f"dealkit {release}", "image_light": html_favicon, "image_dark": html_favicon},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}

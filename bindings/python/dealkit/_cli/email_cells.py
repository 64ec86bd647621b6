"""Explains cells that are not one bare e-mail address. The messages contain no values from the table."""

from __future__ import annotations

import re

from dealkit._cli.role_words import is_placeholder

_ADDRESS = re.compile(r"[^\s@<>,;()\[\]\"]+@[^\s@<>,;()\[\]\"]+")
_DISPLAY_NAME = re.compile(r"[^<>@]*<[^<>]*@[^<>]*>|[^\s@]+@[^\s@]+\s*\(.*\)|\"[^\"]*\"\s*\S+@\S+")
_OTHER_TEXT = re.compile(r".*\s\S+@\S+\.\S+|\S+@\S+\.\S+\s.*")
_WRITTEN_AT = re.compile(r"\S+\s*(?:\(at\)|\[at\]|\{at\}|\s+at\s+)\s*\S+", re.IGNORECASE)
# The address of a person in the directory of Exchange: /o=Office/ou=Exchange/cn=Recipients/cn=ada.
_EXCHANGE_ADDRESS = re.compile(r"(?:ex:)?\s*/o=.*", re.IGNORECASE)
_MAX_LENGTH = 320

_NO_ENDING = "has no ending such as .com after the @: is the address complete?"

_END_PUNCTUATION = ".,;:!?'\")]>}"
_START_PUNCTUATION = ".,;:'\"([<{"


def explain_email(text: str) -> str | None:
    """Returns the mistake in a cell that is not one bare e-mail address, with advice, or None if no mistake is known."""
    text = text.strip()
    if text and (is_placeholder(text) or not any(map(str.isalnum, text))):
        return "is missing: write the e-mail address"
    if _EXCHANGE_ADDRESS.fullmatch(text):
        return "is an internal name of Exchange and not an e-mail address: write the address with an @"
    if len(text) > _MAX_LENGTH:
        return "is too long for an e-mail address: keep only the address"
    if text.lower().startswith("mailto:"):
        return "begins with mailto: remove this word and keep the address"
    if len(_ADDRESS.findall(text)) > 1 or len(re.findall(r"\w@\w", text)) > 1:
        return "has two e-mail addresses: keep the one to use"
    if _DISPLAY_NAME.fullmatch(text):
        return "has a name or note next to the e-mail address: keep only the address"
    if _OTHER_TEXT.fullmatch(text):
        return "has a space, or other text next to the e-mail address: keep only the address"
    if "@" not in text:
        if _WRITTEN_AT.fullmatch(text):
            return "has the word at in place of @: write @"
        return "has no @: write the whole e-mail address" if text else None
    if text.count("@") > 1:
        return "has more than one @: correct the address"
    if text.strip(_START_PUNCTUATION).rstrip(_END_PUNCTUATION) != text:
        return "begins or ends with a punctuation mark: remove it"
    if re.search(r"\s", text):
        return "has a space in the e-mail address: remove it"
    name, _, domain = text.partition("@")
    if not name or not domain:
        return "has only a part of an e-mail address: write the whole address"
    if "," in text:
        return "has a comma in the e-mail address: write a dot in its place"
    if "." not in domain:
        return _NO_ENDING
    if ".." in text or domain.startswith(".") or name.endswith("."):
        return "has a dot too many: correct the address"
    return None


def warn_about_email(text: str) -> str | None:
    """Returns a warning about an address that the rules accept, but that is probably not complete, or None."""
    _, at, domain = text.rpartition("@")
    return _NO_ENDING if at and domain and "." not in domain and ":" not in domain else None

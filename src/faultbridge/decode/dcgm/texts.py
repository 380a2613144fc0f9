"""Finds the fault code of a DCGM message by its text, if DCGM prints no error number."""

from __future__ import annotations

import re

from faultbridge.decode.data import dcgm_texts

_SPACE = re.compile(r"\s{1,64}")


def code_of_text(text: str) -> str | None:
    """Return the fault code of a DCGM message, or None if its text contains no known phrase."""
    words = _SPACE.sub(" ", text)
    return next((code for phrase, code in dcgm_texts().items() if phrase in words), None)


def codes_of_texts() -> frozenset[str]:
    """Return every fault code that `code_of_text` can return."""
    return frozenset(dcgm_texts().values())

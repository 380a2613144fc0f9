"""The verifier of case files with the hashes of the published catalog, form program and tables of status changes."""

from __future__ import annotations

import hashlib
import re

from faultbridge.serve.casefile.collect import FORM, VERIFIER, catalog_member, transitions


def published() -> dict[str, str]:
    """Return the SHA-256 of each published member of a case file by its name."""
    bodies = {"catalog.json": catalog_member(), "form.py": FORM.read_bytes(), "transitions.json": transitions()}
    return {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items()}


def verifier() -> str:
    """Return the text of `verify_case.py` with the present hashes."""
    text = VERIFIER.read_text(encoding="utf-8")
    for name, digest in published().items():
        text = re.sub(rf'"{re.escape(name)}": "[0-9a-f]*"', f'"{name}": "{digest}"', text)
    return text

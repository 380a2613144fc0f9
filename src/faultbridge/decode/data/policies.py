"""The packaged default policy, in the form in which the table stores every policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from faultbridge.decode.data import packaged_json
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.policy import Policy
from faultbridge.model.storage.codec import load


def version_of(document: Mapping[str, Any]) -> str:
    """Return the version of a policy: 12 hexadecimal digits of the SHA-256 of its canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:12]


@cache
def default_document() -> Mapping[str, Any]:
    """Return the document of the default policy, with its version."""
    document = packaged_json("policy/default.json")
    return {**document, "version": version_of(document)}


@cache
def default_policy() -> Policy:
    """Return the default policy, which applies to clusters that have no policy of their own."""
    return load(Policy, default_document())

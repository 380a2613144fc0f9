"""Packaged log patterns, mechanisms (causes of failures) and weights of `faultbridge explain`.

It also loads the JSON Schema with which a customer's own mechanisms are checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "explain"
DOMAINS = ("hardware", "network", "storage", "platform", "software", "numerical")
"""The domains with a file of mechanisms. A cause that is not known has the domain `unknown`."""


@cache
def packaged_mechanisms() -> tuple[Mapping[str, Any], ...]:
    """Return the packaged documents of `faultbridge explain`, one for each domain, such as `hardware`.

    A document can contain log patterns, mechanisms (ways in which a job can fail), and the role of fault codes in a
    failure, such as first sign or consequence.
    """
    return tuple(_read(f"{name}.json") for name in DOMAINS)


@cache
def handled_rows() -> tuple[Mapping[str, Any], ...]:
    """Return the log patterns that mark a nearby error as handled by the process.

    A process continues after a handled error, so the error did not end the job.
    """
    return tuple(_read("handled.json")["handled"])


@cache
def mechanism_schema() -> Mapping[str, Any]:
    """Return the JSON Schema for documents of log patterns and mechanisms, packaged or from a customer."""
    return _read("schema.json")


@cache
def explain_weights() -> Mapping[str, Any]:
    """Return the points of each kind of evidence (`weights`), and the `limits` of `faultbridge explain`.

    Each point and each limit has a text (`meaning`) that explains it.
    """
    return _read("weights.json")


def _read(name: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / name).read_bytes())
    return found

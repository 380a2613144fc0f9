"""Typical EventBridge patterns, and the samples that each must match in any matcher or bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.schemas import load
from tests.events.samples import FILES, label

SOURCE = "faultbridge"


@dataclass(frozen=True)
class PatternCase:
    """A pattern and the samples that it matches. It must match no other sample."""

    name: str
    pattern: Mapping[str, Any]
    matches: frozenset[str]


def envelope(path: Path) -> dict[str, Any]:
    """Return a sample as the bus delivers it."""
    detail = load(path)
    return {
        "version": "0",
        "id": label(path),
        "account": "111122223333",
        "region": "us-east-1",
        "time": "2026-02-03T04:05:06Z",
        "resources": [],
        "source": SOURCE,
        "detail-type": detail["metadata"]["event_type"],
        "detail": detail,
    }


def having(place: tuple[str, ...], *values: object) -> frozenset[str]:
    """Return the samples that have one of the values at a place."""
    return frozenset(label(path) for path in FILES if _at(load(path), place) in values)


def _at(value: Any, place: tuple[str, ...]) -> object:
    for key in place:
        value = value.get(key, ...) if isinstance(value, dict) else ...
    return value


PATTERNS = (
    PatternCase(
        "severity",
        {"source": [SOURCE], "detail": {"metadata": {"severity": ["fatal", "error"]}}},
        having(("metadata", "severity"), "fatal", "error"),
    ),
    PatternCase(
        "cluster events of one cluster",
        {"source": [SOURCE], "detail": {"metadata": {"cluster": ["llm-train-1"], "node": [None]}}},
        having(("metadata", "node"), None),
    ),
    PatternCase(
        "case closure",
        {
            "source": [SOURCE],
            "detail-type": ["Case Status Change"],
            "detail": {"data": {"to": ["resolved", "expired"]}},
        },
        frozenset({"case-status-change-closed", "case-status-change-largest"}),
    ),
    PatternCase(
        "operator needed",
        {
            "source": [SOURCE],
            "detail-type": ["Case Status Change"],
            "detail": {"data": {"$or": [{"to": ["escalated"]}, {"waiting_for": ["approval"]}]}},
        },
        frozenset({"case-status-change-escalated", "case-status-change-approval"}),
    ),
    PatternCase(
        "schema_version prefix",
        {"source": [SOURCE], "detail": {"metadata": {"schema_version": [{"prefix": "1."}]}}},
        frozenset(label(path) for path in FILES),
    ),
    PatternCase(
        "a later major version",
        {"source": [SOURCE], "detail": {"metadata": {"schema_version": [{"anything-but": {"prefix": "1."}}]}}},
        frozenset(),
    ),
    PatternCase(
        "breaker tripped",
        {
            "source": [SOURCE],
            "detail-type": ["Cluster Safety Change"],
            "detail": {"data": {"kind": ["breaker"], "to": ["open"]}},
        },
        frozenset({"cluster-safety-change-ordinary"}),
    ),
    PatternCase(
        "instance group",
        {"source": [SOURCE], "detail": {"data": {"placement": {"group": ["p5-workers"]}}}},
        having(("data", "placement", "group"), "p5-workers"),
    ),
    PatternCase(
        "GPU-hours lost",
        {"source": [SOURCE], "detail": {"data": {"gpu_time_lost": [{"numeric": [">", 3_600_000]}]}}},
        frozenset({"case-status-change-largest"}),
    ),
    PatternCase(
        "fault that affects a job",
        {"source": [SOURCE], "detail": {"data": {"change": ["hit"]}}},
        having(("data", "change"), "hit"),
    ),
)

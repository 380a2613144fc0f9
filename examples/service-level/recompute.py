"""Compute the service level of a cluster from a copy of the archive, without any code of Faultbridge.

    python recompute.py ARCHIVE_FOLDER CLUSTER 2026-02-01T00:00:00.000Z 2026-03-01T00:00:00.000Z

It prints the JSON document that `faultbridge sla --json` prints for the same period. docs/service-level.md defines
each value. It needs only the standard library.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]
START = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
PLANNED = ("provider.maintenance", "provider.retirement")
CREDITS = ((990_000, 0), (950_000, 10), (900_000, 25))
SERVING = ("healthy", "degraded")


def milliseconds(text: str) -> int:
    """Return an RFC 3339 time as milliseconds since 1970."""
    return (datetime.fromisoformat(text) - START) // timedelta(milliseconds=1)


def written(ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 in UTC."""
    at = START + timedelta(milliseconds=ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def entries(folder: Path, cluster: str, until: str) -> list[Json]:
    """Return the entries of the cluster that were recorded before `until`, each once, by epoch and sequence."""
    found: dict[str, Json] = {}
    for path in folder.rglob("*.gz"):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            stored = json.loads(line)
            if isinstance(stored, dict) and stored.get("cluster") == cluster and stored.get("body"):
                event = json.loads(stored["body"])
                if event["metadata"]["recorded_at"] < until:
                    found[event["metadata"]["event_id"]] = event
    return sorted(found.values(), key=lambda one: (one["metadata"]["epoch"], one["metadata"]["sequence"]))


def histories(events: list[Json]) -> tuple[dict[str, list[Json]], dict[str, int]]:
    """Return the status changes of each node with their times, and when each planned case was known."""
    nodes: dict[str, list[Json]] = {}
    notices: dict[str, int] = {}
    for event in events:
        metadata, data = event["metadata"], event["data"]
        occurred = milliseconds(metadata["occurred_at"])
        if metadata["event_type"] == "Case Status Change" and data["from"] is None:
            if data["cause"]["failure_mode"] in PLANNED:
                notices[metadata["case_id"]] = milliseconds(data["detected_at"]) if data["detected_at"] else occurred
        elif metadata["event_type"] == "Node Status Change" and metadata["node"]:
            earlier = nodes.setdefault(metadata["node"], [])
            at = max([occurred, *(one["at"] for one in earlier[-1:])])
            earlier.append({"at": at, "status": data["to"], "metadata": metadata})
    return nodes, notices


def spans(changes: list[Json], until: int) -> Iterator[tuple[str, int, int, Json | None, Json | None]]:
    """Yield what a node was, from when to when, with the change that began and the change that ended it.

    It is `serving`, `out` (delivered, but not in service) or `absent` (before its delivery, or removed).
    """
    kind, began = "absent", None
    start = 0
    for change in changes:
        if change["status"] in SERVING:
            now = "serving"
        elif change["status"] == "retired" or kind == "absent":
            now = "absent"
        else:
            now = "out"
        if now != kind:
            yield kind, start, change["at"], began, change
            kind, start, began = now, change["at"], change
    yield kind, start, max(until, start), began, None


def level(cluster: str, events: list[Json], since: str, until: str) -> Json:
    """Return the service level as a document."""
    first, last = milliseconds(since), milliseconds(until)
    nodes, notices = histories(events)
    rows, outages = [], []
    for node, changes in sorted(nodes.items()):
        row = {"node": node, "eligible_ms": 0, "excluded_ms": 0, "lost_ms": 0}
        for kind, start, end, began, ended in spans(changes, last):
            length = min(end, last) - max(start, first)
            if kind == "absent" or length <= 0 or began is None:
                continue
            row["eligible_ms"] += length
            if kind == "serving":
                continue
            why = cause(began, notices)
            row["lost_ms" if why == "fault" else "excluded_ms"] += length
            over = ended if ended and end < last else None
            outages.append(
                {
                    "node": node,
                    "why": why,
                    "start": written(max(start, first)),
                    "end": written(end) if over else None,
                    "ms": length,
                    "case_id": began["metadata"]["case_id"],
                    "began": began["metadata"]["event_id"],
                    "ended": over["metadata"]["event_id"] if over else None,
                }
            )
        if row["eligible_ms"]:
            rows.append(row)
    return document(cluster, since, until, rows, outages)


def cause(began: Json, notices: dict[str, int]) -> str:
    """Return why an outage began: an order of the customer, maintenance with a day's notice, or a fault."""
    if began["metadata"]["recorded_by"] == "cli":
        return "customer"
    notice = notices.get(began["metadata"]["case_id"])
    return "maintenance" if notice is not None and began["at"] - notice >= DAY_MS else "fault"


def document(cluster: str, since: str, until: str, rows: list[Json], outages: list[Json]) -> Json:
    """Return the totals of the nodes, the credit, and the classes of repair times, with all rows."""
    totals = {name: sum(row[name] for row in rows) for name in ("eligible_ms", "excluded_ms", "lost_ms")}
    counted = totals["eligible_ms"] - totals["excluded_ms"]
    ppm = credit = None
    if counted:
        ppm = (counted - totals["lost_ms"]) * 1_000_000 // counted
        credit = next((percent for least, percent in CREDITS if ppm >= least), 50)
    classes: dict[str, int] = {}
    for one in outages:
        if one["why"] == "fault":
            name = repair_class(one)
            classes[name] = classes.get(name, 0) + 1
    return {
        "method": 1,
        "cluster": cluster,
        "since": since,
        "until": until,
        **totals,
        "availability_ppm": ppm,
        "credit_percent": credit,
        "repair_times": dict(sorted(classes.items())),
        "nodes": rows,
        "outages": outages,
    }


def repair_class(outage: Json) -> str:
    """Return the class of the repair time of an outage."""
    if outage["end"] is None:
        return "open"
    for limit, name in ((15, "under_15m"), (60, "under_1h"), (240, "under_4h"), (1440, "under_1d")):
        if outage["ms"] < limit * 60_000:
            return name
    return "over_1d"


def main(folder: str, cluster: str, since: str, until: str) -> None:
    """Print the service level as JSON."""
    found = level(cluster, entries(Path(folder), cluster, until), since, until)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:5])

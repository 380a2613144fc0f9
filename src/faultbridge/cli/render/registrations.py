"""Show the registration of many nodes as one row of a timeline, in tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from faultbridge.cli.render.columns import ENTRIES
from faultbridge.cli.render.output import Columns, Document
from faultbridge.domain.entries import EntryType

MIN_REGISTRATIONS = 2

_MORE_THAN_COUNTS = ("incidents", "provider_stage", "provider_conditions")
"""Fields of an entry about a cluster's status. If one of them has a value, not only node counts changed."""

COMPACT_ENTRIES: Columns = {
    **ENTRIES,
    "NODE": lambda one: _first_and_count(one["nodes"]) if "nodes" in one else ENTRIES["NODE"](one),
    "WHAT": lambda one: f"{len(one['nodes'])} {_registered(one)}" if "nodes" in one else ENTRIES["WHAT"](one),
}
"""Columns for entries, and for the documents of `compact` that combine entries and list their nodes in `nodes`."""


def compact(entries: Iterable[Document]) -> Iterator[Document]:
    """Replace successive registrations of nodes with one document per kind of registration.

    Each registration also causes an entry that updates the node counts of the cluster. A series consists of successive
    entries of these two types:

    - Registrations with the same text, reason and cluster become one document with all their nodes in `nodes`.
    - Of the updates of node counts, only the last one is kept.
    - A series with fewer than two registrations stays unchanged.

    Any other entry, such as a change of the cluster's status, ends the series and stays unchanged.
    """
    for is_setup, run in groupby(entries, _is_setup):
        documents = list(run)
        yield from _compact_run(documents) if is_setup else documents


def _compact_run(run: Sequence[Document]) -> Iterator[Document]:
    registered = [one for one in run if _is_registration(one)]
    if len(registered) < MIN_REGISTRATIONS:
        yield from run
        return
    for _, alike in groupby(sorted(registered, key=_kind), _kind):
        entries = list(alike)
        nodes = [one["metadata"]["node"] for one in entries]
        yield {**entries[0], "nodes": nodes} if len(nodes) > 1 else entries[0]
    yield from [one for one in run if not _is_registration(one)][-1:]


def _is_setup(entry: Document) -> bool:
    data = entry["data"] or {}
    is_status = entry["metadata"]["event_type"] == EntryType.CLUSTER_STATUS
    is_count = (
        is_status and data.get("from") == data.get("to") and not any(data.get(name) for name in _MORE_THAN_COUNTS)
    )
    return is_count or _is_registration(entry)


def _is_registration(entry: Document) -> bool:
    data = entry["data"] or {}
    return entry["metadata"]["event_type"] == EntryType.NODE_STATUS and bool(data) and data.get("from") is None


def _kind(entry: Document) -> tuple[str, str, str]:
    return (str(ENTRIES["WHAT"](entry)), str(ENTRIES["WHY"](entry)), entry["metadata"]["cluster"])


def _first_and_count(nodes: Sequence[str]) -> str:
    return f"{nodes[0]} +{len(nodes) - 1}"


def _registered(entry: Document) -> str:
    return str(ENTRIES["WHAT"](entry)).replace("node ", "nodes ", 1)

"""Collects the case file of a case: its entries up to an anchor, policies, the catalog, and its documents."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins

from faultbridge.decide.entry_builder import component_data
from faultbridge.decode.data import load_catalog, row_document
from faultbridge.decode.data.policies import default_document
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, Edge
from faultbridge.model.errors import Rejected, UnknownName
from faultbridge.model.event_data import json_text, plain
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import PolicyDocument
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.record.append import Stack
from faultbridge.record.archive.anchor import read_anchor
from faultbridge.record.hash_chain import Position, entry_position
from faultbridge.record.history import DeviceHistory
from faultbridge.record.policies import PolicyStore
from faultbridge.record.ports.objects import Vault
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.repair.registry.views import CaseView
from faultbridge.serve.casefile.form import Json, documents, first_fault, is_about, opening

MAX_ENTRIES = 50_000
FOLDER = Path(__file__).parent
VERIFIER, FORM = FOLDER / "verify_case.py", FOLDER / "form.py"
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same record gives the same bytes."""


class FileEntry(Struct, frozen=True):
    """One entry of a case file: position, hash, exact body, the text that it is evidence of, and its parsed body."""

    epoch: int
    sequence: int
    hash: str
    body: str
    evidence: str | None
    parts: Json

    @property
    def place(self) -> Position:
        """Return the position of the entry in its stream."""
        return self.epoch, self.sequence

    def line(self) -> str:
        """Return the line of the entry in `entries.jsonl`."""
        return json.dumps({name: value for name, value in to_builtins(self).items() if name != "parts"}) + "\n"


class Segment(NamedTuple):
    """The entries of one stream in a case file, and the entry before them."""

    before: FileEntry | None
    entries: list[FileEntry]


class CaseFiles(Struct, frozen=True):
    """Writes case files from the table and the vault, and reads nothing else."""

    table: Table
    vault: Vault
    clock: Clock
    stack: Stack

    def __call__(self, view: CaseView) -> bytes:
        """Return the case file of a case as a zip; it states which entries the table no longer has."""
        key = view.key
        found = list(self._entries(key))
        own = [place for place, entry in enumerate(found) if entry.parts["metadata"]["case_id"] == view.case.id]
        if not own:
            return pack(self._members(view, {}, "{}"))
        last = found[own[-1]]
        anchor, heads = self._anchor(key, last.place, last.parts["metadata"]["recorded_at"])
        first = first_fault([one.parts for one in found], view.case.id)
        device = plain(component_data(view.case.component))
        start = min(first, _first_of_device(found, device))
        segments = {key.stream: _segment(found, start, heads.get(key.stream, last.place))}
        segments |= self._others(key, device, heads)
        return pack(self._members(view, segments, anchor))

    def _others(self, key: NodeKey, device: Json, heads: Mapping[str, Position]) -> Iterator[tuple[str, Segment]]:
        """Yield the entries of the cluster's other nodes with the device, from its first one up to the anchor."""
        name = device["serial"] or device["uuid"]
        lines = DeviceHistory(self.table)(name) if name else ()
        nodes = {NodeKey(key.cluster, one.node) for one in lines if one.cluster == key.cluster} - {key}
        for node in sorted(node for node in nodes if node.stream in heads):
            found = list(self._entries(node))
            segment = _segment(found, _first_of_device(found, device), heads[node.stream])
            if segment.entries:
                yield node.stream, segment

    def _members(self, view: CaseView, segments: Mapping[str, Segment], anchor: str) -> Mapping[str, bytes]:
        case, key = view.case, view.key
        entries = [entry for segment in segments.values() for entry in segment.entries]
        parts = [{**one.parts, "evidence": one.evidence} for one in entries]
        own = [one for one in parts if one["metadata"]["case_id"] == case.id]
        head = {
            "case_id": case.id,
            "status": case.status.value,
            "cluster": key.cluster,
            "node": key.node,
            "stream": key.stream,
            "stack_id": self.stack.id,
            "starts": {stream: _start(segment) for stream, segment in segments.items()},
            "missing": None if opening(own) else _missing(entries if own else ()),
        }
        state = {"component": plain(component_data(case.component)), "failure_mode": case.mode, "code": case.code}
        stream = [one for one in parts if one["metadata"]["stream"] == key.stream]
        stated = [one["data"] for one in stream[first_fault(stream, case.id) :]]
        return {
            "case.json": json_text(head, indent=1).encode(),
            "policies.json": json_text(dict(self._policies(stated)), indent=1).encode(),
            "catalog.json": catalog_member(),
            "entries.jsonl": "".join(one.line() for one in entries).encode(),
            "anchor.json": anchor.encode(),
            "transitions.json": transitions(),
            "form.py": FORM.read_bytes(),
            "verify_case.py": VERIFIER.read_bytes(),
            **{name: text.encode() for name, text in documents(head, parts, _catalog(), state).items()},
        }

    def _entries(self, key: NodeKey) -> Iterator[FileEntry]:
        partition = keys.node_partition(key)
        for number, row in enumerate(query_all(self.table, partition, prefix=keys.ENTRY)):
            if number > MAX_ENTRIES:
                raise Rejected("too_long", f"the stream of {key.stream} has over {MAX_ENTRIES} entries")
            position = entry_position(str(row["sk"]))
            if position is not None:
                body, evidence = str(row["body"]), str(row["evidence"]) if row.get("evidence") else None
                yield FileEntry(*position, str(row["hash"]), body, evidence, json.loads(body))

    def _anchor(self, key: NodeKey, last: Position, recorded_at: str) -> tuple[str, Mapping[str, Position]]:
        """Return the first anchor that covers the case, and where its heads are; an empty object if there is none."""
        prefix = layout.anchor_key(key.cluster, "").removesuffix(".json.gz")
        since = layout.anchor_key(key.cluster, recorded_at[:13])
        for name in self.vault.list(prefix):
            body = self.vault.get(name) if name >= since else None
            heads = read_anchor(name, body).heads if body else {}
            head = heads.get(key.stream)
            if body and head and head[:2] >= last:
                return gzip.decompress(body).decode(), {stream: one[:2] for stream, one in heads.items()}
        return "{}", {}

    def _policies(self, stated: Iterable[Json]) -> Iterator[tuple[str, PolicyDocument]]:
        versions = {str(one.get("policy") or (one.get("facts") or {}).get("policy")) for one in stated}
        packaged = default_document()
        for version in sorted(versions - {"None"}):
            document: PolicyDocument
            try:
                document = PolicyStore(self.table, self.clock).document(version)
            except UnknownName:  # the verifier names a version that a check needs
                document = packaged if version == packaged["version"] else {}
            if document:
                yield version, document


def _first_of_device(entries: Sequence[FileEntry], device: Json) -> int:
    """Return the place of the first entry about a device; the number of entries if there is none."""
    places = (place for place, one in enumerate(entries) if is_about(one.parts, device))
    return next(places, len(entries))


def _segment(entries: list[FileEntry], start: int, end: Position) -> Segment:
    return Segment(entries[start - 1] if start else None, [one for one in entries[start:] if one.place <= end])


def _start(segment: Segment) -> tuple[int, int, str]:
    first, before = segment.entries[0], segment.before
    return first.epoch, first.sequence - 1, before.hash if before and first.sequence > 1 else ""


def _missing(own: Sequence[FileEntry]) -> str:
    since = f"before {own[0].epoch}/{own[0].sequence} " if own else ""
    return f"the table has no entries of the case {since}any more; the archive may have them"


@cache
def _catalog() -> Mapping[str, Json]:
    known = load_catalog()
    return {code: row_document(known.row(code), known) for code in sorted({*known.rows, *known.modes})}


@cache
def catalog_member() -> bytes:
    """Return the published catalog as JSON, its rows by code; the verifier has the hash of these bytes."""
    return canonical_json(_catalog()).encode()


def transitions() -> bytes:
    """Return the published tables of permitted status changes as JSON; the verifier has the hash of these bytes."""
    tables = {"node": _rows(NODE_EDGES), "case": _rows(CASE_EDGES)}
    return canonical_json(tables).encode()


def _rows(edges: Sequence[Edge]) -> list[list[Any]]:
    return [[one.source, one.target, sorted(actor.value for actor in one.actors), one.on] for one in edges]


def pack(members: Mapping[str, bytes]) -> bytes:
    """Return members as a zip with a manifest of their hashes; the same members give the same bytes."""
    hashes = {name: hashlib.sha256(body).hexdigest() for name, body in sorted(members.items())}
    whole = {**members, "manifest.json": json.dumps({"files": hashes}, indent=1).encode()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        for name, body in sorted(whole.items()):
            written.writestr(zipfile.ZipInfo(name, ZIP_TIME), body, zipfile.ZIP_DEFLATED)
    return packed.getvalue()

"""Collects the case file of a case: its entries up to an anchor, policies, device history, and the form."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct, to_builtins

from faultbridge.decode.data import code_document
from faultbridge.decode.data.policies import default_document
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, Edge
from faultbridge.model.errors import Rejected, UnknownName
from faultbridge.model.event_data import json_text
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.record.append import Stack
from faultbridge.record.archive.anchor import read_anchor
from faultbridge.record.hash_chain import Position, entry_position
from faultbridge.record.history import DeviceEvent, DeviceHistory
from faultbridge.record.policies import PolicyStore
from faultbridge.record.ports import Clock, Table
from faultbridge.record.ports.objects import Vault
from faultbridge.record.queries import query_all
from faultbridge.repair.registry.views import CaseView
from faultbridge.serve.casefile.form import FileEntry, Form, fill_form

MAX_ENTRIES = 50_000
FOLDER = Path(__file__).parent
VERIFIER = FOLDER / "verify_case.py"
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same record gives the same bytes."""


class CaseFiles(Struct, frozen=True):
    """Writes case files from the table and the vault, and reads nothing else."""

    table: Table
    vault: Vault
    clock: Clock
    stack: Stack

    def __call__(self, view: CaseView) -> bytes:
        """Return the case file of a case as a zip; it states which entries the table no longer has."""
        case, key = view.case, view.key
        found = list(self._entries(key))
        own = [place for place, entry in enumerate(found) if entry.event["metadata"]["case_id"] == case.id]
        if not own:
            return pack(self._members(view, (), None, "{}", ()))
        last = found[own[-1]]
        anchor, end = self._anchor(key, (last.epoch, last.sequence), last.event["metadata"]["recorded_at"])
        first = _first_fault(found, own[0])
        entries = [one for one in found[first:] if (one.epoch, one.sequence) <= end]
        device = case.component.serial or case.component.uuid
        history = DeviceHistory(self.table)(device) if device else ()
        return pack(self._members(view, entries, found[first - 1] if first else None, anchor, history))

    def _members(
        self,
        view: CaseView,
        entries: Sequence[FileEntry],
        before: FileEntry | None,
        anchor: str,
        history: Sequence[DeviceEvent],
    ) -> Mapping[str, bytes]:
        case, key = view.case, view.key
        form = fill_form(case, entries, history)
        epoch, sequence = (entries[0].epoch, entries[0].sequence) if entries else (1, 1)
        start = {"epoch": epoch, "sequence": sequence - 1, "hash": before.hash if before else ""}
        head = {
            "format": 1,
            "case_id": case.id,
            "status": case.status.value,
            "cluster": key.cluster,
            "node": key.node,
            "stream": key.stream,
            "stack_id": self.stack.id,
            "start": start,
            "missing": form.missing,
        }
        documents = {
            "case.json": head,
            "catalog.json": code_document(case.code),
            "history.json": history,
            "policies.json": dict(self._policies(entries)),
            "form.json": form,
        }
        return {
            **{name: json_text(document, indent=1).encode() for name, document in documents.items()},
            "entries.jsonl": "".join(f"{json.dumps(to_builtins(one))}\n" for one in entries).encode(),
            "anchor.json": anchor.encode(),
            "transitions.json": transitions(),
            "form.html": _html(form, entries, view).encode(),
            "verify_case.py": VERIFIER.read_bytes(),
        }

    def _entries(self, key: NodeKey) -> Iterator[FileEntry]:
        partition = keys.node_partition(key)
        for number, row in enumerate(query_all(self.table, partition, prefix=keys.ENTRY)):
            if number > MAX_ENTRIES:
                raise Rejected("too_long", f"the stream of {key.stream} has over {MAX_ENTRIES} entries")
            position = entry_position(str(row["sk"]))
            if position is not None:
                evidence = row.get("evidence") or None
                yield FileEntry(*position, str(row["hash"]), str(row["body"]), str(evidence) if evidence else None)

    def _anchor(self, key: NodeKey, last: Position, recorded_at: str) -> tuple[str, Position]:
        """Return the first anchor that covers the case, and where its head is; an empty object if there is none yet."""
        prefix = layout.anchor_key(key.cluster, "").removesuffix(".json.gz")
        since = layout.anchor_key(key.cluster, recorded_at[:13])
        for name in self.vault.list(prefix):
            body = self.vault.get(name) if name >= since else None
            head = read_anchor(name, body).heads.get(key.stream) if body else None
            if body and head and head[:2] >= last:
                return gzip.decompress(body).decode(), (head[0], head[1])
        return "{}", last

    def _policies(self, entries: Sequence[FileEntry]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        stated = (one.event["data"] for one in entries)
        versions = {str(one.get("policy") or (one.get("facts") or {}).get("policy")) for one in stated}
        packaged = default_document()
        for version in sorted(versions - {"None"}):
            document: Mapping[str, Any]
            try:
                document = PolicyStore(self.table, self.clock).document(version)
            except UnknownName:  # the verifier names a version that a check needs
                document = packaged if version == packaged["version"] else {}
            if document:
                yield version, document


def _first_fault(entries: Sequence[FileEntry], opening: int) -> int:
    """Return the place of the last report of the case's cause before its opening, else of the opening."""
    cause = next((e.event["data"]["cause"] for e in entries[opening:] if "cause" in e.event["data"]), None)
    for place in range(opening, -1, -1):
        event = entries[place].event
        detected = event["metadata"]["event_type"] == "Node Fault Detected"
        if cause and detected and event["data"]["failure_mode"] == cause["failure_mode"]:
            return place
    return opening


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


def _html(form: Form, entries: Sequence[FileEntry], view: CaseView) -> str:
    loader = FileSystemLoader(FOLDER)
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True).get_template(
        "form.html"
    )
    texts = {one.event["metadata"]["event_id"]: one.evidence for one in entries if one.evidence}
    sections: dict[str, list[Any]] = {}
    for field in form.fields:
        sections.setdefault(field.section, []).append(field)
    return page.render(form=form, sections=sections, case=view.case, key=view.key, texts=texts)

"""Deployments: for a while, some functions run another version of the code than the others.

Both versions store the state of a node in the same item. A newer version adds attributes that this version does not
know. An older version does not write the attributes that were added last. No cache of a running process is emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Item, Packed, Put, Write
from faultbridge.model.values import replace
from tests.sim.fakes.table import FakeTable

ADDED = "added_later"
"""The attribute that a newer version adds, to items and within the state of a node."""

LATEST_ATTRIBUTES = ("noted", "custody", "isolation_tries")
"""Attributes of the state of a node whose absence must harm nothing: a note or a call is repeated."""


class Version(StrEnum):
    """The version of the code that a process runs, compared with this one."""

    OLDER = "older"
    NEWER = "newer"


class TableOfVersion:
    """The table as a process uses it that may run another version; `version` returns which one, None for this one."""

    def __init__(self, table: FakeTable, version: Callable[[], Version | None]) -> None:
        self._table, self._version = table, version

    def write(self, write: Write) -> None:
        """Perform a write as the version of the process makes it."""
        self._table.write(*written_by(self._version(), [write]))

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Perform writes as the version of the process makes them."""
        self._table.transact(written_by(self._version(), writes), token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def written_by(version: Version | None, writes: Sequence[Write]) -> list[Write]:
    """Return the writes of one commit as a version of the code makes them.

    Only the items of nodes and cases differ. A case gets an attribute in both of its items, or in none.
    """
    if version is None:
        return list(writes)
    change, cases = (_older, set[str]()) if version is Version.OLDER else (_newer, set(_cases(writes)))
    return [replace(one, item=change(one.item, cases)) if isinstance(one, Put) else one for one in writes]


def _cases(writes: Sequence[Write]) -> Iterator[str]:
    found = (one.item for one in writes if isinstance(one, Put))
    return (str(item["case_id"]) for item in found if "case_id" in item and isinstance(item.get("case"), dict))


def _older(item: Item, _: set[str]) -> Item:
    if not isinstance(item.get("state"), Packed):
        return item
    document = unpack(dict[str, Any], item["state"])
    return {**item, "state": pack({name: one for name, one in document.items() if name not in LATEST_ATTRIBUTES})}


def _newer(item: Item, cases: set[str]) -> Item:
    case = item.get("case")
    if isinstance(case, dict):
        return {**item, ADDED: "unknown", "case": {**case, ADDED: ["unknown"]}}
    if not isinstance(item.get("state"), Packed):
        return item
    document = unpack(dict[str, Any], item["state"])
    document[ADDED] = {"kind": "unknown"}
    if document.get("case", {}).get("id") in cases:
        document["case"] = {**document["case"], ADDED: ["unknown"]}
    conditions = document.get("conditions", {})
    document["conditions"] = {key: {**one, ADDED: 1} for key, one in conditions.items()}
    return {**item, ADDED: "unknown", "state": pack(document)}

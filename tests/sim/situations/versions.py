"""Deployments: for a while, some functions run another version of the code than the others.

Both versions store the state of a node in the same item. A newer version adds attributes that this version does not
know. An older version does not write the attributes that were added last. No cache of a running process is emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Packed, Put, Write
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
        self._table.write(written_by(self._version(), write))

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Perform writes as the version of the process makes them."""
        version = self._version()
        self._table.transact([written_by(version, write) for write in writes], token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def written_by(version: Version | None, write: Write) -> Write:
    """Return a write as a version of the code makes it. Only items with the state of a node differ."""
    state = write.item.get("state") if isinstance(write, Put) else None
    if version is None or not isinstance(write, Put) or not isinstance(state, Packed):
        return write
    document = unpack(dict[str, Any], state)
    if version is Version.OLDER:
        document = {name: value for name, value in document.items() if name not in LATEST_ATTRIBUTES}
        return replace(write, item={**write.item, "state": pack(document)})
    document[ADDED] = {"kind": "unknown"}
    if "case" in document:
        document["case"] = {**document["case"], ADDED: ["unknown"]}
    conditions = document.get("conditions", {})
    document["conditions"] = {key: {**one, ADDED: 1} for key, one in conditions.items()}
    return replace(write, item={**write.item, ADDED: "unknown", "state": pack(document)})

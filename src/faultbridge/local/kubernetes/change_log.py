"""Store the changes of a fake Kubernetes cluster by resource version, so that watches can read them."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change of one object; `type` is `ADDED`, `MODIFIED` or `DELETED`."""

    version: int
    resource: str
    type: str
    object: Document


class VersionTooOld(Exception):  # noqa: N818 - names the situation, which a client handles
    """Raised when the changes after a requested resource version were already discarded."""


@dataclass(slots=True)
class ChangeLog:
    """Counts resource versions, and stores the changes of objects until `compact` discards them."""

    version: int = 0
    _compacted: int = 0
    _changes: list[LoggedChange] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, resource: str, type_: str, document: Document) -> None:
        """Set the next resource version on an object, and log the change."""
        with self._changed:
            self.version += 1
            document["metadata"]["resourceVersion"] = str(self.version)
            self._changes.append(LoggedChange(self.version, resource, type_, deepcopy(document)))
            self._changed.notify_all()

    def compact(self) -> None:
        """Discard all changes so far; a watch from an earlier version then ends with the error 410."""
        with self._changed:
            self._changes.clear()
            self._compacted = self.version

    def after(self, version: int, seconds: float) -> list[LoggedChange]:
        """Return the changes after a resource version; if there are none, wait up to `seconds` for one.

        Raises VersionTooOld if the changes after that version were discarded.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.version > version or self._compacted > version, seconds)
            if version < self._compacted:
                raise VersionTooOld
            return [change for change in self._changes if change.version > version]

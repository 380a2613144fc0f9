"""Lists and watches of the objects in a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from faultbridge.errors import Transient


class ObjectKind(StrEnum):
    """The objects that can be watched."""

    NODE = "node"
    NODE_EVENT = "node_event"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """A part of a list, and the resource version of the whole list."""

    objects: Sequence[Mapping[str, Any]]
    version: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change and its resource version; `object` is None where only the version advanced (a bookmark)."""

    version: str
    object: Mapping[str, Any] | None = None
    deleted: bool = False


class VersionExpired(Transient):
    """The API no longer has the changes after a resource version (410); list the objects again."""


class ObjectWatch(Protocol):
    """The objects of one cluster and their changes."""

    def pages(self, kind: ObjectKind) -> Iterator[ObjectPage]:
        """Yield all objects of a kind, in pages. Raises VersionExpired if the list changed too much meanwhile."""
        ...

    def changes(self, kind: ObjectKind, version: str) -> Iterator[ObjectChange]:
        """Yield the changes after a version until the API ends the watch, which is normal. Raises VersionExpired."""
        ...

"""Port that lists and watches the objects of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from faultbridge.model.errors import Transient


class ObjectKind(StrEnum):
    """The kinds of Kubernetes objects that can be watched."""

    NODE = "node"
    NODE_EVENT = "node_event"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """One page of a list of Kubernetes objects, and the resource version of the whole list."""

    objects: Sequence[Mapping[str, object]]
    version: str


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change of a Kubernetes object and its resource version.

    `object` is None if only the version advanced (a bookmark).
    """

    version: str
    object: Mapping[str, object] | None = None
    deleted: bool = False


class VersionExpired(Transient):
    """Raised when the API no longer has the changes after a resource version (HTTP 410).

    The caller must list the objects again.
    """


class ObjectWatch(Protocol):
    """Lists the objects of one Kubernetes cluster and watches their changes."""

    def pages(self, kind: ObjectKind) -> Iterator[ObjectPage]:
        """Yield all objects of a kind, in pages; raises VersionExpired if the API has discarded the next page."""
        ...

    def changes(self, kind: ObjectKind, version: str) -> Iterator[ObjectChange]:
        """Yield the changes after a resource version until the API ends the watch, which is normal.

        Raises VersionExpired if the API no longer has these changes.
        """
        ...

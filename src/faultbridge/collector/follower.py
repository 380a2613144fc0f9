"""Follower: lists the objects of one kind, then watches their changes, and retries after failures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from faultbridge.errors import FaultbridgeError
from faultbridge.log import log_cause
from faultbridge.ports import ObjectKind, ObjectWatch, VersionExpired
from faultbridge.retry import Retry

BACKOFF = Retry(1, first_seconds=2.0, max_seconds=60.0)


class Handler(Protocol):
    """Receives the listed and changed objects of a follower.

    A method raises Transient if it must receive the same object again later.
    """

    def handle(self, found: Mapping[str, Any], /) -> None:
        """Receive an object that was listed or has changed, and store records about it for sending."""
        ...

    def remove(self, found: Mapping[str, Any], /) -> None:
        """Receive an object that was deleted, and update the records and the stored state."""
        ...

    def begin_list(self) -> None:
        """Prepare to receive all objects again. The follower then calls `handle` for each existing object."""
        ...

    def end_list(self) -> None:
        """Process the end of a list: objects for which `handle` was not called since `begin_list` are gone."""
        ...


@dataclass(slots=True)
class Follower:
    """Follows one kind of object until `stopping` is set.

    `version` is the resource version after which the next watch starts: the version of the last list or change that the
    handler received. A lost connection therefore loses no change. If the API no longer has all changes after this
    version (HTTP status 410), all objects are listed again. `follow` sets `listed` after the first complete list.
    `backoff` determines the pauses after failures.
    """

    kind: ObjectKind
    watch: ObjectWatch
    handler: Handler
    stopping: threading.Event
    backoff: Retry = BACKOFF
    wait: Callable[[float], object] | None = None
    version: str | None = None
    listed: threading.Event = field(default_factory=threading.Event)
    _failures: int = 0

    def run(self) -> None:
        """List the objects and watch their changes until `stopping` is set.

        After a FaultbridgeError, the error is logged, and the list or watch is retried after a random pause. The
        maximum pause grows with each failure in a row, up to one minute by default.
        """
        while not self.stopping.is_set():
            try:
                self.follow()
            except FaultbridgeError as error:
                self._pause_after(error)

    def follow(self) -> None:
        """List the objects if no version is stored, then pass changes to the handler until the watch ends."""
        if self.version is None:
            self.version = self.list_all()
            self.listed.set()
        for change in self.watch.changes(self.kind, self.version):
            if self.stopping.is_set():
                return
            if change.object is not None and change.deleted:
                self.handler.remove(change.object)
            elif change.object is not None:
                self.handler.handle(change.object)
            self.version, self._failures = change.version, 0

    def list_all(self) -> str:
        """Pass all objects to the handler; return the resource version after which a watch continues."""
        self.handler.begin_list()
        version = ""
        for page in self.watch.pages(self.kind):
            for found in page.objects:
                self.handler.handle(found)
            version = page.version
        self.handler.end_list()
        return version

    def _pause_after(self, error: FaultbridgeError) -> None:
        self._failures += 1
        if isinstance(error, VersionExpired):
            self.version = None
        pause = self.backoff.pause_after(self._failures)
        decision = "list_again" if self.version is None else "watch_again"
        log_cause(decision, reason=str(error), level=logging.WARNING, kind=self.kind, seconds=round(pause, 1))
        (self.wait or self.stopping.wait)(pause)

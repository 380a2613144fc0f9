"""The watches of the fake Kubernetes API: a stream of changes, with one JSON document per line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

from faultbridge.local.kubernetes.change_log import ChangeLog, Document, LoggedChange, VersionTooOld

BOOKMARK_SECONDS = 1.0
"""Pause without a change after which a bookmark is sent; the real API sends one about every minute."""

MAX_SECONDS = 300.0


def stream(
    log: ChangeLog, resource: str, version: int, seconds: float, wanted: Callable[[Document], bool]
) -> Iterator[bytes]:
    """Yield the changes of a resource after a version, as JSON lines.

    The stream lasts `seconds`, at most `MAX_SECONDS`. `wanted` returns whether the watch includes an object. If only
    other objects change, or nothing changes for `BOOKMARK_SECONDS`, a bookmark is yielded: a line with only the latest
    version, from which the client can continue. If the changes after `version` were discarded, the stream ends with an
    error.
    """
    end = time.monotonic() + min(seconds, MAX_SECONDS)
    while (left := end - time.monotonic()) > 0:
        try:
            changes = log.after(version, min(left, BOOKMARK_SECONDS))
        except VersionTooOld:
            yield _line("ERROR", expired(version))
            return
        version = max([version, *(change.version for change in changes)])
        matching = [change for change in changes if change.resource == resource and wanted(change.object)]
        yield from map(_change_line, matching)
        if not matching:
            yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def expired(version: int) -> Document:
    """Return the Kubernetes `Status` (410) for a watch whose resource version is too old."""
    text = f"too old resource version: {version}"
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Expired",
        "message": text,
        "code": 410,
    }


def _change_line(change: LoggedChange) -> bytes:
    return _line(change.type, change.object)


def _line(type_: str, document: Document) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"

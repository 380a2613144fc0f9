"""Read an archive that was copied to a folder, without a stack and without credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from faultbridge.cli.declare import BadParameter, Option
from faultbridge.model.errors import Conflict, Misconfigured
from faultbridge.record.archive.verification import ReadArchive
from faultbridge.record.timeline import Line, TimelineQuery

ArchiveOption = Annotated[
    Path | None, Option("--archive DIR", "Read a copy of the archive in this folder instead of a stack.")
]


def open_folder(path: Path) -> Folder:
    """Open a folder with a copy of the archive and perhaps of the vault with its anchors."""
    if not path.is_dir():
        raise BadParameter(f"not a folder: {path}; give the folder of an archive copy")
    return Folder(path)


def archived_entries(path: Path, wanted: TimelineQuery) -> list[Line]:
    """Return the archived entries that match a query, without duplicates, in the order of recording."""
    return ReadArchive(open_folder(path)).entries(wanted)


class Folder:
    """An Archive and a Vault in a local folder; keys are paths relative to the folder."""

    def __init__(self, root: Path) -> None:
        """Use a folder with `archive/`, `manifests/`, `sealed/` and `anchors/`; each may be missing."""
        if not root.is_dir():
            raise Misconfigured(f"not a folder: {root}; name a folder with a copy of the archive")
        self._root = root.resolve()

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes under the key; raises Conflict if the key exists with other content."""
        path = self._path(key)
        if path.exists() and path.read_bytes() != body:
            raise Conflict(f"{key} exists already with other content")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of the key, or None if the key does not exist."""
        path = self._path(key)
        return path.read_bytes() if path.is_file() else None

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix`, in alphabetical order."""
        parent = self._path(prefix.rpartition("/")[0]) if "/" in prefix else self._root
        files = (path.relative_to(self._root).as_posix() for path in parent.rglob("*") if path.is_file())
        yield from sorted(key for key in files if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        # Keys come from manifests, which the maker of the copy may have changed.
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root):
            raise Misconfigured(f"key leads outside the folder: {key[:80]!r}")
        return path

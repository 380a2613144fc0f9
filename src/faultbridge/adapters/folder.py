"""An archive in a folder: what an auditor copied from the buckets, and needs no access to the stack for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from faultbridge.errors import Conflict, Misconfigured


class Folder:
    """An Archive, and a Vault, in a folder; keys are paths below it."""

    def __init__(self, root: Path) -> None:
        """Take the folder that holds `archive/`, `manifests/`, `sealed/` and `anchors/`, as far as they were copied."""
        if not root.is_dir():
            raise Misconfigured(f"{root} is no folder")
        self._root = root.resolve()

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; what is there already stays."""
        path = self._path(key)
        if path.exists() and path.read_bytes() != body:
            raise Conflict(f"{key} is there already")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None where nothing is kept."""
        path = self._path(key)
        return path.read_bytes() if path.is_file() else None

    def list(self, prefix: str) -> Iterator[str]:
        """List every key that begins so, in order."""
        parent = self._path(prefix.rpartition("/")[0]) if "/" in prefix else self._root
        files = (path.relative_to(self._root).as_posix() for path in parent.rglob("*") if path.is_file())
        yield from sorted(key for key in files if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        # A key comes from a manifest, and a manifest from whoever made the copy: it must not lead out of the folder.
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root):
            raise Misconfigured(f"{key[:80]!r} leads out of the folder")
        return path

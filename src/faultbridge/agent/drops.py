"""Drops: files that other programs of the node leave for the agent, such as job hooks and health checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultbridge.agent.children import MAX_OUTPUT

AT_ONCE = 20
_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,63})\.[A-Za-z0-9_.-]{1,128}")


class Drops:
    """A folder whose files are `<source>.<anything>`; one is written elsewhere in it, with a leading dot, and renamed.

    A file is taken away when its record is safe; one that is too large or badly named is taken away and counted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bad = 0
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def waiting(self) -> Iterator[tuple[Path, str, bytes]]:
        """Yield a few of the files, each with its source and its content."""
        try:
            files = sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except OSError:
            return
        for file in files[:AT_ONCE]:
            named = _NAME.fullmatch(file.name)
            try:
                good = named is not None and file.is_file() and not file.is_symlink()
                body = file.read_bytes() if good and file.stat().st_size <= MAX_OUTPUT else b""
            except OSError:
                continue
            if named is None or not body.strip():
                self.bad += 1
                self.taken(file)
                continue
            yield file, named[1], body

    def taken(self, file: Path) -> None:
        """Take a file away."""
        with suppress(OSError):
            file.unlink()

"""The drop folder: the agent sends files that other programs, such as job hooks, write there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultbridge.agent.child_processes import MAX_OUTPUT_BYTES

FILES_PER_POLL = 20
_FILE_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,63})\.[A-Za-z0-9_.-]{1,128}")


class DropFolder:
    """A folder with files named `<source>.<anything>`, each of which becomes one record.

    A program writes its file under a name with a leading dot and then renames it.
    A file is deleted when its record is stored. A file that is empty, too large or has another name is deleted and
    counted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.refused = 0
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def pending(self) -> Iterator[tuple[Path, str, bytes]]:
        """Yield up to 20 files, each with its source and its content."""
        try:
            files = sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except OSError:
            return
        for file in files[:FILES_PER_POLL]:
            name = _FILE_NAME.fullmatch(file.name)
            try:
                valid = name is not None and file.is_file() and not file.is_symlink()
                body = file.read_bytes() if valid and file.stat().st_size <= MAX_OUTPUT_BYTES else b""
            except OSError:
                continue
            if name is None or not body.strip():
                self.refused += 1
                self.remove(file)
                continue
            yield file, name[1], body

    def remove(self, file: Path) -> None:
        """Delete a file."""
        with suppress(OSError):
            file.unlink()

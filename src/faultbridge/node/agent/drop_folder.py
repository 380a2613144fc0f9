"""The drop folder: other programs, such as job hooks, write files there, and the agent sends them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultbridge.node.agent.child_processes import MAX_OUTPUT_BYTES

FILES_PER_POLL = 20
_FILE_NAME = re.compile(r"([a-z0-9][a-z0-9-]{0,63})\.[A-Za-z0-9_.-]{1,128}")


class DropFolder:
    """A folder of files named `<source>.<anything>`. Each valid file becomes one record.

    A program writes a file under a name with a leading dot, and then renames it. The agent deletes a file when its
    record is stored, or is too large to send. The agent also deletes a file that is blank, is larger than 2 MiB, is a
    symbolic link or has another form of name, and counts it in `refused`.

    A file that cannot be read or deleted stays, and is tried again after the files that failed less often. A subfolder
    also stays.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.refused = 0
        self._failures: dict[str, int] = {}
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def pending(self) -> Iterator[tuple[Path, str, bytes]]:
        """Yield path, source and content of each valid file among the first 20; delete and count others."""
        try:
            files = sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except OSError:
            return
        self._failures = {file.name: self._failures[file.name] for file in files if file.name in self._failures}
        files.sort(key=lambda file: self._failures.get(file.name, 0))
        for file in files[:FILES_PER_POLL]:
            name = _FILE_NAME.fullmatch(file.name)
            try:
                valid = name is not None and file.is_file() and not file.is_symlink()
                body = file.read_bytes() if valid and file.stat().st_size <= MAX_OUTPUT_BYTES else b""
            except OSError:
                self._count_failure(file)
                continue
            if name is None or not body.strip():
                self.refused += file.name not in self._failures
                self.remove(file)
                continue
            yield file, name[1], body

    def remove(self, file: Path) -> None:
        """Delete a file of the folder. If this fails, a valid file is sent again later."""
        try:
            file.unlink(missing_ok=True)
        except OSError:
            self._count_failure(file)

    def _count_failure(self, file: Path) -> None:
        self._failures[file.name] = self._failures.get(file.name, 0) + 1

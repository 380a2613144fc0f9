"""journald: messages of a few units, followed by its own cursor."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from faultbridge.agent.clock import AgentClock
from faultbridge.agent.folding import Line

MAX_LINE_BYTES = 256 * 1024
MAX_TEXT = 16 * 1024
AGAIN_SECONDS = 30.0
_FIELDS = "MESSAGE,_SYSTEMD_UNIT,__REALTIME_TIMESTAMP,_BOOT_ID"


class JournalLog:
    """Reads one unit's messages through `journalctl`, beyond a cursor; a reader that ended is started again later."""

    lost = 0

    def __init__(self, unit: str, source: str, mark: Mapping[str, Any], clock: AgentClock) -> None:
        self.name = f"journal-{unit}"
        self.source = source
        self._unit = unit
        self._clock = clock
        self._cursor = str(mark.get("cursor", ""))
        self._reader: subprocess.Popen[bytes] | None = None
        self._begun = float("-inf")
        self._partial = b""

    def read(self, most: int) -> Iterator[Line]:
        """Yield the messages that are there."""
        read = 0
        while read < most:
            chunk = self._chunk()
            if not chunk:
                return
            read += len(chunk)
            *whole, self._partial = (self._partial + chunk).split(b"\n")
            for raw in whole:
                line = self._line(raw)
                if line is not None:
                    yield line
            if len(self._partial) > MAX_LINE_BYTES:
                self._partial = b""

    def close(self) -> None:
        """End the reader."""
        if self._reader is not None:
            self._reader.kill()
            self._reader.wait()
            if self._reader.stdout is not None:
                self._reader.stdout.close()
            self._reader = None
            self._partial = b""

    def _command(self) -> Sequence[str]:
        since = ["--after-cursor", self._cursor] if self._cursor else ["--lines", "0"]
        return ["journalctl", "--follow", "--output", "json", "--output-fields", _FIELDS, "--unit", self._unit, *since]

    def _chunk(self) -> bytes:
        if self._reader is not None and self._reader.poll() is not None:
            self.close()
        if self._reader is None and not self._begin():
            return b""
        assert self._reader is not None  # noqa: S101 - just begun
        assert self._reader.stdout is not None  # noqa: S101 - it is a pipe
        try:
            return os.read(self._reader.stdout.fileno(), 65536)
        except BlockingIOError:
            return b""

    def _begin(self) -> bool:
        now = self._clock.monotonic()
        if now - self._begun < AGAIN_SECONDS:
            return False
        self._begun = now
        with suppress(OSError):
            self._reader = subprocess.Popen(  # noqa: S603 - a fixed program, no shell
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if self._reader.stdout is not None:
                os.set_blocking(self._reader.stdout.fileno(), False)
        return self._reader is not None

    def _line(self, raw: bytes) -> Line | None:
        try:
            entry = json.loads(raw)
        except ValueError:
            return None
        text = entry.get("MESSAGE") if isinstance(entry, dict) else None
        if isinstance(text, list):  # bytes that are no text
            text = bytes(one & 255 for one in text if isinstance(one, int)).decode("utf-8", "replace")
        if not isinstance(text, str) or not text.strip():
            return None
        return Line("", text[:MAX_TEXT].replace("\n", " "), {"cursor": str(entry.get("__CURSOR", ""))})

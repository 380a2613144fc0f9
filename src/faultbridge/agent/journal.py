"""Reads the journald messages of one systemd unit through `journalctl`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from faultbridge.agent.host import AgentClock
from faultbridge.agent.log_follower import Log, LogLine

MAX_TEXT = 16 * 1024
RESTART_SECONDS = 30.0
_FIELDS = "MESSAGE,_SYSTEMD_UNIT,__REALTIME_TIMESTAMP,_BOOT_ID"


class JournalLog(Log):
    """Reads the messages of one systemd unit after a journald cursor, with `journalctl --follow`.

    If `journalctl` exits, it is restarted, at most every 30 s. The new process continues after the last message that
    was read.
    """

    max_line_bytes = 256 * 1024

    def __init__(self, unit: str, source: str, position: Mapping[str, Any], clock: AgentClock) -> None:
        super().__init__()
        self.name = f"journal-{unit}"
        self.source = source
        self._unit = unit
        self._clock = clock
        self._cursor = str(position.get("cursor", ""))
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")
        self._first_start: datetime | None = None

    def close(self) -> None:
        """Stop `journalctl`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
            self._partial = b""

    def _command(self) -> Sequence[str]:
        since = ["--after-cursor", self._cursor] if self._cursor else self._from_start()
        return ["journalctl", "--follow", "--output", "json", "--output-fields", _FIELDS, "--unit", self._unit, *since]

    def _from_start(self) -> Sequence[str]:
        """Return the `journalctl` options for a start without a journald cursor.

        The options select only messages since the first start of `journalctl`. They are used until a message has been
        read, because each message contains a journald cursor.
        """
        if self._first_start is None:
            self._first_start = self._clock.now()
            return ["--lines", "0"]
        return ["--since", f"@{self._first_start.timestamp():.3f}"]

    def _read_chunk(self) -> bytes:
        if self._process is None and not self._start():
            return b""
        assert self._process is not None  # noqa: S101 - just started
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            chunk = os.read(self._process.stdout.fileno(), 65536)
        except BlockingIOError:
            return b""
        if not chunk:  # `journalctl` exited, and all its output was read
            self.close()
        return chunk

    def _start(self) -> bool:
        now = self._clock.monotonic()
        if now - self._started_at < RESTART_SECONDS:
            return False
        self._started_at = now
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603 - a fixed program, no shell
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if self._process.stdout is not None:
                os.set_blocking(self._process.stdout.fileno(), False)
        return self._process is not None

    def _parse_line(self, raw: bytes) -> LogLine | None:
        try:
            entry = json.loads(raw)
        except ValueError:
            return None
        if not isinstance(entry, dict):
            return None
        self._cursor = str(entry.get("__CURSOR") or self._cursor)
        text = entry.get("MESSAGE")
        if isinstance(text, list):  # journald writes a message that is not UTF-8 as a list of byte values
            text = bytes(value & 255 for value in text if isinstance(value, int)).decode("utf-8", "replace")
        if not isinstance(text, str) or not text.strip():
            return None
        return LogLine("", text[:MAX_TEXT].replace("\n", " "), {"cursor": self._cursor})

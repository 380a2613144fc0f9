"""Print the log lines of a long-running command: time, level, message, reason and ids."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TextIO

from faultbridge.domain.times import to_text

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "reason", "taskName"}


class LogLines(logging.Handler):
    """A log handler that writes one line of printable characters per log record to a stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record as a line, and flush the stream."""
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        ids = "".join(f" {name}={value}" for name, value in fields.items())
        at = to_text(datetime.fromtimestamp(record.created, UTC))
        line = f"{at} {record.levelname} {record.getMessage()}: {getattr(record, 'reason', '')}{ids}"
        self._stream.write("".join(one if one.isprintable() else " " for one in line) + "\n")
        self._stream.flush()

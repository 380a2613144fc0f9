"""Marks lines of a node's log that look like kernel lines, but lack proof that the kernel wrote them.

A decoder accepts such lines, because a log collector may have removed the proof. A verdict needs the proof. The lines
are therefore marked before a decoder reads the log. Two kinds of lines are marked:

- A system log line from `kernel` with a process id, such as `kernel[123]:`, because the kernel has no process id.
- A journal record without `_TRANSPORT`. In this field, journald states how it received the record, and no program can
  choose its value.
"""

from __future__ import annotations

import re

_PID = re.compile(
    rb"^((?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    rb" [\w.-]{1,253} kernel)\[[1-9]\d{0,9}\](?=:)",
    re.MULTILINE,
)
_BY_PROGRAM = rb"user:notice: \1"
_RECORD = re.compile(
    rb"^[ \t]{0,16}\{(?=[^\n]*\"(?:__REALTIME_TIMESTAMP|__CURSOR|_UID|_PID|_HOSTNAME)\")", re.MULTILINE
)
_TRANSPORT = b'"_TRANSPORT"'
_STATED = b'{"_TRANSPORT": "stdout", '


def mark_claims(body: bytes) -> bytes:
    """Return a log with its unproven kernel lines marked as lines of a program.

    Each line keeps its line number.
    """
    if b" kernel[" in body:
        body = _PID.sub(_BY_PROGRAM, body)
    if b'"MESSAGE"' not in body:
        return body
    return b"\n".join(_RECORD.sub(_STATED, one) if _TRANSPORT not in one else one for one in body.split(b"\n"))

"""Decodes `dcgm-policy`: the policy violations that `dcgmi policy --reg` prints.

No violation names its GPU. Grammar: `Timestamp: T`, a sentence that names the policy, and a line with a value. An Xid
is one line, `XID error N detected.`. Times: the local time of the node, taken as UTC because it has no time zone.
Units: as printed with the value (a count, degrees Celsius, watts). Errors: `Rejected(no_framing)` without `Listening
for violations.` or a violation. Source: dcgmi's Policy.cpp, DCGM 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import Hints, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.nvidia_smi.snapshot import local_time
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Fault, Observation

SOURCE = "dcgm-policy"
_LISTENING = "Listening for violations"
_TIME = re.compile(r"Timestamp: (.{8,40})$")
_XID = re.compile(r"XID error (\d{1,5}) detected")
_VALUE = re.compile(r"([A-Za-z/ ]{3,40}): (\d{1,20})\s*$")
_UNKNOWN_GPU = Component(ComponentType.GPU)


class _Violation(Struct):
    at: datetime | None
    code: str
    lines: list[str]
    details: dict[str, str]

    def fault(self) -> Fault:
        text = " ".join(self.lines)
        return Fault(
            SOURCE, self.code, _UNKNOWN_GPU, truncate(text), self.at, evidence("\n".join(self.lines)), self.details
        )


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each policy violation, on a GPU that is not identified."""
    text = text_of(body)
    if not recognize(body):
        raise Rejected("no_framing", "no policy violation and no `Listening for violations.`")
    return tuple(violation.fault() for violation in _violations(text))


def recognize(body: bytes) -> bool:
    """Return whether a body has the start message of `dcgmi policy --reg`, or one of its violations."""
    text = text_of(body)
    return _LISTENING in text or "has violated policy manager values" in text or _is_xid(text)


def _is_xid(text: str) -> bool:
    return any(_XID.match(line.strip()) for line in text.split("\n"))


def _violations(text: str) -> Iterator[_Violation]:
    at: datetime | None = None
    current: _Violation | None = None
    for raw_line in text.split("\n"):
        line = raw_line.strip()
        started = _start_of_violation(line, at)
        if started is not None:
            if current is not None:
                yield current
            current = started
        elif (timestamp := _TIME.match(line)) is not None:
            at = local_time(timestamp[1].strip())
        elif current is not None and (value := _VALUE.match(line)) is not None:
            current.lines.append(line)
            current.details[_key(value[1])] = value[2]
    if current is not None:
        yield current


def _start_of_violation(line: str, at: datetime | None) -> _Violation | None:
    xid = _XID.match(line)
    if xid is not None:
        return _Violation(at, f"xid.{int(xid[1])}", [line], {})
    for phrase, code in table("dcgm")["policies"].items():
        found = re.match(phrase, line)
        if found is not None:
            return _Violation(at, code, [line], dict(found.groupdict()))
    return None


def _key(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")

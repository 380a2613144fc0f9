"""Decodes `dcgm-policy`: the policy violations that `dcgmi policy --reg` prints.

No violation names its GPU. Grammar: `Timestamp: T`, a sentence that names the policy, and a line with a value. An Xid
is one line, `XID error N detected.`. Times: the local time of the node, taken as UTC because it has no time zone.
Units: as printed with the value (a count, degrees Celsius, watts). Errors: `Rejected(no_framing)` without `Listening
for violations.` or a violation. Source: dcgmi's Policy.cpp, DCGM 3 and 4.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import Hints, fault_of, key_of
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.nvidia_smi.snapshot import local_time
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Observation

SOURCE = "dcgm-policy"
_LISTENING = "Listening for violations"
_TIME = re.compile(r"Timestamp: (.{8,40})$")
_XID = re.compile(r"XID error (\d{1,5}) detected")
_VALUE = re.compile(r"([A-Za-z/ ]{3,40}): (\d{1,20})\s*$")
_POLICIES = [(re.compile(phrase), code) for phrase, code in table("dcgm")["policies"].items()]
_UNKNOWN_GPU = Component(ComponentType.GPU)


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each policy violation, on a GPU that is not identified."""
    if not recognize(body):
        raise Rejected("no_framing", "no policy violation and no `Listening for violations.`")
    at: datetime | None = None
    found: list[tuple[datetime | None, str, list[str], dict[str, Any]]] = []
    for line in map(str.strip, text_of(body).split("\n")):
        if (stated := _stated(line)) is not None:
            found.append((at, stated[0], [line], stated[1]))
        elif (timestamp := _TIME.match(line)) is not None:
            at = local_time(timestamp[1].strip())
        elif found and (value := _VALUE.match(line)) is not None:
            found[-1][2].append(line)
            found[-1][3][key_of(value[1])] = value[2]
    return tuple(
        fault_of(SOURCE, code, _UNKNOWN_GPU, " ".join(lines), "\n".join(lines), at, **details)
        for at, code, lines, details in found
    )


def recognize(body: bytes) -> bool:
    """Return whether a body has the start message of `dcgmi policy --reg`, or one of its violations."""
    text = text_of(body)
    is_named = _LISTENING in text or "has violated policy manager values" in text
    return is_named or any(_XID.match(line.strip()) for line in text.split("\n"))


def _stated(line: str) -> tuple[str, dict[str, Any]] | None:
    """Return the fault code and the attributes of a line that starts a violation, or None for any other line."""
    if (xid := _XID.match(line)) is not None:
        return f"xid.{int(xid[1])}", {}
    matches = ((code, phrase.match(line)) for phrase, code in _POLICIES)
    return next(((code, found.groupdict()) for code, found in matches if found), None)

"""`dcgm-policy`: what `dcgmi policy --reg` prints while it listens: one violation after another, none names its GPU.

Grammar: `Timestamp: T`, a sentence that says which policy, and a line with its value (a count, degrees Celsius,
watts); an Xid is one line, `XID error N detected.`. Time: T is the node's local time without a zone, taken as UTC.
Errors: `Rejected(no_framing)` where neither `Listening for violations.` nor a sentence stands. Source: dcgmi's
Policy.cpp, DCGM 3 and 4. Units: those beside the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.nvidia_smi_snapshot import local_time
from faultbridge.domain.faults import Component, ComponentType, Fault, Observation
from faultbridge.errors import Rejected

SOURCE = "dcgm-policy"
_LISTENING = "Listening for violations"
_TIME = re.compile(r"Timestamp: (.{8,40})$")
_XID = re.compile(r"XID error (\d{1,5}) detected")
_VALUE = re.compile(r"([A-Za-z/ ]{3,40}): (\d{1,20})\s*$")
_UNKNOWN_GPU = Component(ComponentType.GPU)


@dataclass(frozen=True, slots=True)
class _Policy:
    phrase: re.Pattern[str]
    code: str


_POLICIES: tuple[_Policy, ...] = (
    _Policy(re.compile(r"A double-bit ECC error has violated policy"), "dcgm.dbe_violation"),
    _Policy(re.compile(r"A PCIe replay event has violated policy"), "dcgm.pcie_replay_violation"),
    _Policy(re.compile(r"The maximum number of retired pages has violated policy"), "dcgm.retired_pages_limit"),
    _Policy(re.compile(r"The maximum thermal limit has violated policy"), "dcgm.thermal_violations"),
    _Policy(re.compile(r"The maximum power limit has violated policy"), "dcgm.clocks_event_power"),
    _Policy(re.compile(r"NVLink Counter (?P<counter>\S{1,64}) has violated policy"), "dcgm.nvlink_error_threshold"),
)


@dataclass(slots=True)
class _Violation:
    """One violation as it is read, line by line."""

    at: datetime | None
    code: str
    lines: list[str]
    told: dict[str, str]

    def fault(self) -> Fault:
        text = " ".join(self.lines)
        return Fault(SOURCE, self.code, _UNKNOWN_GPU, cut(text), self.at, evidence("\n".join(self.lines)), self.told)


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each violation; of which GPU it is, DCGM does not say."""
    text = text_of(body)
    if not recognize(body):
        raise Rejected("no_framing", "no policy violation, and nobody listens for any")
    return tuple(violation.fault() for violation in _violations(text))


def recognize(body: bytes) -> bool:
    """Tell whether dcgmi listens, or one of its sentences is there."""
    text = text_of(body)
    return _LISTENING in text or "has violated policy manager values" in text or _is_xid(text)


def _is_xid(text: str) -> bool:
    return any(_XID.match(line.strip()) for line in text.split("\n"))


def _violations(text: str) -> Iterator[_Violation]:
    at: datetime | None = None
    open_one: _Violation | None = None
    for written in text.split("\n"):
        line = written.strip()
        begun = _begun(line, at)
        if begun is not None:
            if open_one is not None:
                yield open_one
            open_one = begun
        elif (stamp := _TIME.match(line)) is not None:
            at = local_time(stamp[1].strip())
        elif open_one is not None and (value := _VALUE.match(line)) is not None:
            open_one.lines.append(line)
            open_one.told[_key(value[1])] = value[2]
    if open_one is not None:
        yield open_one


def _begun(line: str, at: datetime | None) -> _Violation | None:
    xid = _XID.match(line)
    if xid is not None:
        return _Violation(at, f"xid.{int(xid[1])}", [line], {})
    for policy in _POLICIES:
        found = policy.phrase.match(line)
        if found is not None:
            return _Violation(at, policy.code, [line], dict(found.groupdict()))
    return None


def _key(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


DECODER = Decoder(
    name=SOURCE,
    summary="dcgmi policy --reg: violations of DCGM's policies",
    example="Listening for violations.\nTimestamp: Tue Feb  3 04:05:06 2026\nXID error 79 detected.",
    recognize=recognize,
    decode=decode,
)

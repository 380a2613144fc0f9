"""Decodes `nvlsm-log`: errors of the NVLink subnet manager (NVLSM), which programs the switches from NVLink5 on.

Grammar: `MON DD HH:MM:SS MICROSECONDS [THREAD] 0xLEVEL -> FUNCTION: ERR NUMBER: TEXT`, the form of OpenSM. Equal errors
are one fault with their number. A subnet that is up, or a message without `ERR`, is no fault. Times: local without a
year, taken as UTC. Units: none. Errors: `Rejected(no_framing)` without such a line. Source: OpenSM's log and NVLSM.
"""

from __future__ import annotations

import re
from collections import Counter

from faultbridge.decode.frames.clock import yearless_time
from faultbridge.decode.frames.decoder import Decoder, Hints, attributes_of, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Fault, Observation

SOURCE = "nvlsm-log"
_LINE = re.compile(
    r"^([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) \d{1,6} "
    r"\[[0-9A-Fa-f]{1,16}\] 0x[0-9a-fA-F]{2} -> ([^\n]{1,2048})$",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"(\w{1,64}): (?:ERR ([0-9A-F]{4})): (.{1,1024})|(Errors during initialization|.{0,64}\bfatal\b.{0,256})",
    re.IGNORECASE,
)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each kind of error: the first one of each number and function, with the number of all."""
    lines = _LINE.findall(text_of(body))
    if not lines:
        raise Rejected("no_framing", "no line of the NVLink subnet manager")
    errors = [(line, found) for line in lines if (found := _ERROR.match(line[3])) is not None]
    kinds = Counter((found[1], found[2]) for _, found in errors)
    first = {(found[1], found[2]): (line, found) for line, found in reversed(errors)}
    return tuple(
        Fault(
            source=SOURCE,
            code="host.fabric_manager_error",
            component=NODE_COMPONENT,
            message=truncate(f"The NVLink subnet manager reports: {found[3] or found[4]}"),
            observed_at=yearless_time(line[0], line[1], line[2], hints.received_at),
            evidence=evidence(" ".join(line)),
            attributes=attributes_of(function=found[1], error=found[2]),
            count=kinds[kind],
        )
        for kind, (line, found) in reversed(first.items())
    )


def recognize(body: bytes) -> bool:
    """Return whether a body probably has a line of the NVLink subnet manager."""
    return b"] 0x" in body and _LINE.search(text_of(body)) is not None


DECODER = Decoder(
    name=SOURCE,
    summary="the log of NVIDIA's NVLink subnet manager (NVLSM): errors",
    example="Feb 03 04:05:06 123456 [C4F7E740] 0x01 -> osm_perfmgr: ERR 5501: Failed to read the counters of a port",
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)

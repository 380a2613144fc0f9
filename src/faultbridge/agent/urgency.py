"""Urgency: decides which log lines may wait for the next message of the node.

A line may wait only if the decoder reads it as a mild fault: information, or a warning that opens no case. Every other
line is urgent: a serious fault, a line that the decoder does not understand, and each line of a log for which the agent
has no decoder.
"""

from __future__ import annotations

from faultbridge.data import load_catalog
from faultbridge.decoders.common.decoder import NO_HINTS
from faultbridge.decoders.kernel.kernel_log import decode
from faultbridge.decoders.kernel.xid import SOURCE
from faultbridge.domain.faults import Fault, Observation, Severity
from faultbridge.errors import Rejected

MAX_LINES = 20
"""More lines at once are urgent, because decoding them takes much processor time of the node."""


def can_wait(source: str, body: bytes) -> bool:
    """Return whether log lines may wait: 1 to 20 lines of the kernel log, each a mild fault."""
    lines = body.splitlines() if source == SOURCE else []
    return 0 < len(lines) <= MAX_LINES and all(map(_is_mild_line, lines))


def _is_mild_line(line: bytes) -> bool:
    try:
        decoded = decode(line, NO_HINTS)
    except Rejected:
        return False
    found = decoded.observations
    return not decoded.unparsed and bool(found) and all(map(_is_mild, found))


def _is_mild(observation: Observation) -> bool:
    if not isinstance(observation, Fault):
        return False
    fault = load_catalog().classify(observation)
    mild = fault.severity is not None and fault.severity.rank <= Severity.WARNING.rank
    return mild and not (fault.action is not None and fault.action.opens_case)

"""Reports: what a look's own failure says, as a fault that needs no further reading."""

from __future__ import annotations

import json
from datetime import datetime

from faultbridge.agent.children import Ended, How
from faultbridge.domain.times import to_text

SOURCE = "faultbridge"
MAX_EVIDENCE = 2048
# What does not answer may be the driver; a monitor of ours that fails says nothing about the node.
_WEIGHT = {"smi": ("error", "run_diagnostics")}
_MILD = ("warning", "none")
_SAYS = {
    How.HUNG: ("hang", "did not answer within {seconds} s"),
    How.CRASHED: ("crash", "crashed"),
    How.FAILED: ("failed", "failed"),
    How.OVERSIZED: ("oversize", "wrote more than can be true"),
}


def trouble(look: str, family: str, ended: Ended, *, at: datetime, seconds: int) -> bytes:
    """Write the fault that a look did not end well."""
    word, says = _SAYS[ended.how]
    evidence = ended.complaint or ended.output[:MAX_EVIDENCE].decode("utf-8", "replace")
    return _write("fault", look, f"{family}.{word}", f"{look} {says.format(seconds=seconds)}", at, evidence)


def well_again(look: str, family: str, how: How, *, at: datetime) -> bytes:
    """Write the clear: the same look ended well again."""
    return _write("clear", look, f"{family}.{_SAYS[how][0]}", f"{look} answers again", at, "")


def _write(kind: str, look: str, code: str, message: str, at: datetime, evidence: str) -> bytes:
    severity, action = _WEIGHT.get(code.partition(".")[0], _MILD)
    report = {
        "kind": kind,
        "source": SOURCE,
        "code": code,
        "severity": severity,
        "action": action,
        "component": {"type": "node", "name": None},
        "observed_at": to_text(at),
        "message": message,
        "evidence": evidence[:MAX_EVIDENCE] or message,
        "attributes": {"look": look},
    }
    return json.dumps(report).encode() + b"\n"

"""Deep health checks of SageMaker HyperPod: a JSON line for a faulty instance, plain lines for everything else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.decoders.base import cut, evidence
from faultbridge.decoders.clock import iso_time
from faultbridge.decoders.fields import text
from faultbridge.domain.faults import NODE_COMPONENT, Action, Fault, Severity

CODE = "agent.deep_check_failed"
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (info|warn|error) (.{1,4096})")
_ASKED = re.compile(r"\b(replacement|reboot)Required: {0,2}(true|false)")
_FAULTY = "Encountered FaultyInstance"


def is_check(written: Mapping[str, Any]) -> bool:
    """Tell whether a JSON record says that a check found a faulty instance."""
    return str(written.get("msg", ""))[:128].startswith(_FAULTY)


def failed_check(source: str, written: Mapping[str, Any], at: datetime | None, instance_id: str | None) -> Fault:
    """Turn the record of a faulty instance into a fault; its time is its own, else when it was taken in."""
    said = text(written.get("msg")) or ""
    action = Action.REBOOT_NODE if "Reboot the Instance" in said else None
    return _fault(source, said, iso_time(text(written.get("ts")) or "") or at, instance_id, action)


def plain_lines(message: str) -> Iterator[re.Match[str]]:
    """Yield the lines of a check's plain log."""
    yield from (found for line in message.splitlines() if (found := _LINE.match(line)))


def plain_fault(source: str, line: re.Match[str], instance_id: str | None) -> Fault | None:
    """Return the fault of a line that asks for a replacement or a reboot, or None."""
    asked = {what for what, wanted in _ASKED.findall(line[3]) if wanted == "true"}
    if _FAULTY not in line[3] and not asked:
        return None
    action = Action.REBOOT_NODE if asked == {"reboot"} else None
    return _fault(source, line[3], iso_time(line[1]), instance_id, action)


def _fault(source: str, said: str, at: datetime | None, instance_id: str | None, action: Action | None) -> Fault:
    return Fault(
        source=source,
        code=CODE,
        component=NODE_COMPONENT,
        message=cut(said),
        observed_at=at,
        evidence=evidence(said),
        attributes={"instance_id": instance_id} if instance_id else {},
        severity=Severity.ERROR if action else None,
        action=action,
        node=instance_id,
    )

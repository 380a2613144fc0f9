"""NVSentinel's error codes in the words of the catalogue, and its lists of errors in one node condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decoders.dcgm_codes import CODES, code_of_number
from faultbridge.decoders.nvsentinel_event import HealthEvent, component_of, entity

_XID_IN_TEXT = re.compile(r"\bXID (\d{1,5})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(\d{1,5})(?:\.(\w{1,64}))?")
_PART = re.compile(r"\b(ErrorCode|PCI|GPU_UUID|GPU|NIC):(\S{1,128})")
_ADVICE = re.compile(r"Recommended Action=(\w{1,32})")
_CONDITION = re.compile(r"^(\w{1,64}) = (True|False) +reason=(\w{1,64})", re.MULTILINE)


def code_of(error: str, event: HealthEvent, known: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the code of an error and the unit behind its point (`149.NETIR_LINK_EVT`)."""
    number = _NUMBER.fullmatch(error)
    if number:
        switch = event.check.upper().startswith("SYSLOGSSXID")
        return f"{'sxid' if switch else 'xid'}.{int(number[1])}", number[2]
    code = known["errors"].get(error) or "dcgm." + error.removeprefix("DCGM_FR_").lower()
    named = _XID_IN_TEXT.search(event.message)
    if code == "dcgm.xid_error" and named:
        return f"xid.{int(named[1])}", None
    if code in CODES or error in known["errors"]:
        return code, None
    return "agent.condition", None


def code_without_error(event: HealthEvent, known: Mapping[str, Any]) -> str:
    """Name what an event without an error code is about: its check, else an Xid in its text."""
    by_check = known["check_codes"].get(event.check)
    named = _XID_IN_TEXT.search(event.message)
    return str(by_check) if by_check else f"xid.{int(named[1])}" if named else "agent.condition"


def condition_events(text: str) -> Iterator[HealthEvent]:
    """Yield an event for each error of a node condition's message: `ErrorCode:79 PCI:... ;ErrorCode:...`."""
    found = _CONDITION.search(text)
    if found and found[2] == "False":
        return
    for part in text.split("ErrorCode:")[1:]:
        names: dict[str, Any] = {}
        # The kernel line that is quoted behind them names the device once more, in its own form.
        fields = dict(reversed(_PART.findall("ErrorCode:" + part[:4096])))
        for kind, value in fields.items():
            named = entity(kind, value)
            if named is not None:
                names.setdefault(*named)
        advice = _ADVICE.search(part[:4096])
        yield HealthEvent(
            node=None,
            check=found[1] if found else "",
            healthy=False,
            fatal=False,
            message=part[:4096].strip(),
            action=advice[1] if advice else "",
            errors=(fields["ErrorCode"].rstrip(";,"),) if "ErrorCode" in fields else (),
            component=component_of(names),
            at=None,
        )


def diagnostic_code(number: object) -> str:
    """Name the DCGM error of a preflight diagnostic."""
    return code_of_number(number) if isinstance(number, int) and not isinstance(number, bool) else "agent.condition"

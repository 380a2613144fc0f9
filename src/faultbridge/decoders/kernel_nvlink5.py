"""What an NVLink5 error (Xid 144 to 150) carries: unit, the driver's word, link, status words, and what they stand for.

Grammar: `UNIT[/SUB] Fatal|Nonfatal XCn iN Link L (intrInfo errorStatus w w ...)`; the words may be cut off. Since
driver branch R575 bits 0 to 6 of intrInfo number the unit, before that bits 0 to 9 did, with other numbers; bits 20 to
25 are the cause of a link event in both. The two tables share no number within one Xid, so a line itself tells its
driver's branch. Source: NVIDIA's Xid catalogue, NVLink5 sheet (`data/nvlink5_units.json`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from faultbridge.data import nvlink5_units

_ERROR = re.compile(
    r"(\S{1,64}) +(Fatal|Nonfatal) +XC(\d{1,3}) +i(\d{1,3}) +Link +(-?\d{1,4})(?: +\(([0-9a-fA-Fx ]{0,200}))?"
)
_CAUSE_SHIFT, _CAUSE_MASK = 20, 0x3F
_UNIT_MASKS = {"before": 0x3FF, "since": 0x7F}
BRANCHES = {"before": "before r575", "since": "r575"}
_WORDS = ("intrinfo", "errorstatus")


def nvlink5_attributes(code: int, text: str) -> dict[str, str]:
    """Read the text of an Xid 144 to 150 as attributes; nothing where it has another shape.

    `driver_branch` is what the number of the unit tells of the driver, `decoded_unit` the unit that it names where the
    printed word is none of the catalogue's, `exception` why the catalogue's rules for the unit do not hold.
    """
    found = _ERROR.match(text)
    if found is None:
        return {}
    unit, severity, crossing, injected, link, registers = found.groups()
    words = (registers or "").split()
    told = {"unit": unit, "severity": severity, "xc": crossing, "injected": injected, "link": str(int(link))}
    told |= dict(zip(_WORDS, words, strict=False))
    if len(words) > len(_WORDS):
        told["words"] = " ".join(words[2:])
    if len(words) >= len(_WORDS):
        told |= _decoded(code, unit, _number(words[0]), _number(words[1]))
    return told


def _decoded(code: int, printed: str, info: int | None, status: int | None) -> dict[str, str]:
    """Say what the first word means: the cause of a link event, the unit in either numbering, an exception."""
    told: dict[str, str] = {}
    if info is None:
        return told
    if cause := info >> _CAUSE_SHIFT & _CAUSE_MASK:
        told["cause"] = f"{cause:#04x}"
    units = _units(code)
    named = [name for name in units if printed in {name, *re.split(r"[/ ]", name)}]
    for branch, mask in _UNIT_MASKS.items():
        numbered = [name for name in named or units if units[name][branch] == info & mask]
        if not numbered or all(units[name]["before"] == units[name]["since"] for name in numbered):
            continue
        told["driver_branch"] = BRANCHES[branch]
        if not named:
            told["decoded_unit"] = numbered[0]
        unless = units[numbered[0]].get("unless_bit")
        if unless and status in unless["statuses"] and info >> unless[branch] & 1:
            told["exception"] = f"bit {unless[branch]} of intrInfo is set"
    return told


@cache
def _units(code: int) -> Mapping[str, Mapping[str, Any]]:
    return nvlink5_units().get(str(code), {})


def _number(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None

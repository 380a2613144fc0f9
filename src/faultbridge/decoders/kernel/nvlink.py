"""Reads the details of NVLink errors: Xid 74, and Xid 144 to 150 of NVLink5.

Xid 74 (Hopper and older) ends with `link N(r1, r2, ..., r7)`. NVIDIA's catalog (`WORKFLOW_NVLINK_ERR`, for Hopper)
defines bits of the registers 1, 3, 4 and 5. The attribute `findings` names the meanings of the set bits, worst first.

An NVLink5 error is `UNIT[/SUB] Fatal|Nonfatal XCn iN Link L (intrInfo errorStatus w w ...)`; the numbers can be cut
off. Since driver branch R575, bits 0 to 6 of intrInfo are the number of the unit. Before R575, bits 0 to 9 are the
number, and the units have other numbers. Except 0 of Xid 150, no number occurs in both numberings of one Xid, so the
number shows which branch the driver has. Bits 20 to 25 are the cause of a link event.

Source: NVIDIA's Xid catalog, NVLink5 sheet (`data/nvlink5_units.json`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from faultbridge.data import nvlink5_units
from faultbridge.decoders.common.lazy_pattern import lazy_pattern

_NVLINK = lazy_pattern(r"link (\d{1,3}) ?\(([0-9a-fA-Fx, ]{1,200})\)")
_REGISTERS = 7


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


# Register (counted from 1), bits and their meaning; worst first.
_MEANINGS: tuple[tuple[int, int, str], ...] = (
    (1, _bits(8, 9, 12, 16, 17, 24, 28), "hardware"),
    (3, _bits(13), "unexpected"),
    (1, _bits(4, 5), "ecc_parity"),
    (3, _bits(0, 1, 2, 6), "ecc_parity"),
    (5, _bits(18, 19, 21, 22, 24, 25, 27, 28), "ecc_parity"),
    (1, _bits(21, 22), "signal_integrity"),
    (1, _bits(27, 29), "repeated_only"),
    (3, _bits(16, 17, 18, 19), "repeated_only"),
    (4, _bits(18), "secondary_reset_fabric"),
    (1, _bits(1, 20), "secondary"),
    (4, _bits(16, 17), "secondary"),
    (5, _bits(20, 23, 26, 29), "ecc_threshold"),
    (1, _bits(0, 23, 30), "ignorable"),
)


def nvlink_attributes(text: str) -> dict[str, str]:
    """Return the link, registers and findings of an NVLink error, such as Xid 74, as attributes.

    The result is empty if the line has no registers, as with older drivers.
    """
    found = _NVLINK.search(text)
    if found is None:
        return {}
    attributes = {"link": str(int(found[1])), "registers": found[2]}
    findings = list(dict.fromkeys(_findings(found[2])))
    return attributes | {"findings": ", ".join(findings)} if findings else attributes


def _findings(text: str) -> Iterator[str]:
    words = [_register(word) for word in text.split(",")]
    if len(words) != _REGISTERS or None in words:
        return
    remaining = [word or 0 for word in words]
    for register, mask, meaning in _MEANINGS:
        if remaining[register - 1] & mask:
            remaining[register - 1] &= ~mask
            yield meaning
    if any(remaining):
        yield "undescribed"


def _register(text: str) -> int | None:
    try:
        return int(text.strip(), 16)
    except ValueError:
        return None


_ERROR = lazy_pattern(
    r"(\S{1,64}) +(Fatal|Nonfatal) +XC(\d{1,3}) +i(\d{1,3}) +Link +(-?\d{1,4})(?: +\(([0-9a-fA-Fx ]{0,200}))?"
)
_CAUSE_SHIFT, _CAUSE_MASK = 20, 0x3F
_UNIT_MASKS = {"before": 0x3FF, "since": 0x7F}
BRANCHES = {"before": "before r575", "since": "r575"}
_WORDS = ("intrinfo", "errorstatus")


def nvlink5_attributes(code: int, text: str) -> dict[str, str]:
    """Return the attributes of an Xid 144 to 150, or an empty mapping if the text has another form.

    The message names its unit, and encodes it as a number too. `driver_branch` is the driver branch that the number
    implies. `decoded_unit` is the unit that the number stands for, given only if the catalog does not contain the name.
    `exception` is the reason why the rules of the catalog for the unit do not apply.
    """
    found = _ERROR.match(text)
    if found is None:
        return {}
    unit, severity, xc, injected, link, registers = found.groups()
    words = (registers or "").split()
    attributes = {"unit": unit, "severity": severity, "xc": xc, "injected": injected, "link": str(int(link))}
    attributes |= dict(zip(_WORDS, words, strict=False))
    if len(words) > len(_WORDS):
        attributes["words"] = " ".join(words[2:])
    if len(words) >= len(_WORDS):
        attributes |= _decoded(code, unit, _number(words[0]), _number(words[1]))
    return attributes


def _decoded(code: int, printed_unit: str, intr_info: int | None, status: int | None) -> dict[str, str]:
    attributes: dict[str, str] = {}
    if intr_info is None:
        return attributes
    if cause := intr_info >> _CAUSE_SHIFT & _CAUSE_MASK:
        attributes["cause"] = f"{cause:#04x}"
    units = _units(code)
    printed_matches = [name for name in units if printed_unit in {name, *re.split(r"[/ ]", name)}]
    for branch, mask in _UNIT_MASKS.items():
        matching = [name for name in printed_matches or units if units[name][branch] == intr_info & mask]
        if not matching or all(units[name]["before"] == units[name]["since"] for name in matching):
            continue
        attributes["driver_branch"] = BRANCHES[branch]
        if not printed_matches:
            attributes["decoded_unit"] = matching[0]
        exception = units[matching[0]].get("unless_bit")
        if exception and status in exception["statuses"] and intr_info >> exception[branch] & 1:
            attributes["exception"] = f"bit {exception[branch]} of intrInfo is set"
    return attributes


@cache
def _units(code: int) -> Mapping[str, Mapping[str, Any]]:
    return nvlink5_units().get(str(code), {})


def _number(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None

"""What an NVLink error of Hopper and before (Xid 74) carries beside its number: its registers.

Xid 74 ends in `link N(r1, r2, ..., r7)`. NVIDIA's catalogue (`WORKFLOW_NVLINK_ERR`, for Hopper) gives bits of the
first, third, fourth and fifth register a meaning; `findings` names what the set bits stand for, gravest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NVLINK = re.compile(r"link (\d{1,3}) ?\(([0-9a-fA-Fx, ]{1,200})\)")
_REGISTERS = 7


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


# Register (counted from 1), bits, what they stand for; gravest first.
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
    """Read the link and the registers of an Xid 74; nothing where the line has none (older drivers)."""
    found = _NVLINK.search(text)
    if found is None:
        return {}
    told = {"link": str(int(found[1])), "registers": found[2]}
    findings = list(dict.fromkeys(_findings(found[2])))
    return told | {"findings": ", ".join(findings)} if findings else told


def _findings(written: str) -> Iterator[str]:
    words = [_word(word) for word in written.split(",")]
    if len(words) != _REGISTERS or None in words:
        return
    left = [word or 0 for word in words]
    for register, mask, meaning in _MEANINGS:
        if left[register - 1] & mask:
            left[register - 1] &= ~mask
            yield meaning
    if any(left):
        yield "undescribed"


def _word(text: str) -> int | None:
    try:
        return int(text.strip(), 16)
    except ValueError:
        return None

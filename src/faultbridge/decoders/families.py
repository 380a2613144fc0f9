"""Families of codes that a source names by number: every Xid, every DCGM error, as a health snapshot lists what it covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultbridge.decoders.dcgm_codes import CODES, code_of_number

XIDS: tuple[str, ...] = tuple(f"xid.{number}" for number in range(1, 177))
_EVERY = {"xid.*": XIDS, "dcgm.*": CODES}


def code_in_family(family: str, number: int) -> str:
    """Name the code of a number: 79 of `xid` is `xid.79`, 45 of `dcgm` is `dcgm.pcie_generation`."""
    return code_of_number(number) if family == "dcgm" else f"{family}.{number}"


def expanded(codes: Iterable[str]) -> Iterator[str]:
    """Yield codes, and the members of a family in place of its name (`xid.*`, `dcgm.*`)."""
    for code in codes:
        yield from _EVERY.get(code, (code,))

"""Translates the numbers and texts of DCGM errors (`DCGM_FR_*` of DCGM 4.6), and Xids, to fault codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from faultbridge.decode.data import table
from faultbridge.decode.frames.values import lazy_pattern

_TABLE = table("dcgm")
CODES: tuple[str, ...] = tuple(f"dcgm.{name}" for name in _TABLE["errors"])
SETTINGS: frozenset[str] = frozenset(f"dcgm.{name}" for name in _TABLE["settings"])


def code_of_number(number: int) -> str:
    """Return the fault code of a DCGM error number."""
    return CODES[number] if 0 <= number < len(CODES) else f"dcgm.error_{number}"


XIDS: tuple[str, ...] = tuple(f"xid.{number}" for number in range(1, 177))
_FAMILIES = {"xid.*": XIDS, "dcgm.*": CODES}


def code_in_family(family: str, number: int) -> str:
    """Return the fault code of a number in a family of codes: number 79 of family `xid` is `xid.79`."""
    return code_of_number(number) if family == "dcgm" else f"{family}.{number}"


def expand_families(codes: Iterable[str]) -> Iterator[str]:
    """Yield fault codes, with each family name (`xid.*`, `dcgm.*`) replaced by all codes of that family."""
    for code in codes:
        yield from _FAMILIES.get(code, (code,))


_SPACE = re.compile(r"\s{1,64}")
_NUMBER = re.compile(r"\d{1,32}")
_XID = re.compile(r"\bDetected (?:fatal NvSwitch )?(S?XID) (\d{1,5})\b")


def code_of_text(text: str) -> str | None:
    """Return the fault code of a message of a health watch, or None if its text contains no known phrase."""
    words = _SPACE.sub(" ", text)
    return next((row["code"] for row in table("dcgm_texts")["texts"] if row["contains"] in words), None)


def code_of_diagnostic(text: str) -> str | None:
    """Return the fault code of a message of a diagnostic: an Xid that it names, or the error that it words."""
    words = _SPACE.sub(" ", text[:1024])
    return xid_named_in(words) or code_of_text(words) or _code_of_words(_NUMBER.sub("0", words))


@cache
def _of_diagnostics() -> tuple[re.Pattern[str], list[tuple[re.Pattern[str], str]]]:
    rows = [(row["pattern"], row["code"]) for row in table("dcgm_texts")["of_diagnostics"]]
    return re.compile("|".join(pattern for pattern, _ in rows)), [(lazy_pattern(one), code) for one, code in rows]


@lru_cache(maxsize=256)
def _code_of_words(words: str) -> str | None:
    any_of_them, rows = _of_diagnostics()
    return next((code for pattern, code in rows if pattern.search(words)), None) if any_of_them.search(words) else None


def xid_named_in(text: str) -> str | None:
    """Return the fault code of the Xid or SXid that a message of DCGM reports, or None."""
    found = _XID.search(text)
    return f"{found[1].lower()}.{int(found[2])}" if found else None


def codes_of_texts() -> frozenset[str]:
    """Return every fault code that `code_of_text` can return."""
    return frozenset(row["code"] for row in table("dcgm_texts")["texts"])

"""Reads the output of nccl-tests: the bus bandwidth, the number of wrong values, and the GPUs that took part.

Grammar: lines of comment with one per rank, one row per message size, and `Out of bounds values`. A row ends with time,
algorithm bandwidth, bus bandwidth and wrong values, out of place and in place. Units: GB/s. Errors: `Rejected` without
a complete result. Source: nccl-tests 2.0 to 2.17.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultbridge.errors import Rejected

_RANK = re.compile(r"^#\s{1,8}Rank\s{1,8}\d{1,6} ", re.MULTILINE)
_ROW = re.compile(r"^\s{0,32}\d{1,15}\s{1,32}\d{1,15}\s{1,32}[a-z]\w{1,15}\s.{20,200}$", re.MULTILINE)
_BOUNDS = re.compile(r"^# Out of bounds values : (\d{1,18}) (OK|FAILED)$", re.MULTILINE)
_AVERAGE = re.compile(r"^# Avg bus bandwidth {1,8}: \d", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_WRONG = re.compile(r"\d{1,18}|\d(?:\.\d{1,6})?e[+-]\d{2}")
_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class AllReduce:
    """A complete result: GPUs, the best bus bandwidth in GB/s, and wrong values."""

    gpus: int
    gigabytes_per_second: float
    wrong: int


def read_all_reduce(text: str) -> AllReduce:
    """Return the result; the bandwidth of a message size is the lower one of out of place and in place."""
    bounds, ranks = _BOUNDS.findall(text), len(_RANK.findall(text))
    if len(bounds) != 1 or not _AVERAGE.search(text) or not ranks:
        raise Rejected("incomplete", "nccl-tests printed no complete result")
    rows = [_row(found[0]) for found in _ROW.finditer(text)]
    if not rows:
        raise Rejected("incomplete", "nccl-tests printed no message size")
    count, outcome = bounds[0]
    wrong = int(count) + sum(errors for _, errors in rows)
    return AllReduce(ranks, max(speed for speed, _ in rows), wrong or int(outcome != "OK"))


def _row(line: str) -> tuple[float, int]:
    """Return the bus bandwidth and the wrong values of a row; a value that was not checked is `Rejected`."""
    cells = line.split()[-_COLUMNS:]
    speeds, wrong = [cells[2], cells[6]], [cells[3], cells[7]]
    if not all(map(_NUMBER.fullmatch, speeds)) or not all(map(_WRONG.fullmatch, wrong)):
        raise Rejected("bad_value", f"nccl-tests printed a value that cannot be used: {line.strip()[:120]}")
    return min(map(float, speeds)), sum(float(one) > 0 for one in wrong)

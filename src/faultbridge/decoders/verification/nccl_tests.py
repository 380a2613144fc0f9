"""Reads the output of all-reduce tests: bus bandwidth, number of wrong values, number of GPUs.

Grammar of nccl-tests: comment lines with one line per rank, one row per message size, and `Out of bounds values`. A row
ends with time, algorithm bandwidth, bus bandwidth and wrong values, first out of place and then in place. Grammar of
the test over two instances: one JSON object per message size; `steps` is the number of message sizes, and `step` counts
from 1 to this number. Units: GB/s. Errors: `Rejected` without a complete result. Source: nccl-tests 2.0 to 2.17,
`nccl_peer_pair.sh`.
"""

from __future__ import annotations

import re

from faultbridge.dataclass import dataclass
from faultbridge.errors import Rejected

_RANK = re.compile(r"^#\s{1,8}Rank\s{1,8}\d{1,6} ", re.MULTILINE)
_ROW = re.compile(r"^\s{0,32}\d{1,15}\s{1,32}\d{1,15}\s{1,32}[a-z]\w{1,15}\s.{20,200}$", re.MULTILINE)
_BOUNDS = re.compile(r"^# Out of bounds values : (\d{1,18}) (OK|FAILED)$", re.MULTILINE)
_AVERAGE = re.compile(r"^# Avg bus bandwidth {1,8}: \d", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_WRONG = re.compile(r"\d{1,18}|\d(?:\.\d{1,6})?e[+-]\d{2}")
_COLUMNS = 8
_STEP = re.compile(r'^ {0,8}\{ {0,8}"step"', re.MULTILINE)
_PAIR = re.compile(
    r'^\{"step": (\d{1,2}), "steps": (\d{1,2}), "bytes": \d{1,15}, "ranks": (\d{1,5}), '
    r'"gigabytes_per_second": (\d{1,6}\.\d{1,2}), "wrong": (\d{1,15}), "efa": (\d{1,5}), '
    r'"network": "([\w /.-]{0,64})"\}$',
    re.ASCII | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class AllReduce:
    """A complete result of an all-reduce test: the number of GPUs, and the best bus bandwidth in GB/s.

    `wrong` is 0 if all computed values were right, else a positive number.
    """

    gpus: int
    gigabytes_per_second: float
    wrong: int


@dataclass(frozen=True, slots=True)
class PairAllReduce(AllReduce):
    """A complete result of the all-reduce test over two instances.

    `over_efa` is the number of GPUs that used EFA: the lowest number of all message sizes. `network` is the name of the
    network that NCCL used, as one GPU logged it.
    """

    over_efa: int
    network: str


def read_all_reduce(text: str) -> AllReduce:
    """Return the result of nccl-tests, with the best bus bandwidth of all message sizes.

    For each message size, the lower of its out-of-place and in-place bandwidths counts. Raises `Rejected` for an
    incomplete result.
    """
    bounds, ranks = _BOUNDS.findall(text), len(_RANK.findall(text))
    if len(bounds) != 1 or not _AVERAGE.search(text) or not ranks:
        raise Rejected("incomplete", "nccl-tests printed no complete result")
    rows = [_row(found[0]) for found in _ROW.finditer(text)]
    if not rows:
        raise Rejected("incomplete", "nccl-tests printed no message size")
    count, outcome = bounds[0]
    wrong = int(count) + sum(errors for _, errors in rows)
    return AllReduce(ranks, max(speed for speed, _ in rows), wrong or int(outcome != "OK"))


def read_pair_all_reduce(text: str) -> PairAllReduce:
    """Return the result of the test over two instances.

    Raises `Rejected` unless the output has one row for each message size.
    """
    rows = _PAIR.findall(text)
    steps = [str(number + 1) for number in range(len(rows))]
    complete = rows and [row[0] for row in rows] == steps and {row[1] for row in rows} == {steps[-1]}
    if not complete or len(_STEP.findall(text)) != len(rows) or len({row[2] for row in rows}) != 1:
        raise Rejected("incomplete", "the all-reduce printed no complete result")
    speed, wrong = max(float(row[3]) for row in rows), sum(int(row[4]) for row in rows)
    return PairAllReduce(int(rows[0][2]), speed, wrong, min(int(row[5]) for row in rows), rows[-1][6])


def _row(line: str) -> tuple[float, int]:
    """Return the lower of the two bus bandwidths of a row, and how many of its two value checks failed.

    Raises `Rejected` for other text.
    """
    cells = line.split()[-_COLUMNS:]
    speeds, wrong = [cells[2], cells[6]], [cells[3], cells[7]]
    if not all(map(_NUMBER.fullmatch, speeds)) or not all(map(_WRONG.fullmatch, wrong)):
        raise Rejected("bad_value", f"nccl-tests printed a value that cannot be used: {line.strip()[:120]}")
    return min(map(float, speeds)), sum(float(one) > 0 for one in wrong)

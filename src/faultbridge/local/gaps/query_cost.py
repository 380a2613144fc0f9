"""What a query and a write cost.

AWS: a query reads the rows of its key range, whatever else the partition holds; rows are counted every six hours.
MiniStack: parses the key condition anew for each row of the partition, every other expression at each use, and counts
all rows of the table after each write.
Here: an expression is parsed once, the key ranges that our adapter writes are compared without an evaluator, and the
rows are counted once a second at most. A query of an index still looks at every row of the table.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from faultbridge.local.gaps import names as patch

TOKENIZE = "ministack.services.dynamodb:_tokenize"
EVALUATE = "ministack.services.dynamodb:_evaluate_condition"
COUNT = "ministack.services.dynamodb:_update_counts"

_KEY_CONDITION = "KeyConditionExpression"
_RANGE = re.compile(r"(#\w+) = (:\w+)(?: AND (#\w+) (?:BETWEEN (:\w+) AND (:\w+)|<= (:\w+)))?")
_COUNTED_SECONDS = 1.0

Typed = Mapping[str, Any]
Evaluate = Callable[..., bool]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (TOKENIZE, EVALUATE, COUNT)


def is_open() -> bool:
    """Whether the emulator still parses at each use, and counts at each write."""
    parses = "_tokenize(expr)" in inspect.getsource(patch.resolve(EVALUATE))
    remembers = hasattr(patch.resolve(TOKENIZE), "cache_info")
    return parses and not remembers and "sum(" in inspect.getsource(patch.resolve(COUNT))


def apply() -> None:
    """Parse once, compare plainly, count seldom."""
    patch.replace(TOKENIZE, lru_cache(maxsize=1024))
    patch.replace(EVALUATE, _plainly)
    patch.replace(COUNT, _seldom)


def _plainly(evaluate: Evaluate) -> Evaluate:
    def evaluate_condition(
        expr: str, item: Typed, attr_values: Typed, attr_names: Mapping[str, str], slot: str = "ConditionExpression"
    ) -> bool:
        parts = _parsed(expr) if slot == _KEY_CONDITION else None
        if parts is None:
            return evaluate(expr, item, attr_values, attr_names, slot)
        if item.get(attr_names[parts.pk]) != attr_values[parts.wanted]:
            return False
        if not parts.sk:
            return True
        found = item.get(attr_names[parts.sk], {}).get("S")
        lowest = attr_values[parts.first]["S"] if parts.first else ""
        return found is not None and lowest <= found <= attr_values[parts.last]["S"]

    return evaluate_condition


@dataclass(frozen=True, slots=True)
class _Range:
    """The placeholders of a key condition; those of the sort key may be empty."""

    pk: str
    wanted: str
    sk: str
    first: str
    last: str


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> _Range | None:
    found = _RANGE.fullmatch(expression)
    if found is None:
        return None
    pk, wanted, sk, first, last, most = found.groups(default="")
    return _Range(pk, wanted, sk, first, last or most)


def _seldom(count: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    counted: dict[int, float] = {}

    def update_counts(table: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - counted.get(id(table), -_COUNTED_SECONDS) >= _COUNTED_SECONDS:
            counted[id(table)] = now
            count(table)

    return update_counts

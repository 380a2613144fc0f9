"""Patch that makes MiniStack's DynamoDB queries and writes fast enough.

`query_cost`
AWS: a query reads only the items of its key range. The number of items in a table is updated about every six hours.
MiniStack: a query parses the key condition for each item of the partition, and every other expression at each use.
After each write, all items of the table are counted.
Here: each expression is parsed once. The key ranges that Faultbridge's adapter writes are compared directly. Items are
counted at most once a second. A query of an index still reads every item of the table.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve

TOKENIZE = "ministack.services.dynamodb:_tokenize"
EVALUATE = "ministack.services.dynamodb:_evaluate_condition"
COUNT = "ministack.services.dynamodb:_update_counts"

_KEY_CONDITION = "KeyConditionExpression"
_RANGE = re.compile(r"(#\w+) = (:\w+)(?: AND (#\w+) (?:BETWEEN (:\w+) AND (:\w+)|<= (:\w+)))?")
_COUNT_SECONDS = 1.0

Typed = Mapping[str, Any]
Evaluate = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class _KeyRange:
    """A key condition by its placeholders; without a sort key, or a lower bound, these are empty."""

    pk: str
    pk_value: str
    sk: str
    first: str
    last: str


def _parses_and_counts_each_time() -> bool:
    parses = "_tokenize(expr)" in inspect.getsource(resolve(EVALUATE))
    caches = hasattr(resolve(TOKENIZE), "cache_info")
    return parses and not caches and "sum(" in inspect.getsource(resolve(COUNT))


def _reduce_cost() -> None:
    replace(TOKENIZE, lru_cache(maxsize=1024))
    replace(EVALUATE, _with_direct_comparison)
    replace(COUNT, _at_most_once_a_second)


def _with_direct_comparison(evaluate: Evaluate) -> Evaluate:
    def evaluate_condition(
        expr: str, item: Typed, attr_values: Typed, attr_names: Mapping[str, str], slot: str = "ConditionExpression"
    ) -> bool:
        parts = _parse_range(expr) if slot == _KEY_CONDITION else None
        if parts is None:
            return evaluate(expr, item, attr_values, attr_names, slot)
        if item.get(attr_names[parts.pk]) != attr_values[parts.pk_value]:
            return False
        if not parts.sk:
            return True
        found = item.get(attr_names[parts.sk], {}).get("S")
        lowest = attr_values[parts.first]["S"] if parts.first else ""
        return found is not None and lowest <= found <= attr_values[parts.last]["S"]

    return evaluate_condition


@lru_cache(maxsize=1024)
def _parse_range(expression: str) -> _KeyRange | None:
    found = _RANGE.fullmatch(expression)
    if found is None:
        return None
    pk, pk_value, sk, first, last, upper_bound = found.groups(default="")
    return _KeyRange(pk, pk_value, sk, first, last or upper_bound)


def _at_most_once_a_second(count: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    counted: dict[int, float] = {}

    def update_counts(table: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - counted.get(id(table), -_COUNT_SECONDS) >= _COUNT_SECONDS:
            counted[id(table)] = now
            count(table)

    return update_counts


GAPS = (Gap("query_cost", (TOKENIZE, EVALUATE, COUNT), _parses_and_counts_each_time, _reduce_cost),)

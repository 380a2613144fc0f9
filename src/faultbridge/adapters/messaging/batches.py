"""Split a sequence into batches that stay within the limits of one API call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(parts: Iterable[T], *, size_of: Callable[[T], int], count: int, size: int) -> Iterator[list[T]]:
    """Yield batches of at most `count` parts, with a total size of at most `size`.

    `size_of` returns the size of one part, in the unit of `size`. A part that is larger than `size` becomes a batch of
    its own.
    """
    batch: list[T] = []
    room = size
    for part in parts:
        weight = size_of(part)
        if batch and (len(batch) == count or weight > room):
            yield batch
            batch, room = [], size
        batch.append(part)
        room -= weight
    if batch:
        yield batch

"""PyTorch (fake): tensors that keep their first eight values. Its folder is copied as the package `torch`.

It reads its faults from the environment: TORCH_FAULT, and the file with NCCL's log from NCCL_LOG.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

int32, float32, float64 = "int32", "float32", "float64"
KEPT = 8


class Tensor:
    """The first values of a tensor."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def _each(self, other: Tensor | float, operation: Callable[[float, float], float]) -> Tensor:
        others = other.values if isinstance(other, Tensor) else [other] * len(self.values)
        return Tensor([operation(one, another) for one, another in zip(self.values, others, strict=True)])

    def __add__(self, other: float) -> Tensor:
        return self._each(other, lambda one, another: one + another)

    def __mul__(self, other: float) -> Tensor:
        return self._each(other, lambda one, another: one * another)

    def __mod__(self, other: float) -> Tensor:
        return self._each(other, lambda one, another: one % another)

    def __ne__(self, other: Tensor) -> Tensor:  # type: ignore[override] # as PyTorch's
        return self._each(other, lambda one, another: float(one != another))

    __hash__ = None  # type: ignore[assignment] # as a tensor that is compared by value

    def float(self) -> Tensor:
        return Tensor(list(self.values))

    def sum(self) -> int:
        return int(sum(self.values))

    def tolist(self) -> list[Any]:
        return list(self.values)


def arange(count: int, **_: object) -> Tensor:
    return Tensor([float(number) for number in range(min(count, KEPT))])


def tensor(values: list[Any], **_: object) -> Tensor:
    return Tensor([float(value) for value in values])


def empty_like(other: Tensor) -> Tensor:
    return Tensor([0.0] * len(other.values))


def device(kind: str, number: int = 0) -> str:
    return f"{kind}:{number}"


class cuda:  # noqa: N801 - PyTorch's
    """The GPUs of this instance."""

    @staticmethod
    def is_available() -> bool:
        return os.environ.get("TORCH_FAULT") != "no cuda"

    @staticmethod
    def set_device(_: str) -> None:
        return None

    @staticmethod
    def synchronize() -> None:
        return None

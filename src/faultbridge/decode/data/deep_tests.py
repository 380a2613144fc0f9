"""The tests of a deep verification: scripts, time limits, and expected values of each instance type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

FOLDER = Path(__file__).parent / "verification"


class DeepTest(Struct, frozen=True):
    """One test of a deep verification: its name, lowest level, time limit in seconds, and shell script.

    The test runs at its level and at all higher levels. If its tools are not installed on an instance, the test is not
    verified, and the verification does not pass. A test between two instances is an exception: below the level
    `optional_below`, the verification can pass without it.
    """

    name: str
    level: int
    seconds: int
    script: str
    optional_below: int = 0


class Expected(Struct, frozen=True):
    """What a healthy instance of a type reaches: number of EFA devices, minimum NCCL bus bandwidth.

    The bandwidth is that of an all-reduce, in GB/s. `nccl_gigabytes_per_second` is measured over the GPUs of one
    instance, `nccl_pair_gigabytes_per_second` over the GPUs of two instances.
    """

    nccl_gigabytes_per_second: float
    nccl_pair_gigabytes_per_second: float
    efa_devices: int


@cache
def deep_tests() -> tuple[DeepTest, ...]:
    """Return the tests of a single instance, in the order in which they run."""
    return _tests("tests")


@cache
def peer_tests() -> tuple[DeepTest, ...]:
    """Return the tests between two instances; both instances run the same script."""
    return _tests("peer_tests")


@cache
def expected_by_instance_type() -> Mapping[str, Expected]:
    """Return the expected values of an instance, by EC2 instance type (without HyperPod's prefix `ml.`)."""
    return {name: Expected(**row) for name, row in _document()["instance_types"].items()}


def _tests(name: str) -> tuple[DeepTest, ...]:
    rows: list[dict[str, Any]] = _document()[name]
    return tuple(DeepTest(**{**row, "script": (FOLDER / row["script"]).read_text()}) for row in rows)


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "deep_tests.json").read_bytes())
    return document

"""Limits on the path of one Xid line: the modules that a maintainer reads, and the function calls that it costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.architecture.project import PACKAGE
from tests.bench.core import core, xids
from tests.world import XID_31, XID_79, World

MAX_PASSED = 59
"""The design allows fewer than 60. Lower it when modules on the path are merged or left out."""
MAX_CALLS = 100
"""Calls of Python functions for one record. There were 136 before they were counted, because each feature adds some."""
NOT_READ = {"simulation", "composition", "dataclass.py"}
"""The fakes of this test, the composition root, and the decorator that replaces that of the standard library."""


def passed_modules(run: Callable[[], Any]) -> set[str]:
    """Return the modules of the package with a function that runs during a call."""
    passed: set[str] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            passed.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(before)
    own = (Path(one) for one in passed)
    names = {path.relative_to(PACKAGE) for path in own if path.is_relative_to(PACKAGE)}
    return {name.as_posix() for name in names if name.parts[0] not in NOT_READ}


def test_one_xid_line_passes_few_modules() -> None:
    world = World()
    world.outcomes(world.message(XID_31))
    line = world.message(XID_79)
    passed = passed_modules(lambda: world.outcomes(line))
    assert {"ingest/ingest.py", "decoders/kernel/xid.py", "pipeline/fold/fold.py", "ledger/append.py"} <= passed
    assert len(passed) <= MAX_PASSED, sorted(passed)


def test_a_record_of_one_xid_takes_few_function_calls() -> None:
    records = xids(300)
    core("kernel-log", records)  # patterns and rows of the catalog are built at first use
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        core("kernel-log", records)
    finally:
        sys.setprofile(before)
    assert calls / len(records) <= MAX_CALLS

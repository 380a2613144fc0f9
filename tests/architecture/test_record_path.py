"""A limit on the number of modules that a maintainer reads to follow one Xid line through ingest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.architecture.project import PACKAGE
from tests.world import XID_31, XID_79, World

MAX_PASSED = 59
"""The design allows fewer than 60. Lower it when modules on the path are merged or left out."""
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

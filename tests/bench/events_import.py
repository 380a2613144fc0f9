"""The import time of `faultbridge.model.events` for a consumer: a new process with only pydantic installed.

Three figures of nine new processes each, with bytecode: pydantic with one small model (not our part), the
kit (`from faultbridge.model.events import read`), and the kit with its first event read. The best of nine is the cost
of the code, the median its cost on a busy machine. The limit applies to the best.
"""

from __future__ import annotations

import compileall
import statistics
import sys
import tempfile
from pathlib import Path

import faultbridge
from tests.events.minimal_install import link_packages, python

RUNS = 9
LIMIT_MS = 120.0
SAMPLE = Path(__file__).resolve().parents[2] / "schemas" / "case-status-change" / "samples" / "1.0" / "ordinary.json"

PYDANTIC = """
from pydantic import BaseModel
class Small(BaseModel):
    number: int
"""
KIT = "from faultbridge.model.events import read\n"
FIRST = KIT + "read(open(sys.argv[1]).read())\n"
KIT_NAME = "faultbridge.model.events"
CODES = {"pydantic with one small model": PYDANTIC, KIT_NAME: KIT, "and its first event read": FIRST}
TIMED = """
import time
started = time.perf_counter()
{code}
print((time.perf_counter() - started) * 1000)
"""


def times(folder: Path, code: str) -> list[float]:
    """Return the times of some code in new processes, in milliseconds, fastest first."""
    timed = TIMED.format(code=code)
    return sorted(float(python(folder, timed, str(SAMPLE))) for _ in range(RUNS))


def main() -> int:
    """Print the figures; returns 1 if the kit exceeds its limit."""
    compileall.compile_dir(str(Path(faultbridge.__file__).parent / "model" / "events"), quiet=1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = link_packages(Path(scratch))
        found = {name: times(folder, code) for name, code in CODES.items()}
    for name, each in found.items():
        sys.stdout.write(f"{name:<32} best {each[0]:4.0f} ms, median {statistics.median(each):4.0f} ms\n")
    best = found[KIT_NAME][0]
    sys.stdout.write(f"limit {LIMIT_MS:.0f} ms: {'met' if best <= LIMIT_MS else 'missed'}\n")
    return 0 if best <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())

"""A long log is read in little memory and time; only its last error counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTES, SECONDS, MEMORY = 200, 15.0, 64
MEASURED = """\
import pathlib, sys, time
from faultbridge.cli import main
sys.argv = ["faultbridge", "explain", "--json", sys.argv[1]]
try:
    main()
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    peak = status.partition("VmHWM:")[2].split()[0]  # the peak since the start of this program, in KiB
    print(time.process_time(), int(peak) / 1024, file=sys.stderr)
"""
ORDINARY = (
    "2026-02-03 {0:02d}:{1:02d}:00,123 [rank{2}] INFO train.py:214 step {3} loss=2.31 grad_norm={4} tokens/s=11400\n"
)
ERRORS = "2026-02-03 {0:02d}:{1:02d}:00,123 [rank{2}] ERROR reward.py:{4} HTTP 503: timeout, error {3}, failed\n"
END = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 12, in <module>
[rank3]: KeyError: 'x'
"""


@pytest.mark.nightly
@pytest.mark.parametrize("line", [ORDINARY, ERRORS], ids=["ordinary lines", "an error in each line"])
def test_a_log_of_200_mb_takes_15_s_of_a_processor_and_64_mb(tmp_path: Path, line: str) -> None:
    log = tmp_path / "job.err"
    with log.open("w") as file:
        for step in range(MEGABYTES * 1_000_000 // len(line)):
            file.write(line.format(step // 90_000 % 24, step // 1500 % 60, step % 8, step, step % 977))
        file.write(END)
    ran = subprocess.run([sys.executable, "-c", MEASURED, str(log)], check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, ran.stderr.split()[-2:])
    log.unlink()
    assert (seconds <= SECONDS, megabytes <= MEMORY) == (True, True), f"{seconds:.1f} s, {megabytes:.0f} MB"
    assert json.loads(ran.stdout)["symptom"]["text"] == "[rank3]: KeyError: 'x'"

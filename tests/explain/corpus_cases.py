"""The corpus of jobs that died, as data: expands its cases into files, and compares verdicts with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from faultbridge.explain.verdict.verdict import Verdict
from tests.explain.verdicts import decided, text_file

FOLDER = Path(__file__).parent / "corpus"
START = datetime(2026, 2, 3, tzinfo=UTC)
RECEIVED = datetime(2026, 2, 5, tzinfo=UTC)
JOB, JOB_FILE = "job", "job.err"


@dataclass(frozen=True)
class Case:
    """One job: its label and its files."""

    name: str
    label: Mapping[str, Any]
    files: Mapping[str, str]

    @property
    def nodes(self) -> list[str]:
        return list(self.label.get("nodes", []))


def cases(file: str) -> list[Case]:
    """Return the cases of one file of the corpus."""
    rows = yaml.load((FOLDER / file).read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [Case(row["name"], row["label"], dict(files_of(row))) for row in rows]


def verdict_on(case: Case) -> Verdict:
    """Return the verdict on a case, as the command reaches it."""
    return decided((text_file(name, body) for name, body in case.files.items()), received_at=RECEIVED)


def files_of(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each file of a case."""
    for name, text in row.items():
        if name == JOB:
            yield JOB_FILE, "".join(_job_line(line) for line in _expanded(text))
        elif name.startswith("n-"):
            yield f"{name}/kern.log", _kernel_log(name, text)
        elif name == "quiet":
            for node in text:
                yield f"{node}/kern.log", _kernel_log(node, "")


def _expanded(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["progress"]:
            for at in range(int(words[1]), int(words[2]) + 1, 20):
                yield f"+{at} step {at // 20} loss=2.{at % 997:03d} grad_norm=0.{at % 89:02d} lr=3e-4"
        elif line.strip():
            yield line.strip()


def _job_line(line: str) -> str:
    at, text = _timed(line)
    return f"[{at:%Y-%m-%d %H:%M:%S},000] {text}\n" if at else f"{text}\n"


def _kernel_log(node: str, text: str) -> str:
    """Return a kernel log with harmless lines each 300 seconds for 12 hours, and the lines of the case among them."""
    lines = {float(at): "audit: type=1400 apparmor=ALLOWED operation=open" for at in range(0, 43_200, 300)}
    for number, line in enumerate(text.splitlines()):
        at, message = _timed(line)
        assert at is not None, line
        lines[(at - START).total_seconds() + 0.001 * (number + 1)] = message
    return "".join(
        f"{START + timedelta(seconds=at):%b %e %H:%M:%S} {node} kernel: {lines[at]}\n" for at in sorted(lines)
    )


def _timed(line: str) -> tuple[datetime | None, str]:
    if not line.startswith("+"):
        return None, line
    at, _, text = line.partition(" ")
    return START + timedelta(seconds=int(at[1:])), text

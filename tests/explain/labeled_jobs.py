"""Jobs in files that an author labeled without knowledge of the rules, and what explain decides about them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from faultbridge.explain.signals.read_files import InputFile
from faultbridge.explain.verdict.verdict import Verdict
from tests.explain.verdicts import decided, text_file

RECEIVED = datetime(2026, 12, 1, tzinfo=UTC)
NODE_FILE = re.compile(r"(?P<node>.+?)\.(?:kern\.log|console\.log|syslog|dmesg)")

Judged = tuple[Mapping[str, str], Verdict]


@cache
def judged(folder: Path) -> tuple[Judged, ...]:
    """Return the row of each job in `truth.csv` with its verdict."""
    with (folder / "truth.csv").open(encoding="utf-8", newline="") as rows:
        return tuple((row, decided(files_of(folder / row["case"]), {}, RECEIVED)) for row in csv.DictReader(rows))


def files_of(folder: Path) -> Iterator[InputFile]:
    """Yield the files of a job as `faultbridge explain FILE... NODE=FILE...` takes them."""
    for file in sorted(folder.iterdir()):
        found = NODE_FILE.fullmatch(file.name)
        yield text_file(file.name, file.read_bytes(), found["node"] if found else None)


def is_domain_accepted(one: Judged) -> bool:
    """Return whether the domain is the label, or the second one that the author accepts."""
    row, verdict = one
    return verdict.domain in {row["domain"], row["also"]}

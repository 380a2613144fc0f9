"""60 jobs of an author who saw neither the rules nor the corpus: the measured figures are the lower bound.

The first measurement, before any rule was changed for them, is in docs/explain.md. `truth.csv` has the labels. Correct
a rule for what a case teaches, never the label of a case.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from faultbridge.explain.signals.read_files import InputFile
from faultbridge.explain.verdict.mechanisms import Outlook
from faultbridge.explain.verdict.verdict import Verdict
from tests.explain.verdicts import decided, text_file

FOLDER = Path(__file__).parent / "held_out"
RECEIVED = datetime(2026, 12, 1, tzinfo=UTC)
NODE_FILE = re.compile(r"(?P<node>.+?)\.(?:kern\.log|console\.log|syslog|dmesg)")


@cache
def verdicts() -> tuple[tuple[Mapping[str, str], Verdict], ...]:
    with (FOLDER / "truth.csv").open(encoding="utf-8", newline="") as rows:
        return tuple((row, decided(files_of(row["case"]), {}, RECEIVED)) for row in csv.DictReader(rows))


def files_of(case: str) -> Iterator[InputFile]:
    """Yield the files of a case as `faultbridge explain FILE... NODE=FILE...` takes them."""
    for file in sorted((FOLDER / case).iterdir()):
        found = NODE_FILE.fullmatch(file.name)
        yield text_file(file.name, file.read_bytes(), found["node"] if found else None)


def test_stop_is_given_exactly_where_it_is_the_label() -> None:
    stops = [(row["case"], row["verdict"] == "STOP", one.outlook is Outlook.STOP) for row, one in verdicts()]
    assert len(stops) == 60
    assert [case for case, is_right, is_stopped in stops if is_stopped is not is_right] == []


def test_the_verdict_is_right_in_54_cases_and_the_domain_in_49() -> None:
    assert sum(row["verdict"] == one.outlook for row, one in verdicts()) >= 54
    assert sum(row["domain"] == one.domain for row, one in verdicts()) >= 49


def test_no_hardware_is_blamed_where_the_label_names_no_node() -> None:
    blamed = [
        row["case"]
        for row, one in verdicts()
        if not row["nodes"] and row["domain"] not in {"hardware", "network"} and one.hardware.state == "blamed"
    ]
    assert blamed == []


def test_no_node_is_left_out_that_is_not_the_labeled_one() -> None:
    assert [row["case"] for row, one in verdicts() if one.nodes and " ".join(one.nodes) != row["nodes"]] == []

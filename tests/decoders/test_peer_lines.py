"""Agreement with the public rules and test tables of gpud, NVSentinel, node-problem-detector and the EKS agent.

`peer_lines.txt` lists their lines in words of our own: those that a peer reports, those that it does not, and each
departure with its reason. The tables of codes are compared line by line as well (`test_peer_agreement`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultbridge.data import load_catalog
from faultbridge.decoders import registry
from faultbridge.domain.faults import Fault
from faultbridge.errors import Rejected
from tests.decoders import test_peer_agreement as catalogs
from tests.decoders.captures import HERE

NOTHING, PEER_ONLY, OURS_ONLY = "-", "peer-only: ", "ours-only: "


@dataclass(frozen=True)
class PeerLine:
    """A line, the peer whose table has it, and the code that Faultbridge gives to it or the reason of a departure."""

    source: str
    peer: str
    verdict: str
    text: str

    @property
    def kind(self) -> str:
        if self.source != "kernel-log":
            return "fabric manager"
        return "SXid" if "SXid" in self.text else "kernel"

    @property
    def departs(self) -> bool:
        return self.verdict.startswith((PEER_ONLY, OURS_ONLY))


LISTING = (HERE / "peer_lines.txt").read_text("utf-8").splitlines()
LINES = [PeerLine(*line.split(" | ", 3)) for line in LISTING if not line.startswith("#")]
AGREED = [line for line in LINES if not line.departs]
DEPARTURES = [line for line in LINES if line.departs]


def codes(line: PeerLine, prefix: str = "") -> list[str]:
    try:
        found = registry.decode(line.source, (prefix + line.text.replace("\\n", "\n")).encode())
    except Rejected:
        return []
    return [one.code for one in found if isinstance(one, Fault)]


@pytest.mark.parametrize("line", AGREED, ids=lambda line: line.text)
def test_a_line_is_reported_exactly_if_the_peer_reports_it(line: PeerLine) -> None:
    assert codes(line) == ([] if line.verdict == NOTHING else [line.verdict])


BARE = [
    line for line in AGREED if line.source == "kernel-log" and line.text[0] not in "[<{k" and "\\n" not in line.text
]


@pytest.mark.parametrize("prefix", ["[    5.123456] ", "Feb  3 04:05:06 h kernel: ", "3,9,5123456,-;"])
def test_a_line_is_reported_behind_the_prefixes_of_the_kernel_too(prefix: str) -> None:
    read = {line.text: codes(line, prefix) for line in BARE}
    assert read == {line.text: [] if line.verdict == NOTHING else [line.verdict] for line in BARE}


@pytest.mark.parametrize("line", DEPARTURES, ids=lambda line: line.text)
def test_a_departure_is_listed_with_its_reason_and_source(line: PeerLine) -> None:
    assert bool(codes(line)) == line.verdict.startswith(OURS_ONLY)
    reason, _, source = line.verdict.removesuffix(")").rpartition(" (")
    assert line.verdict.endswith(")")
    assert source.startswith(("Linux ", "NVIDIA "))
    assert len(reason) > len(OURS_ONLY)


def test_every_reported_line_has_a_row_in_the_catalog_or_is_an_unknown_number() -> None:
    unknown = {"xid.999", "xid.99999", "sxid.26008", "sxid.98765", "sxid.54321"}
    reported = {line.verdict for line in AGREED if line.verdict != NOTHING}
    assert reported - set(load_catalog().rows) == unknown


@pytest.mark.parametrize("kind", ["kernel", "SXid", "fabric manager"])
def test_at_least_98_percent_of_the_lines_of_each_kind_are_judged_as_by_the_peer(kind: str, shared: Path) -> None:
    """Every number in the tables of Xids and SXids counts as a line, which `test_peer_agreement` decodes."""
    tables = {"kernel": "xid_catalog.csv", "SXid": "sxid_catalog.csv"}
    lines = Counter(line.kind for line in LINES)[kind]
    lines += len(catalogs.rows(shared, tables[kind])) if kind in tables else 0
    missed = sum(line.kind == kind and line.verdict.startswith(PEER_ONLY) for line in DEPARTURES)
    assert 1 - missed / lines >= catalogs.MIN_AGREEMENT


def test_the_documentation_states_the_agreement_of_each_kind_of_line(shared: Path) -> None:
    def row(name: str, lines: list[PeerLine]) -> str:
        agreed = sum(not line.departs for line in lines)
        peer, ours = (sum(line.verdict.startswith(mark) for line in lines) for mark in (PEER_ONLY, OURS_ONLY))
        share = 100 * agreed / len(lines)
        return f"| {name} | {len(lines)} | {agreed} ({share:.1f} %) | {peer} | {ours} | {agreed + peer + ours} |"

    kinds = {kind: [line for line in LINES if line.kind == kind] for kind in ("kernel", "SXid", "fabric manager")}
    text = (HERE.parents[1] / "docs" / "catalog.md").read_text("utf-8")
    for name, lines in (kinds | {"all": LINES}).items():
        assert row(name, lines) in text
    numbers = sum(len(catalogs.rows(shared, name)) for name in ("xid_catalog.csv", "sxid_catalog.csv"))
    agreed, total = len(AGREED) + numbers, len(LINES) + numbers
    assert f"{agreed} of {total} lines\nagree ({100 * agreed / total:.1f} %)" in text
    assert len(catalogs.DEPARTURES) == 5
    assert agreed / total >= catalogs.MIN_AGREEMENT


def test_at_least_97_percent_of_the_transcribed_faults_are_reported() -> None:
    """Without the tables of numbers: five of 187 faults are missed, each for the reason beside it."""
    reported = sum(line.verdict != NOTHING for line in AGREED)
    missed = sum(line.verdict.startswith(PEER_ONLY) for line in DEPARTURES)
    assert 1 - missed / (reported + missed) >= 0.97

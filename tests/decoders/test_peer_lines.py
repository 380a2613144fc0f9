"""Agreement with the public rules and test tables of gpud, NVSentinel, node-problem-detector and the EKS agent.

`peer_lines.txt` lists their lines in words of our own: those that a peer reports, those that it does not, and each
departure with its reason. The tables of codes are compared line by line as well (`test_peer_agreement`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Fault
from tests.decoders.builders import DEPARTURES_FROM_NVIDIA, MIN_AGREEMENT, rows
from tests.decoders.captures import HERE
from tests.loops import for_each

NOTHING, PEER_ONLY, OURS_ONLY = "-", "peer-only: ", "ours-only: "
PEER_WARNS, OURS_WARNS = "peer-warns: ", "ours-warns: "


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
        return self.verdict.startswith((PEER_ONLY, OURS_ONLY, PEER_WARNS, OURS_WARNS))


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


@for_each("line", AGREED, ids=lambda line: line.text)
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
    assert bool(codes(line)) == line.verdict.startswith((OURS_ONLY, OURS_WARNS))
    reason, _, source = line.verdict.removesuffix(")").rpartition(" (")
    assert line.verdict.endswith(")")
    assert source.startswith(("Linux ", "NVIDIA "))
    assert len(reason) > len(OURS_ONLY)


@pytest.mark.parametrize("line", [line for line in DEPARTURES if line.verdict.startswith(OURS_WARNS)], ids=str)
def test_a_line_that_only_faultbridge_records_as_a_warning_asks_for_no_repair(line: PeerLine) -> None:
    rows = [load_catalog().row(code) for code in codes(line)]
    assert [(row.severity, row.action) for row in rows] == [(Severity.WARNING, Action.NONE)]


def test_every_reported_line_has_a_row_in_the_catalog_or_is_an_unknown_number() -> None:
    unknown = {"xid.999", "xid.99999", "sxid.26008", "sxid.98765", "sxid.54321"}
    reported = {line.verdict for line in AGREED if line.verdict != NOTHING}
    assert reported - set(load_catalog().rows) == unknown


KINDS = ("kernel", "SXid", "fabric manager")
TABLES = {"kernel": "xid_catalog.csv", "SXid": "sxid_catalog.csv"}


def alike(lines: list[PeerLine]) -> int:
    """Return the number of lines for which both sides see the same need of a repair."""
    return sum(not line.verdict.startswith((PEER_ONLY, OURS_ONLY)) for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_at_least_98_percent_of_the_lines_of_each_kind_are_judged_as_by_the_peer(kind: str, shared: Path) -> None:
    """Every number in the tables of Xids and SXids counts as a line, which `test_peer_agreement` decodes."""
    lines = [line for line in LINES if line.kind == kind]
    numbers = len(rows(shared, TABLES[kind])) if kind in TABLES else 0
    assert (alike(lines) + numbers) / (len(lines) + numbers) >= MIN_AGREEMENT


def test_the_documentation_states_the_agreement_of_each_kind_of_line(shared: Path) -> None:
    def row(name: str, lines: list[PeerLine]) -> str:
        agreed, same = sum(not line.departs for line in lines), alike(lines)
        marks = (PEER_WARNS, OURS_WARNS, PEER_ONLY, OURS_ONLY)
        departing = (str(sum(line.verdict.startswith(mark) for line in lines)) for mark in marks)
        shares = (f"{number} ({100 * number / len(lines):.1f} %)" for number in (agreed, same))
        return f"| {' | '.join([name, str(len(lines)), next(shares), *departing, next(shares)])} |"

    kinds = {kind: [line for line in LINES if line.kind == kind] for kind in KINDS}
    text = (HERE.parents[1] / "docs" / "catalog.md").read_text("utf-8")
    for name, lines in (kinds | {"all": LINES}).items():
        assert row(name, lines) in text
    xids, sxids = (len(rows(shared, name)) for name in TABLES.values())
    assert f"{xids} Xids and {sxids} SXids" in text
    total, same = len(LINES) + xids + sxids, alike(LINES) + xids + sxids
    assert f"{same} of {total} lines ({100 * same / total:.1f} %)" in text
    assert len(DEPARTURES_FROM_NVIDIA) == 7


def test_at_most_one_in_a_hundred_faults_of_a_peer_is_missed() -> None:
    reported = sum(line.verdict != NOTHING for line in AGREED)
    missed = [line for line in DEPARTURES if line.verdict.startswith(PEER_ONLY)]
    assert len(missed) / (reported + len(missed)) <= 0.01


BUCKETS: Mapping[str, frozenset[Action]] = {
    "RESTART_APP": frozenset({Action.RESTART_APP}),
    "IGNORE": frozenset({Action.NONE}),
    "RESET_GPU": frozenset({Action.RESET_GPU}),
    "CONTACT_SUPPORT": frozenset({Action.CONTACT_SUPPORT}),
    "RESTART_BM": frozenset({Action.REBOOT_NODE, Action.REPLACE_NODE}),
    "RESTART_VM": frozenset({Action.REBOOT_NODE}),
    "WORKFLOW_XID_48": frozenset({Action.RESET_GPU}),
    "WORKFLOW_NVLINK_ERR": frozenset({Action.RESET_GPU}),
    "CHECK_MECHANICALS": frozenset({Action.RUN_DIAGNOSTICS}),
    "UPDATE_SWFW": frozenset({Action.NONE, Action.RUN_DIAGNOSTICS}),
}


def decoded(line: str) -> Fault:
    (found,) = registry.decode("kernel-log", line.encode())
    assert isinstance(found, Fault)
    return found


def test_the_actions_of_xids_and_sxids_agree_with_nvidia_except_for_the_named_ones(shared: Path) -> None:
    departures: dict[str, str] = {}
    xids = rows(shared, "xid_catalog.csv")
    for row in xids:
        fault = decoded(f"[ 1.0] NVRM: Xid (PCI:0000:c1:00): {row['code']}, pid=1, name=x, text")
        assert fault.code == f"xid.{row['code']}"
        action, bucket = load_catalog().classify(fault).action, row["recommended_action"]
        if bucket in BUCKETS and action not in BUCKETS[bucket]:
            departures[fault.code] = bucket
    sxids = rows(shared, "sxid_catalog.csv")
    for row in sxids:
        line = f"[ 1.0] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {row['code']}, Non-fatal, Link 1 text"
        assert decoded(line).code == f"sxid.{row['code']}"
    assert departures == DEPARTURES_FROM_NVIDIA
    assert 1 - len(departures) / (len(xids) + len(sxids)) >= MIN_AGREEMENT


def test_each_departure_is_marked_and_justified_in_its_row() -> None:
    for code in DEPARTURES_FROM_NVIDIA:
        row = load_catalog().row(code)
        assert row.conflict, code
        assert row.reason, code
        assert row.recommendations, code

"""Urgency: only lines that are known mild faults wait; a serious or unknown line never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode.data import load_catalog
from faultbridge.model.fault_enums import Severity
from faultbridge.node.agent.log_follower import MAX_LINES, can_wait
from tests.loops import for_each

PREFIX = "2026-02-03T12:00:00.000Z 3,17,99950000000,-;"
XID = "NVRM: Xid (PCI:0000:c1:00): {code}, pid=1234, name=python, text"
MILD = [XID.format(code=31), XID.format(code=43), XID.format(code=92)]
NUMBERS = sorted(int(code[4:]) for code in load_catalog().rows if code[4:].isdigit() and code.startswith("xid."))


def log(*lines: str) -> bytes:
    return "".join(f"{PREFIX}{line}\n" for line in lines).encode()


@pytest.mark.parametrize("line", MILD)
def test_a_mild_fault_waits(line: str) -> None:
    assert can_wait("kernel-log", log(line))


@pytest.mark.parametrize(
    "line",
    [
        XID.format(code=79),
        XID.format(code=48),
        XID.format(code=64),
        XID.format(code=95),
        XID.format(code=119),
        XID.format(code=9999),
        "NVRM: GPU 0000:c1:00.0: something new happened",
        "docker0: port 1(veth12) entered disabled state",
        "Kernel panic - not syncing: Fatal exception",
        "NVRM: GPU at PCI:0000:c1:00: GPU-d3f6a8 has fallen off the bus.",
        "",
    ],
)
def test_a_serious_or_unknown_line_never_waits_alone_or_among_mild_ones(line: str) -> None:
    assert not can_wait("kernel-log", log(line))
    assert not can_wait("kernel-log", log(*MILD, line))
    assert not can_wait("kernel-log", log(line, *MILD))


@for_each("number", NUMBERS)
def test_no_xid_that_is_worse_than_a_warning_or_opens_a_case_waits(number: int) -> None:
    row = load_catalog().row(f"xid.{number}")
    if row.severity.rank > Severity.WARNING.rank or row.action.opens_case:
        assert not can_wait("kernel-log", log(XID.format(code=number)))


@given(st.binary(max_size=400))
def test_any_text_among_mild_faults_that_is_not_one_itself_makes_the_record_urgent(text: bytes) -> None:
    lines = text.splitlines()
    mild = all(can_wait("kernel-log", line) for line in lines) and len(lines) + len(MILD) <= MAX_LINES
    assert can_wait("kernel-log", log(*MILD) + text) == mild


def test_a_storm_is_urgent_and_not_read() -> None:
    assert can_wait("kernel-log", log(*MILD[:1] * MAX_LINES))
    assert not can_wait("kernel-log", log(*MILD[:1] * (MAX_LINES + 1)))


@pytest.mark.parametrize("source", ["fabric-manager-log", "training-log", "dcgm-health", "heartbeat", ""])
def test_every_other_source_is_urgent(source: str) -> None:
    assert not can_wait(source, log(*MILD))

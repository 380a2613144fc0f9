"""The catalog: which row a fault gets, and what a verification proves about a code."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from faultbridge.model.catalog import Catalog, Row, WorkEffect
from faultbridge.model.fault_enums import Action, Severity
from tests.builders import fault


def row(code: str, severity: Severity = Severity.ERROR, action: Action = Action.REBOOT_NODE, **others) -> Row:
    return Row(code, code, severity, action, **others)


ROWS = (
    row("xid.145", Severity.WARNING),
    row("xid.145:RLW:0x00000005:0x1"),
    row("xid.145:RLW:0x00000005"),
    row("xid.145:RLW:0x00000002"),
    row("xid.145:RLW:0x00000008", Severity.FATAL),
    row("xid.145:OTHER:0x00000004"),
    row("xid.145:Fatal", Severity.FATAL),
    row("xid.74:link", Severity.FATAL),
    row("xid.74", Severity.WARNING),
    row("xid.154"),
    row("xid.154:0x1"),
    row("smi.gpu_lost"),
)
CATALOG = Catalog(
    "test",
    {one.code: one for one in ROWS},
    {"dcgm": {1: ("xid.31",), 2: ("xid.48", "smi.*"), 4: ("xid.79",)}, "fixed": {3: ("xid.*",)}},
    frozenset({"dcgm"}),
)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"unit": "RLW", "errorstatus": "0x00000005", "cause": "0x1"}, "xid.145:RLW:0x00000005:0x1"),
        ({"unit": "RLW", "errorstatus": "0x00000005", "cause": "0x9"}, "xid.145:RLW:0x00000005"),
        ({"unit": "RLW", "errorstatus": "0x0000000a"}, "xid.145:RLW:0x00000008"),
        ({"unit": "RLW", "errorstatus": "0x00000006"}, "xid.145:RLW:0x00000002"),
        ({"unit": "NEW", "decoded_unit": "OTHER", "errorstatus": "0x00000004"}, "xid.145:OTHER:0x00000004"),
        ({"unit": "RLW", "errorstatus": "0x80000000", "severity": "Fatal"}, "xid.145:Fatal"),
        ({"unit": "RLW", "errorstatus": "unreadable", "severity": "Fatal"}, "xid.145:Fatal"),
        ({"unit": "RLW", "errorstatus": "0x00000005", "exception": "x", "severity": "Fatal"}, "xid.145:Fatal"),
        ({"unit": "RLW", "errorstatus": "0x80000000", "severity": "Nonfatal"}, "xid.145"),
        ({"errorstatus": "0x00000005", "severity": "Fatal"}, "xid.145"),
        ({}, "xid.145"),
    ],
)
def test_a_fault_of_nvlink_gets_the_most_specific_row_and_of_several_bits_the_worst(
    attributes: Mapping[str, str], found: str
) -> None:
    assert CATALOG.row_of(fault("xid.145", attributes=attributes)).code == found


@pytest.mark.parametrize(("findings", "found"), [("link,other", "xid.74:link"), ("other", "xid.74")])
def test_a_fault_with_findings_gets_the_row_of_its_first_finding(findings: str, found: str) -> None:
    assert CATALOG.row_of(fault("xid.74", attributes={"findings": findings})).code == found


def test_a_severity_or_an_action_that_the_source_states_is_kept() -> None:
    stated = CATALOG.classify(fault("xid.74", severity=Severity.FATAL, action=Action.REPLACE_NODE))
    assert (stated.severity, stated.action) == (Severity.FATAL, Action.REPLACE_NODE)
    empty = CATALOG.classify(fault("xid.74"))
    assert (empty.severity, empty.action) == (Severity.WARNING, Action.REBOOT_NODE)


def test_an_unknown_code_is_a_warning_for_support_with_a_failure_mode_of_its_own() -> None:
    unknown, other = CATALOG.row("new.code"), CATALOG.row("other.code")
    assert (unknown.severity, unknown.action) == (Severity.WARNING, Action.CONTACT_SUPPORT)
    assert (unknown.work, unknown.mode, other.mode) == (
        WorkEffect.UNAFFECTED,
        "unclassified.new.code",
        "unclassified.other.code",
    )


def test_a_source_that_calls_a_fault_of_an_unknown_code_fatal_puts_work_at_risk_and_makes_no_node_unusable() -> None:
    fatal = fault("new.code", severity=Severity.FATAL, action=Action.REPLACE_NODE)
    assert CATALOG.row_of(fatal).work is WorkEffect.AT_RISK
    stated = CATALOG.classify(fatal)
    assert (stated.severity, stated.action) == (Severity.ERROR, Action.REPLACE_NODE)
    assert CATALOG.classify(fault("new.code", severity=Severity.INFO)).severity is Severity.INFO


@pytest.mark.parametrize(("value", "found"), [("0x1", "xid.154:0x1"), ("0x4", "xid.154"), ("0x9", "xid.154")])
def test_a_recovery_action_of_the_driver_gets_the_row_of_its_value(value: str, found: str) -> None:
    assert CATALOG.row_of(fault("xid.154", attributes={"recovery_action": value})).code == found


@pytest.mark.parametrize(("level", "covered"), [(1, False), (2, True), (3, True)])
def test_a_verification_proves_what_its_level_and_the_lower_ones_cover(level: int, covered: bool) -> None:
    assert CATALOG.covers("dcgm", level, "xid.48") is covered
    assert CATALOG.covers("dcgm", level, "smi.anything") is covered
    assert not CATALOG.covers("other", level, "xid.48")


@pytest.mark.parametrize(
    ("codes", "level"),
    [((), 1), (("xid.31",), 1), (("xid.31", "xid.48"), 2), (("xid.79",), 4), (("xid.48", "net.link_down"), 4)],
)
def test_a_verifier_runs_at_the_lowest_level_that_covers_all_faults_or_else_at_its_highest(
    codes: tuple[str, ...], level: int
) -> None:
    assert CATALOG.lowest_level("dcgm", codes) == level
    assert CATALOG.lowest_level("fixed", codes) is None

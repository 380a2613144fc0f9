"""Attribution: which specific condition an unspecific report means, at the exact limits of time and severity."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.fold.attribution import (
    MAX_DISTANCE,
    belongs_to_ended,
    specific_condition,
    unspecific_conditions,
)
from faultbridge.decide.fold.condition_updates import new_condition
from faultbridge.decode.data import load_catalog
from faultbridge.model.conditions import Condition, Reporter, Tombstone, condition_key
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, OTHER_GPU, after, arrival, fault

CATALOG = load_catalog()
ANY_GPU, ANY_SWITCH = Component(ComponentType.GPU), Component(ComponentType.NVSWITCH)
MILLISECOND = timedelta(milliseconds=1)
NAMED = "gpu.lost@gpu/pci=0000:c1:00"
REPLACE = "provider.replace_requested@node"


def condition(
    code: str = "xid.79", component: Component = GPU, severity: Severity = Severity.FATAL, at: datetime = NOON
) -> Condition:
    seen = fault(code, component, severity=severity, action=Action.NONE)
    return new_condition(CATALOG, seen, arrival(seen, at), None)


def meant(
    specific: Condition,
    code: str = "agent.replace_required",
    component: Component = NODE_COMPONENT,
    at: datetime = NOON,
    source: str = "hyperpod-event",
) -> bool:
    """Return whether a report means the active specific condition."""
    reported, key = fault(code, component, source=source), condition_key(CATALOG.row(code).mode, component)
    found = specific_condition(key, reported, at, {specific.key: specific}, CATALOG)
    assert found in {None, specific.key}
    return found == specific.key


@pytest.mark.parametrize(("device", "other"), [(GPU, OTHER_GPU), (OTHER_GPU, GPU)])
def test_of_several_conditions_a_report_means_the_worst_and_then_the_one_observed_last(
    device: Component, other: Component
) -> None:
    general = fault("agent.replace_required", NODE_COMPONENT, source="hyperpod-event")
    for expected, second in [
        (condition(component=device), condition(component=other, severity=Severity.ERROR, at=after(minutes=1))),
        (condition(component=device, at=after(minutes=1)), condition(component=other)),
    ]:
        conditions = {one.key: one for one in (expected, second)}
        found = specific_condition(REPLACE, general, after(minutes=2), conditions, CATALOG)
        assert found == expected.key


COVERED = [
    ("agent.replace_required", NODE_COMPONENT, "xid.79", GPU, True),
    ("agent.replace_required", NODE_COMPONENT, "host.unreachable", NODE_COMPONENT, True),
    ("agent.gpu_unhealthy", ANY_GPU, "xid.79", GPU, True),
    ("agent.gpu_unhealthy", GPU, "xid.79", GPU, True),
    ("agent.gpu_unhealthy", GPU, "xid.79", OTHER_GPU, False),
    ("agent.gpu_unhealthy", ANY_GPU, "host.unreachable", NODE_COMPONENT, False),
    ("agent.gpu_unhealthy", ANY_GPU, "dcgmi.failed", GPU, False),
    ("xid.79", ANY_GPU, "xid.79", GPU, True),
    ("xid.79", OTHER_GPU, "xid.79", GPU, False),
    ("xid.79", ANY_SWITCH, "xid.79", GPU, False),
    ("xid.48", ANY_GPU, "xid.79", GPU, False),
]


@pytest.mark.parametrize(("code", "component", "specific_code", "device", "expected"), COVERED)
def test_a_report_means_a_condition_that_its_code_and_device_can_name(
    code: str, component: Component, specific_code: str, device: Component, expected: bool
) -> None:
    specific = condition(specific_code, device)
    assert meant(specific, code, component) is expected
    unspecific = {"reported": condition(code, component)}
    assert unspecific_conditions(specific, unspecific, CATALOG) == (["reported"] if expected else [])
    ended = {specific.key: Tombstone(NOON, {f"kernel-log {specific_code}": NOON})}
    assert belongs_to_ended(fault(code, component), NOON, ended, CATALOG) is expected


@pytest.mark.parametrize(
    ("severity", "expected"), [(Severity.WARNING, False), (Severity.ERROR, True), (Severity.FATAL, True)]
)
def test_a_report_means_no_condition_milder_than_an_error(severity: Severity, expected: bool) -> None:
    assert meant(condition(severity=severity)) is expected


LIMITS = [
    (-MAX_DISTANCE - MILLISECOND, False),
    (-MAX_DISTANCE, True),
    (timedelta(minutes=5) + MAX_DISTANCE, True),
    (timedelta(minutes=5) + MAX_DISTANCE + MILLISECOND, False),
]


@pytest.mark.parametrize(("distance", "expected"), LIMITS)
def test_a_report_means_a_condition_observed_within_fifteen_minutes(distance: timedelta, expected: bool) -> None:
    assert meant(replace(condition(), last_at=after(minutes=5)), at=NOON + distance) is expected


@pytest.mark.parametrize(("distance", "expected"), LIMITS)
def test_a_new_condition_explains_reports_observed_within_fifteen_minutes(distance: timedelta, expected: bool) -> None:
    unspecific = replace(condition("agent.replace_required", NODE_COMPONENT), last_at=after(minutes=5))
    explained = unspecific_conditions(condition(at=NOON + distance), {REPLACE: unspecific}, CATALOG)
    assert explained == ([REPLACE] if expected else [])


@pytest.mark.parametrize(
    ("source", "key", "expected"),
    [
        ("hyperpod-event", REPLACE, True),
        ("hyperpod-event", "provider.reboot_requested@node", False),
        ("kernel-log", REPLACE, False),
        ("dcgm-health", REPLACE, False),
    ],
)
def test_a_repeated_report_means_the_condition_that_has_it_from_the_same_source(
    source: str, key: str, expected: bool
) -> None:
    unspecific = Reporter(True, NOON, unspecific_key=key)
    reporters = {"kernel-log xid.79": Reporter(True, NOON), "hyperpod-event agent.replace_required": unspecific}
    assert meant(replace(condition(), reporters=reporters), at=after(hours=1), source=source) is expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (after(minutes=-20, milliseconds=-1), False),
        (after(minutes=-20), True),
        (NOON, True),
        (after(milliseconds=1), False),
    ],
)
def test_a_report_means_an_ended_condition_until_its_end(at: datetime, expected: bool) -> None:
    ended = {NAMED: Tombstone(NOON, {"kernel-log xid.79": after(minutes=-5), "dcgm-health xid.79": after(minutes=-1)})}
    assert belongs_to_ended(fault("agent.replace_required", NODE_COMPONENT), at, ended, CATALOG) is expected


@pytest.mark.parametrize(("code", "expected"), [("xid.92", False), ("xid.61", True), ("xid.79", True)])
def test_a_report_means_no_ended_condition_milder_than_an_error(code: str, expected: bool) -> None:
    ended = {f"{CATALOG.row(code).mode}@gpu/pci=0000:c1:00": Tombstone(NOON, {f"kernel-log {code}": NOON})}
    assert belongs_to_ended(fault("agent.replace_required", NODE_COMPONENT), NOON, ended, CATALOG) is expected

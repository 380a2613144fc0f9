"""Write filter: which changed watermarks and counts are stored, on both sides of each limit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.fold.fold import fold
from faultbridge.decide.fold.write_filter import (
    LOG_CODES,
    LOG_REPORT_PRECISION,
    LOGGED_SNAPSHOT_PRECISION,
    REPORT_PRECISION,
    SNAPSHOT_PRECISION,
    must_write,
)
from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.catalog import Kind
from faultbridge.model.enums import NodeStatus
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Clear, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, POLICY, after, arrival, fault, node

MILLISECOND = timedelta(milliseconds=1)
LEVEL = replace(CATALOG.rows["xid.48"], code="xid.154", kind=Kind.LEVEL)
KNOWN = replace(CATALOG, rows=CATALOG.rows | {LEVEL.code: LEVEL})


def with_fault(state: NodeState, at, code: str = "xid.48", source: str = "kernel-log") -> NodeState:
    """Return the node after one more fault; the evidence differs for each instant."""
    observed = arrival(fault(code, source=source, evidence=f"at {at}"), at=at)
    return fold(state, [observed], now=at, catalog=KNOWN, limits=Limits()).state


def with_snapshot(state: NodeState, at, *present: Fault, source: str = "dcgm-health") -> NodeState:
    snapshot = Snapshot(source, covers={"xid.48": (GPU,)}, present=present)
    return fold(state, [arrival(snapshot, at=at)], now=at, catalog=KNOWN, limits=Limits()).state


def with_twenty_faults(code: str = "xid.48", source: str = "kernel-log") -> NodeState:
    """Return a node with twenty faults within a minute: one more does not double the count."""
    state = node()
    for second in range(20):
        state = with_fault(state, after(seconds=second), code, source)
    return state


LAST = after(seconds=19)


def is_written(before: NodeState, now: NodeState, policy: Policy = POLICY) -> bool:
    return must_write(before, now, policy, KNOWN)


def test_an_unchanged_state_is_not_written() -> None:
    assert not is_written(with_twenty_faults(), with_twenty_faults())


def test_a_new_condition_is_written_at_once() -> None:
    assert is_written(node(), with_fault(node(), NOON))


def test_a_change_of_anything_but_watermarks_and_counts_is_written_at_once() -> None:
    state = with_twenty_faults()
    assert is_written(state, replace(state, status=NodeStatus.DEGRADED))
    assert not is_written(state, replace(state, due_at=NOON))
    ((key, condition),) = state.conditions.items()
    for changed in (replace(condition, severity=Severity.INFO), replace(condition, since=NOON - MILLISECOND)):
        assert is_written(state, replace(state, conditions={key: changed}))


@pytest.mark.parametrize(
    ("code", "source", "kept"),
    [
        ("xid.48", "kernel-log", LOG_REPORT_PRECISION),
        ("xid.48", "hyperpod-agent-log", REPORT_PRECISION),
        ("smi.row_remap_pending", "kernel-log", REPORT_PRECISION),
        ("xid.154", "kernel-log", REPORT_PRECISION),
        ("xid.92", "kernel-log", timedelta(minutes=6)),
    ],
    ids=[
        "event in a log",
        "source that can withdraw it",
        "no driver error",
        "lasting state",
        "quiet period of one hour",
    ],
)
def test_a_repeated_report_is_written_when_its_watermark_moved_by_the_precision(
    code: str, source: str, kept: timedelta
) -> None:
    state = with_twenty_faults(code, source)
    assert not is_written(state, with_fault(state, LAST + kept, code, source))
    assert is_written(state, with_fault(state, LAST + kept + MILLISECOND, code, source))


def test_a_second_reporter_is_written_at_once() -> None:
    state = with_twenty_faults()
    assert is_written(state, with_fault(state, LAST + MILLISECOND, source="dcgm-health"))


def test_each_reporter_has_its_own_watermark() -> None:
    both = with_fault(with_twenty_faults(), LAST, source="dcgm-health")
    later = with_fault(both, LAST + LOG_REPORT_PRECISION)
    assert not is_written(both, later)
    assert is_written(both, with_fault(later, LAST + REPORT_PRECISION + MILLISECOND, source="dcgm-health"))


def test_a_count_is_written_when_it_has_doubled() -> None:
    stored = with_fault(with_fault(with_fault(node(), NOON), after(seconds=1)), after(seconds=2))
    five = with_fault(with_fault(stored, after(seconds=3)), after(seconds=4))
    assert not is_written(stored, five)
    assert is_written(stored, with_fault(five, after(seconds=5)))


def test_a_count_is_written_each_time_while_a_rule_needs_more_observations() -> None:
    def policy_with(count: int, *codes: str) -> Policy:
        return Policy("counts", rules=(Rule("often", Match(codes=codes, count=count, hours=1)),))

    state = with_twenty_faults()
    again = with_fault(state, LAST + MILLISECOND)
    assert is_written(state, again, policy_with(21, "xid.*"))
    assert is_written(state, again, policy_with(21))
    assert not is_written(state, again, policy_with(20, "xid.*"))
    assert not is_written(state, again, policy_with(21, "smi.*"))
    assert not is_written(state, state, policy_with(21, "xid.*"))
    ((key, condition),) = state.conditions.items()
    repeated = replace(state, conditions={key: replace(condition, last_at=LAST + MILLISECOND)})
    assert not is_written(state, repeated, policy_with(21, "xid.*"))


def test_a_satisfied_rule_needs_observations_again_after_its_hours() -> None:
    """Within the 15 minutes of the log precision only the rule causes a write."""
    state = with_twenty_faults()
    ((key, condition),) = state.conditions.items()
    edge = {"last_at": after(minutes=59), "hours": {"2026-02-03T12": 20}}
    reporter = {name: replace(one, **edge) for name, one in condition.reporters.items()}
    stored = replace(state, conditions={key: replace(condition, reporters=reporter, last_at=after(minutes=59))})
    policy = Policy("counts", rules=(Rule("often", Match(count=3, hours=1)),))
    assert is_written(stored, with_fault(stored, after(minutes=60)), policy)
    assert not is_written(stored, with_fault(stored, after(minutes=59, seconds=59)), policy)


def test_a_snapshot_without_faults_is_written_every_ten_minutes() -> None:
    state = with_snapshot(node(), NOON)
    assert is_written(node(), state)
    assert not is_written(state, with_snapshot(state, NOON + SNAPSHOT_PRECISION))
    assert is_written(state, with_snapshot(state, NOON + SNAPSHOT_PRECISION + MILLISECOND))


@pytest.mark.parametrize(("later", "written"), [(timedelta(0), False), (MILLISECOND, True)])
def test_a_snapshot_written_with_a_heartbeat_is_written_after_two_hours(later: timedelta, written: bool) -> None:
    state = with_snapshot(node(), NOON)
    after_later = with_snapshot(state, NOON + LOGGED_SNAPSHOT_PRECISION + later)
    assert must_write(state, after_later, POLICY, KNOWN, logged=True) is written


def test_each_snapshot_of_a_source_that_reports_a_fault_is_written_although_it_is_in_a_heartbeat() -> None:
    present = fault("xid.48", source="dcgm-health", evidence="failed")
    state = with_snapshot(node(), NOON, present)
    later = with_snapshot(state, NOON + MILLISECOND, present)
    assert must_write(state, later, POLICY, KNOWN, logged=True)


def test_a_snapshot_of_a_source_that_asserts_something_is_written_each_time() -> None:
    state = with_snapshot(with_fault(node(), NOON, "smi.row_remap_pending", "dcgm-health"), after(seconds=1))
    assert is_written(state, with_snapshot(state, after(seconds=2)))


def test_a_late_faulty_snapshot_opens_a_condition_that_the_next_snapshot_clears() -> None:
    stored = with_snapshot(node(), NOON)
    assert not is_written(stored, with_snapshot(stored, after(minutes=3)))
    late = with_snapshot(stored, after(minutes=2), fault("xid.48", source="dcgm-health"))
    assert [one.code for one in late.active()] == ["xid.48"]
    assert not with_snapshot(late, after(minutes=4)).conditions


WITHDRAWN = b"""\
[1.0] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)
Feb  3 04:05:06 h systemd-networkd[11]: ib6: Lost carrier
Feb  3 04:05:07 h systemd-networkd[11]: ib6: Gained carrier
"""


def test_no_code_that_a_log_can_withdraw_has_the_log_precision() -> None:
    seen = registry.decode("kernel-log", WITHDRAWN, Hints(NOON, "n", "c"))
    cleared = [one.code for one in seen if isinstance(one, Clear)]
    assert cleared == ["xid.154", "net.carrier_lost"]
    assert not [code for code in cleared if code.startswith(LOG_CODES) and load_catalog().row(code).kind is Kind.EDGE]

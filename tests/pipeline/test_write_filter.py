"""Worth: which moved watermarks and counts are stored, at both sides of each bound."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.data import load_catalog
from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Hints
from faultbridge.domain.catalog import Kind
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.faults import Clear, Fault, Severity, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits, Match, Policy, Rule
from faultbridge.pipeline.fold.fold import fold
from faultbridge.pipeline.fold.write_filter import MOMENT_KEPT, MOMENTS, REPEAT_KEPT, SURVEY_KEPT, worth_writing
from tests.builders import CATALOG, GPU, NOON, POLICY, after, arrival, fault, node

MILLISECOND = timedelta(milliseconds=1)
LEVEL = replace(CATALOG.rows["xid.48"], code="xid.154", kind=Kind.LEVEL)
KNOWN = replace(CATALOG, rows=CATALOG.rows | {LEVEL.code: LEVEL})


def told(state: NodeState, at, code: str = "xid.48", source: str = "kernel-log") -> NodeState:
    """The node after one more fault; the raw text tells instants apart."""
    one = arrival(fault(code, source=source, evidence=f"at {at}"), at=at)
    return fold(state, [one], now=at, catalog=KNOWN, limits=Limits()).state


def surveyed(state: NodeState, at, *present: Fault, source: str = "dcgm-health") -> NodeState:
    look = Snapshot(source, covers={"xid.48": (GPU,)}, present=present)
    return fold(state, [arrival(look, at=at)], now=at, catalog=KNOWN, limits=Limits()).state


def often(code: str = "xid.48", source: str = "kernel-log") -> NodeState:
    """A node on which a fault was seen twenty times within its first minute: one more does not double the count."""
    state = node()
    for second in range(20):
        state = told(state, after(seconds=second), code, source)
    return state


LAST = after(seconds=19)


def worth(before: NodeState, now: NodeState, policy: Policy = POLICY) -> bool:
    return worth_writing(before, now, policy, KNOWN)


def test_nothing_is_worth_nothing() -> None:
    assert not worth(often(), often())


def test_a_new_condition_is_written_at_once() -> None:
    assert worth(node(), told(node(), NOON))


def test_whatever_is_neither_watermark_nor_count_is_written_at_once() -> None:
    state = often()
    assert worth(state, replace(state, status=NodeStatus.DEGRADED))
    assert not worth(state, replace(state, due_at=NOON))
    ((key, condition),) = state.conditions.items()
    for changed in (replace(condition, severity=Severity.INFO), replace(condition, since=NOON - MILLISECOND)):
        assert worth(state, replace(state, conditions={key: changed}))


@pytest.mark.parametrize(
    ("code", "source", "kept"),
    [
        ("xid.48", "kernel-log", MOMENT_KEPT),
        ("xid.48", "hyperpod-agent-log", REPEAT_KEPT),
        ("smi.row_remap_pending", "kernel-log", REPEAT_KEPT),
        ("xid.154", "kernel-log", REPEAT_KEPT),
        ("xid.92", "kernel-log", timedelta(minutes=6)),
    ],
    ids=[
        "a log's moment",
        "who may take it back",
        "what is no error of the driver",
        "what lasts",
        "what ends by an hour's quiet",
    ],
)
def test_a_repeat_is_written_when_its_watermark_moved_far_enough(code: str, source: str, kept: timedelta) -> None:
    state = often(code, source)
    assert not worth(state, told(state, LAST + kept, code, source))
    assert worth(state, told(state, LAST + kept + MILLISECOND, code, source))


def test_a_second_reporter_is_written_at_once() -> None:
    state = often()
    assert worth(state, told(state, LAST + MILLISECOND, source="dcgm-health"))


def test_each_reporter_has_its_own_watermark() -> None:
    both = told(often(), LAST, source="dcgm-health")
    later = told(both, LAST + MOMENT_KEPT)
    assert not worth(both, later)
    assert worth(both, told(later, LAST + REPEAT_KEPT + MILLISECOND, source="dcgm-health"))


def test_a_count_is_written_when_it_has_doubled() -> None:
    stored = told(told(told(node(), NOON), after(seconds=1)), after(seconds=2))
    five = told(told(stored, after(seconds=3)), after(seconds=4))
    assert not worth(stored, five)
    assert worth(stored, told(five, after(seconds=5)))


def test_a_count_is_written_each_time_while_a_rule_waits_for_it() -> None:
    def asking(count: int, *codes: str) -> Policy:
        return Policy("asks", rules=(Rule("often", Match(codes=codes, count=count, hours=1)),))

    state = often()
    again = told(state, LAST + MILLISECOND)
    assert worth(state, again, asking(21, "xid.*"))
    assert worth(state, again, asking(21))
    assert not worth(state, again, asking(20, "xid.*"))
    assert not worth(state, again, asking(21, "smi.*"))
    assert not worth(state, state, asking(21, "xid.*"))
    ((key, condition),) = state.conditions.items()
    heard = replace(state, conditions={key: replace(condition, last_at=LAST + MILLISECOND)})
    assert not worth(state, heard, asking(21, "xid.*"))


def test_a_rule_that_had_seen_enough_waits_again_once_its_hours_are_over() -> None:
    """Another cadence is no reason: within the quarter of an hour only the rule can ask for the write."""
    state = often()
    ((key, condition),) = state.conditions.items()
    edge = {"last_at": after(minutes=59), "hours": {"2026-02-03T12": 20}}
    reporter = {"kernel-log": replace(condition.reporters["kernel-log"], last_at=after(minutes=59))}
    stored = replace(state, conditions={key: replace(condition, reporters=reporter, **edge)})
    policy = Policy("asks", rules=(Rule("often", Match(count=3, hours=1)),))
    assert worth(stored, told(stored, after(minutes=60)), policy)
    assert not worth(stored, told(stored, after(minutes=59, seconds=59)), policy)


def test_a_snapshot_that_finds_nothing_is_written_every_ten_minutes() -> None:
    state = surveyed(node(), NOON)
    assert worth(node(), state)
    assert not worth(state, surveyed(state, NOON + SURVEY_KEPT))
    assert worth(state, surveyed(state, NOON + SURVEY_KEPT + MILLISECOND))


def test_a_snapshot_of_a_source_that_asserts_something_is_written_each_time() -> None:
    state = surveyed(told(node(), NOON, "smi.row_remap_pending", "dcgm-health"), after(seconds=1))
    assert worth(state, surveyed(state, after(seconds=2)))


def test_a_look_behind_a_clean_one_that_was_not_written_opens_what_the_next_look_clears() -> None:
    stored = surveyed(node(), NOON)
    assert not worth(stored, surveyed(stored, after(minutes=3)))
    late = surveyed(stored, after(minutes=2), fault("xid.48", source="dcgm-health"))
    assert [one.code for one in late.active()] == ["xid.48"]
    assert not surveyed(late, after(minutes=4)).conditions


TAKEN_BACK = b"""\
[1.0] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)
Feb  3 04:05:06 h systemd-networkd[11]: ib6: Lost carrier
Feb  3 04:05:07 h systemd-networkd[11]: ib6: Gained carrier
"""


def test_what_a_log_takes_back_is_no_moment() -> None:
    seen = registry.decode("kernel-log", TAKEN_BACK, Hints(NOON, "n", "c"))
    cleared = [one.code for one in seen if isinstance(one, Clear)]
    assert cleared == ["xid.154", "net.carrier_lost"]
    assert not [code for code in cleared if code.startswith(MOMENTS) and load_catalog().row(code).kind is Kind.EDGE]

"""A node with faults and without a case has a reason, and the text of what would change it."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.observe import observe
from faultbridge.decide.required_order import no_repair
from faultbridge.model.cluster.config import ClusterConfig, Mode, UpdateHold
from faultbridge.model.nodes import Ignored, NodeState
from faultbridge.model.values import replace
from tests.builders import CATALOG, KEY, NOON, after, arrival, config, fault, node, rules

NAMED = "--instance i-0aaaaaaaaaaaaaaa1"
REPLACE = f"`faultbridge node replace {KEY.node} --cluster {KEY.cluster} {NAMED}` orders a repair"
HOUR = after(hours=1)


def with_fault(
    code: str = "xid.79",
    *,
    match: IncarnationMatch = IncarnationMatch.CURRENT,
    cluster: ClusterConfig | None = None,
    now: datetime = NOON,
    ignored: Ignored | None = None,
) -> NodeState:
    """A node after one fault, as the pipeline leaves it."""
    arrivals = [arrival(fault(code), incarnation=match)]
    before, given = replace(node(), ignored=ignored), rules(config=cluster or config())
    return observe(before, arrivals, rules=given, catalog=CATALOG, now=now).state


IGNORED = Ignored("ada", NOON, None, "firmware update")
OBSERVING = config(mode=Mode.OBSERVE)
UPDATING = config(update_holds=(UpdateHold("gpu-workers", NOON, HOUR),))
SITUATIONS = {
    "a fault that needs no repair": (
        with_fault("xid.92"), config(), "no fault of the node needs a repair: xid.92 (action none)", REPLACE,
    ),
    "a cluster that only observes": (
        with_fault(cluster=OBSERVING), OBSERVING, "the cluster's mode is observe", "--mode act` permits the repair",
    ),
    "a node that is ignored": (
        with_fault(ignored=IGNORED), config(), "the node is ignored: firmware update", "--end` permits the repair",
    ),
    "a node that is ignored until a time": (
        with_fault(ignored=replace(IGNORED, until=HOUR)), config(), "excluded from repairs until 2026", "then",
    ),
    "a fault that may be of an earlier instance": (
        with_fault(match=IncarnationMatch.UNKNOWN), config(), "not certain", REPLACE,
    ),
    "a fault that was reported late": (
        with_fault(now=after(hours=2)), config(), "no report was recent enough", REPLACE,
    ),
    "an absence that an update of the group explains": (
        with_fault("host.silent", cluster=UPDATING), UPDATING, "the owner of group gpu-workers updates it",
        "after the update, at 2026-02-03T13:00Z at the latest",
    ),
    "an absence that may be of an earlier instance": (
        with_fault("host.silent", match=IncarnationMatch.UNKNOWN), config(), "not certain", REPLACE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_node_with_faults_and_no_case_says_why_and_what_would_change_it(situation: str) -> None:
    state, cluster, reason, change = SITUATIONS[situation]
    assert (state.status, state.live_case) == ("degraded", None)
    found = no_repair(state, cluster, NOON)
    assert found is not None
    assert reason in found.reason
    assert change in found.change


def test_a_healthy_node_and_one_with_a_case_need_no_reason() -> None:
    assert no_repair(node(), config(), NOON) is None
    assert no_repair(with_fault(), config(), NOON) is None

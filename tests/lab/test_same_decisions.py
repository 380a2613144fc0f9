"""The fleet without a table makes the decisions of the whole product: same cases, same actions, same order."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.entries import Draft
from faultbridge.model.enums import RepairAction
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Match, Rule
from tests.builders import NOON, STACK_ID, data_of
from tests.lab.product.product_fleet import ProductFleet
from tests.lab.scenario import Scenario
from tests.lab.traces import scenario
from tests.lab.whole_product import Line, WholeProduct
from tests.scenarios.world import entry_text

pytestmark = pytest.mark.slow

NETWORK = Rule("network", Match(codes=("net.*", "host.*")), wait_seconds=300, isolate=False)
REBOOT_FIRST = Rule("reboot-first", repair_actions=(RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE))
BREAKER = BreakerLimit(nodes=2, percent=10)


def both(one: Scenario, rules=(), limits=None, breakers=()) -> tuple[list[Line], list[Line], ProductFleet]:
    """Return the entries of the whole product and those of the fleet for one scenario and policy.

    The fleet has no notes about recurrences, which decide nothing.
    """
    whole = WholeProduct(one, rules, limits or Limits(), breakers)
    lines: list[Line] = []

    def observer(at: datetime, state: NodeState, drafts: tuple[Draft, ...]) -> None:
        lines.extend((at, state.key.node, entry_text(draft.type.value, data_of(draft))) for draft in drafts)

    fleet = ProductFleet(one, whole.policy, observer=observer, begin=NOON, stack_id=STACK_ID)
    fleet.run()
    return [one for one in whole.run() if not one[2].startswith("note recurrence")], lines, fleet


@pytest.mark.parametrize(
    ("one", "rules", "limits", "breakers"),
    [
        (scenario(nodes=10, pool=8, days=6, seed=1, false_alarms=40), (), None, ()),
        (scenario(nodes=12, pool=0, days=1.5, seed=2, false_alarms=300), (NETWORK,), Limits(attempts=2), ()),
        (scenario(nodes=10, days=20, seed=3, detection=0.3), (REBOOT_FIRST,), Limits(probation=timedelta(7)), ()),
        (scenario(nodes=10, days=4, seed=4, false_alarms=300), (), Limits(concurrent=1, per_hour=1), (BREAKER,)),
        (scenario(nodes=12, pool=6, days=8, seed=7, false_alarms=40, precursors=0.8), (), None, ()),
        (scenario(nodes=24, days=0.5, seed=6, false_alarms=900), (), Limits(isolation_percent=5, concurrent=4), ()),
    ],
    ids=["alarms", "no-pool", "bad-detection", "breaker", "precursors", "isolation-budget"],
)
def test_a_fleet_decides_as_the_whole_product(one, rules, limits, breakers) -> None:
    whole, fast, fleet = both(one, rules, limits, breakers)
    assert fast == whole
    assert fleet.jobs.counts["cases_resolved"] >= 3


@pytest.mark.nightly
def test_fifty_nodes_and_thirty_days_decide_as_the_whole_product() -> None:
    one = scenario(nodes=50, pool=20, days=30, seed=5, false_alarms=8)
    whole, fast, fleet = both(one, (), Limits(), (BreakerLimit(),))
    assert fast == whole
    assert fleet.jobs.counts["cases_resolved"] >= 20

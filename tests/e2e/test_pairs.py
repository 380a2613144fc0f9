"""The happy path of each pair of provider and orchestrator that is not told elsewhere."""

from __future__ import annotations

import pytest

from faultbridge.adapters.kubernetes.taints import ISOLATED
from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import NodeStatus
from tests.e2e.installation import Installation
from tests.e2e.pairs import NODE, OnEks, by_instance

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def test_with_auto_scaling_and_eks_the_node_is_drained_replaced_verified_and_let_go(
    installation: Installation, on_eks: OnEks
) -> None:
    told = [(one["data"]["step"], one["data"]["outcome"]) for one in on_eks.record if "step" in one["data"]]
    wanted = [("drain", "drained"), ("intent", "committed"), ("verify", "passed"), ("return_to_service", "returned")]
    assert [step for step in told if step in wanted] == wanted
    (case,) = installation.cases(on_eks.cluster)
    state = installation.states(on_eks.cluster)[NODE]
    assert (case.resolution, state.status) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert state.incarnation is not None
    nodes = by_instance(on_eks.kubernetes)
    assert set(nodes) == {
        str(each.incarnation.instance_id) for each in installation.states(on_eks.cluster).values() if each.incarnation
    }
    successor = nodes[str(state.incarnation.instance_id)]
    assert not successor.spec.unschedulable
    assert not successor.spec.taints
    assert ISOLATED not in successor.metadata.labels
    # Its version says that it was changed since it joined: kept off work first, let go last.
    assert int(successor.metadata.resourceVersion) > 2


def test_the_isolation_was_confirmed_by_the_orchestrator(on_eks: OnEks) -> None:
    (isolated,) = (one["data"] for one in on_eks.record if one["data"].get("to") == NodeStatus.QUARANTINED)
    assert isolated["reason"] == "isolation confirmed"

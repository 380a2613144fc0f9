"""Device names: what is stored about a device follows the name under which the device list identifies it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.changes import Arrival, ChangeKind
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.fold.node_conditions import rename_conditions
from faultbridge.model.conditions import component_key, parse_component
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Clear, Component, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import CATALOG, NOON, after, arrival, fault, node

IDENTIFIED = Component(ComponentType.GPU, pci="0000:c1:00", uuid="GPU-1", index=3)
DEVICES = Snapshot("nvidia-smi-xml", {}, devices=(IDENTIFIED,))
PARTIAL = [
    Component(ComponentType.GPU, index=3),
    Component(ComponentType.GPU, uuid="GPU-1"),
    Component(ComponentType.GPU, index=3, link=5),
]


def folded(state: NodeState, *arrivals: Arrival) -> tuple[NodeState, list[Outcome]]:
    result = fold(state, arrivals, now=after(minutes=5), catalog=CATALOG, limits=Limits())
    return result.state, list(result.outcomes.values())


def cleared(first: Fault) -> NodeState:
    """Return a node on which a fault began at noon and ended ten seconds later."""
    state, _ = folded(node(), arrival(first))
    over = Clear(first.source, first.code, first.component, "over")
    return folded(state, arrival(over, after(seconds=10)))[0]


@pytest.mark.parametrize("component", PARTIAL)
def test_a_cleared_fault_delivered_again_after_its_device_was_identified_is_stale(component: Component) -> None:
    first = fault("xid.48", component)
    learned, _ = folded(cleared(first), arrival(DEVICES, after(seconds=20)))
    again, outcomes = folded(learned, arrival(first))
    assert outcomes == [Outcome.STALE]
    assert not again.conditions


def test_two_tombstones_of_one_device_are_merged_to_the_later_end() -> None:
    by_index, by_uuid = (fault("xid.48", component) for component in PARTIAL[:2])
    state = cleared(by_index)
    state, _ = folded(state, arrival(by_uuid, after(seconds=30)))
    state, _ = folded(state, arrival(Clear("kernel-log", "xid.48", by_uuid.component, "over"), after(seconds=40)))
    state, _ = folded(state, arrival(DEVICES, after(seconds=50)))
    (tombstone,) = state.tombstones.values()
    assert tombstone.ended_at == after(seconds=40, milliseconds=-1)


def test_an_informational_fault_is_not_noted_again_after_its_device_was_identified() -> None:
    information = fault("xid.31", PARTIAL[0])
    state, _ = folded(node(), arrival(information))
    state, _ = folded(state, arrival(DEVICES, after(seconds=20)))
    assert folded(state, arrival(information, after(seconds=30)))[1] == [Outcome.FOLDED]


@pytest.mark.parametrize("component", PARTIAL)
def test_a_condition_is_cleared_by_a_report_with_the_former_name_of_its_device(component: Component) -> None:
    first = fault("xid.48", component)
    state, _ = folded(node(), arrival(first), arrival(DEVICES, after(seconds=20)))
    state, _ = folded(state, arrival(Clear("kernel-log", "xid.48", component, "over"), after(seconds=30)))
    assert not state.conditions


def test_a_condition_of_an_identified_device_is_recorded_once_under_its_new_name() -> None:
    state, _ = folded(node(), arrival(fault("xid.48", PARTIAL[0])))
    result = fold(state, [arrival(DEVICES, after(seconds=20))], now=after(minutes=5), catalog=CATALOG, limits=Limits())
    (change,) = result.changes
    assert (change.kind, change.reason, change.changed_parts) == (
        ChangeKind.UPDATED,
        "device identified",
        ("component",),
    )
    assert change.condition == result.state.conditions["xid.48@gpu/pci=0000:c1:00"]
    assert change.condition.component == IDENTIFIED


@pytest.mark.parametrize(
    ("reported", "renamed"),
    [
        (None, None),
        ("xid.48@gpu/any", "xid.48@gpu/any"),
        ("agent.gpu_unhealthy@gpu/index=3", "agent.gpu_unhealthy@gpu/pci=0000:c1:00"),
    ],
)
def test_a_condition_keeps_its_name_and_its_reports_get_the_current_name_of_their_device(
    reported: str | None, renamed: str | None
) -> None:
    state, _ = folded(node(), arrival(fault("xid.48", replace(IDENTIFIED, uuid=None, index=None))))
    ((key, condition),) = state.conditions.items()
    reporter = replace(condition.reporters["kernel-log xid.48"], unspecific_key=reported)
    conditions = {key: replace(condition, reporters={"kernel-log xid.48": reporter})}
    assert list(rename_conditions(conditions, (IDENTIFIED,), arrival(DEVICES), CATALOG)) == []
    assert list(conditions) == [key]
    assert conditions[key].reporters == {"kernel-log xid.48": replace(reporter, unspecific_key=renamed)}


components = st.builds(
    Component,
    st.sampled_from([kind for kind in ComponentType if kind is not ComponentType.NODE]),
    pci=st.none() | st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}", fullmatch=True),
    uuid=st.none() | st.text(min_size=1, max_size=20),
    index=st.none() | st.integers(0, 200),
    link=st.none() | st.integers(0, 20),
)


@given(components)
def test_a_name_with_an_identifier_is_read_back_to_the_same_name(component: Component) -> None:
    name = component_key(component)
    parsed = parse_component(name)
    if parsed is None:
        assert name.partition("/")[2].startswith("any")
    else:
        assert component_key(parsed) == name


@given(components, components)
def test_a_device_list_never_adds_and_never_loses_a_tombstone_of_another_device(
    first: Component, other: Component
) -> None:
    state = cleared(fault("xid.48", first))
    learned, _ = folded(state, arrival(replace(DEVICES, devices=(other,)), after(seconds=20)))
    assert len(learned.tombstones) == len(state.tombstones)
    assert folded(learned, arrival(fault("xid.48", first), NOON))[1] == [Outcome.STALE]

"""States of ports beside their counters, in a tree of sysfs or a scrape of node_exporter: both are read."""

from __future__ import annotations

import pytest

from faultbridge.decide.normalize.compare import differences
from faultbridge.decode import registry
from faultbridge.model.faults import CounterSample, Fault, Snapshot
from tests.decoders.captures import faults_and_clears

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
TREE = f"{PORT}/state: {{state}}: X\n{PORT}/phys_state: 5: LinkUp\n{PORT}/counters/link_downed: {{downed}}\n"
LABEL = '{{device="mlx5_0",port="1"}}'
SCRAPE = (
    f"node_infiniband_state_id{LABEL} {{state}}\nnode_infiniband_physical_state_id{LABEL} 5\n"
    f"node_infiniband_link_downed_total{LABEL} {{downed}}\n"
)


@pytest.mark.parametrize("form", [TREE, SCRAPE])
@pytest.mark.parametrize(("state", "expected"), [(2, ["net.ib_port_stuck"]), (4, [])])
def test_a_port_that_does_not_become_active_is_found_beside_its_counters(
    form: str, state: int, expected: list[str]
) -> None:
    body = form.format(state=state, downed=0).encode()
    assert registry.recognize(body) == "rdma-counters"
    found = registry.decode("rdma-counters", body)
    assert [one.code for one in faults_and_clears(found)] == expected
    # The end of the fault is known from the source of its snapshot.
    assert {one.source for one in found if isinstance(one, Snapshot)} == {"infiniband-state"}
    assert [one.values for one in found if isinstance(one, CounterSample) and one.source == "rdma-counters"] == [
        {"link_downed": 0}
    ]


@pytest.mark.parametrize("form", [TREE, SCRAPE])
def test_counters_beside_states_are_still_compared(form: str) -> None:
    samples = [registry.decode("rdma-counters", form.format(state=4, downed=count).encode()) for count in (0, 1)]
    found = differences([one for sample in samples for one in sample])
    assert [one.code for one in found if isinstance(one, Fault)] == ["net.port_link_downed"]


def test_a_tree_without_states_has_counters_only() -> None:
    found = registry.decode("rdma-counters", f"{PORT}/counters/link_downed: 0\n".encode())
    assert [type(one) for one in found] == [CounterSample]

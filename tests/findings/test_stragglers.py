"""Stragglers: the device or rank for which a job waits is found within 15 minutes, by synthetic recordings."""

from __future__ import annotations

import re

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.model.nodes import NodeKey
from faultbridge.repair.findings.compare_peers import fault_code
from faultbridge.repair.jobs.jobs import Jobs
from tests.builders import KEY
from tests.findings.recordings import JOB, NODES, Change, Device, compare, findings, healthy, replay

BEGINS = 30
pytestmark = pytest.mark.slow


def lossy_nic(minute: int, node: str, number: int, device: Device) -> None:
    """Drop a few packets on one network card, which sends less; the work of its rank is as fast as before."""
    if (node, number) == ("n-2", 3) and minute >= BEGINS:
        device.sent, device.lost = 0.7 * device.sent, 30


def retrying_nic(minute: int, node: str, number: int, device: Device) -> None:
    """Drop packets that are sent again in time: the card sends as much as its peers."""
    if (node, number) == ("n-2", 3) and minute >= BEGINS:
        device.lost = 10


def throttled_gpu(minute: int, node: str, number: int, device: Device) -> None:
    if (node, number) == ("n-1", 5) and minute >= BEGINS:
        device.clock, device.step = 1200, 1.5 * device.step


def slow_slot(minute: int, node: str, number: int, device: Device) -> None:
    if (node, number) == ("n-3", 2) and minute >= BEGINS:
        device.generation = 3


def slow_nvlink(minute: int, node: str, number: int, device: Device) -> None:
    if (node, number) == ("n-0", 6) and minute >= BEGINS:
        device.nvlink *= 0.5


def slow_host(minute: int, node: str, number: int, device: Device) -> None:
    """Make one rank slow, such as by its process on the CPU; no device of it shows why."""
    if (node, number) == ("n-3", 7) and minute >= BEGINS:
        device.step *= 1.4


STRAGGLERS: dict[str, tuple[Change, str, str, str, int]] = {
    "a network card that drops packets": (lossy_nic, "slow-nic", "link.slow", "NIC mlx5_3", 19),
    "a network card that sends packets again": (retrying_nic, "lossy-nic", "link.slow", "NIC mlx5_3", 19),
    "a GPU that throttles": (throttled_gpu, "slow-clock", "gpu.slow", "GPU 5", 13),
    "a PCIe link at a lower speed": (slow_slot, "slow-pcie", "link.slow", "GPU 2", 26),
    "an NVLink that moves half": (slow_nvlink, "slow-nvlink", "link.slow", "GPU 6", 6),
    "a rank that is slow on its own": (slow_host, "slow-step", "gpu.slow", "GPU 7", 31),
}


@pytest.mark.parametrize("name", STRAGGLERS)
def test_a_straggler_is_named_to_rank_and_device_within_a_quarter_of_an_hour_in_shadow(name: str) -> None:
    change, detector, mode, device, rank = STRAGGLERS[name]
    world, found = replay(change, BEGINS + 20)
    minute, finding = next(one for one in found if one[1].detector == detector)
    assert BEGINS < minute <= BEGINS + 15
    assert {one.node for _, one in found} == {NODES[rank // 8]}
    assert finding.rank == rank
    assert finding.evidence.startswith(f"{device} (rank {rank}) of job 88213: ")
    assert load_catalog().row(fault_code(detector)).mode == mode
    state = world.node(NodeKey(KEY.cluster, finding.node))
    assert (state.case, state.isolation, world.ports.pager.sent) == (None, "none", [])


def test_the_evidence_of_a_device_has_the_step_of_its_rank_and_the_rank_is_no_second_finding() -> None:
    _, found = replay(throttled_gpu, BEGINS + 20)
    ((_, finding),) = found
    assert finding.evidence.startswith("GPU 5 (rank 13) of job 88213: 12")
    assert re.search(r"; 1[78]\d\d ms of own work in a step, not 1[12]\d\d$", finding.evidence)


def test_a_finding_ends_when_the_device_is_like_its_peers_again() -> None:
    def repaired(minute: int, node: str, number: int, device: Device) -> None:
        if minute < BEGINS + 20:
            throttled_gpu(minute, node, number, device)

    world, ((_, finding),) = replay(repaired, BEGINS + 50)
    assert findings(world) == []
    (ended,) = findings(world, ended=True)
    assert ended.id == finding.id


def test_a_finding_ends_with_its_job() -> None:
    world, _ = replay(throttled_gpu, BEGINS + 20)
    assert len(findings(world)) == 1
    Jobs(world.app.append).end(KEY.cluster, JOB)
    compare(world, minutes=3)
    assert findings(world) == []


def checkpoints(minute: int, _node: str, _number: int, device: Device) -> None:
    """Write a checkpoint of ten minutes in each half hour: nothing moves between the nodes, and no step ends."""
    if minute % 30 >= 20:
        device.sent, device.nvlink, device.memory, device.clock, device.step = 0, 0, 1, 345, 0


def checkpoints_of_rank_0(minute: int, node: str, number: int, device: Device) -> None:
    """Write a checkpoint with one rank: it works, on its processor and link, and all others wait."""
    if minute % 20 >= 16:
        device.sent, device.nvlink, device.memory, device.step = 0, 0, 1, 0
        if (node, number) == ("n-0", 0):
            device.memory, device.clock, device.generation = 20, 1500, 4


def evaluation_on_one_node(minute: int, node: str, _number: int, device: Device) -> None:
    if minute % 30 >= 18:
        device.sent, device.nvlink, device.step = 0.001 * device.sent, 0, 0
        device.memory = 45 if node == "n-1" else 0


def evaluation_everywhere(minute: int, _node: str, number: int, device: Device) -> None:
    """Evaluate samples of unequal length: the GPUs differ from minute to minute."""
    if minute % 30 >= 20:
        device.sent, device.step = 0.05 * device.sent, 0
        device.clock, device.nvlink = (
            1400 + 70 * ((number + minute) % 8),
            device.nvlink * (0.1 + 0.1 * ((number * minute) % 8)),
        )


def last_stage(_minute: int, node: str, _number: int, device: Device) -> None:
    """Divide the model into stages: the last node sends half, and its ranks work for longer."""
    if node == "n-3":
        device.sent, device.step, device.clock = 0.5 * device.sent, 1.5 * device.step, 1700


def heat(minute: int, _node: str, _number: int, device: Device) -> None:
    """Reduce the clocks of all GPUs together, as a limit of a hall does."""
    if minute >= BEGINS:
        device.clock, device.step = 1300, 1.4 * device.step


def start_up(minute: int, node: str, number: int, device: Device) -> None:
    """Load data for half an hour: nothing is sent, and some GPUs compile kernels."""
    if minute < BEGINS:
        device.sent, device.nvlink, device.step = 1000, 0, 0
        device.memory = 30 if (number + minute) % 3 == 0 else 0
        device.clock = 1980 if node < "n-2" else 1200


def congestion(minute: int, node: str, number: int, device: Device) -> None:
    """Let one network card be slow for three minutes, now and then another one, with some lost packets."""
    if minute % 10 < 3 and number == minute // 10 % 8 and node == NODES[minute // 10 % 4]:
        device.sent, device.lost = 0.4 * device.sent, 40


def hiccups(minute: int, node: str, number: int, device: Device) -> None:
    """Let another rank wait for its data in each minute."""
    if (node, number) == (NODES[minute % 4], minute * 5 % 8):
        device.step *= 3


CLEAN: dict[str, Change] = {
    "steady steps": healthy,
    "checkpoints of all ranks": checkpoints,
    "checkpoints of rank 0": checkpoints_of_rank_0,
    "an evaluation on one node": evaluation_on_one_node,
    "an evaluation on all nodes": evaluation_everywhere,
    "the last stage of a model": last_stage,
    "less power for all": heat,
    "a start that loads data": start_up,
    "short congestion": congestion,
    "ranks that wait for their data": hiccups,
}


@pytest.mark.parametrize("name", CLEAN)
def test_checkpoints_evaluation_and_other_ordinary_work_are_no_findings(name: str) -> None:
    assert replay(CLEAN[name], 90)[1] == []

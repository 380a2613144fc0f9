"""What peers' users asked about hanging jobs: each scenario is named after what must happen."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.values import replace
from faultbridge.repair.registry.gpus import GpuFigure, gpu_figure
from faultbridge.repair.registry.views import Views
from tests.explain.traces import generate
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import START


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_ranks_that_did_not_join_a_collective_are_named_with_their_nodes(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NVIDIA/nccl#1260."""
    trace = generate(seed)
    for name, body in trace.files.items():
        (tmp_path / name).write_bytes(body)
    files = [str(one) for one in tmp_path.iterdir()]
    (tmp_path / "nodes.json").write_text(json.dumps({f"n-{rank}": [rank] for rank in range(64)}), encoding="utf-8")
    assert run(["explain", "--json", "--nodes", str(tmp_path / "nodes.json"), *files]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["collectives"]["ranks"] == sorted(trace.injected)
    assert document["collectives"]["nodes"] == sorted(f"n-{rank}" for rank in trace.injected)


def figure(world: World, **window: float) -> GpuFigure:
    """Return the figure of the cluster, with the GPU time lost within a window."""
    views, now = Views(world.table), world.clock.now()
    cases = [replace(view.case, gpus=8) for view in views.cases(CLUSTER, tuple(CaseStatus))]
    since = now - timedelta(**(window or {"days": 30}))
    return gpu_figure(views.nodes(CLUSTER), cases, gpus_by_instance_type(), since, now)


def test_one_figure_says_how_many_gpus_of_a_cluster_are_good_and_how_many_gpu_hours_were_lost() -> None:
    """NVIDIA/NVSentinel#298."""
    world = World(nodes=4)
    assert figure(world) == GpuFigure(gpus=32, in_service=32, unknown_nodes=0, lost_ms=0)
    world.fault_and_react(minutes=1)
    during = figure(world)
    assert (during.gpus, during.in_service, during.percent) == (32, 24, 75.0)
    world.until(world.case_is(CaseStatus.RESOLVED))
    case, after = world.case(), figure(world)
    assert case.closed_at is not None
    millisecond = timedelta(milliseconds=1)
    assert (after.percent, after.lost_ms) == (100.0, 8 * ((case.closed_at - case.opened_at) // millisecond))
    world.advance_minutes(60)
    assert figure(world, minutes=30).lost_ms == 0


def test_the_gpus_of_a_retired_node_are_not_counted() -> None:
    world = World(nodes=4)
    views = Views(world.table)
    retired = replace(views.nodes(CLUSTER)[0], status=NodeStatus.RETIRED)
    found = gpu_figure((retired, *views.nodes(CLUSTER)[1:]), (), gpus_by_instance_type(), START, world.clock.now())
    assert (found.gpus, found.in_service) == (24, 24)

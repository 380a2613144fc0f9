"""Both programs compute the same service level, and each value is what the definition says."""

from __future__ import annotations

import importlib.util
import json
from datetime import timedelta
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from faultbridge.decide.service_level import ServiceLevel, service_level
from faultbridge.model.event_data import json_text
from faultbridge.model.recorded import read_event
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.times import from_text, to_text
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.serve.entrypoints.react import wire_react
from tests.architecture.project import ROOT
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.sim.fakes import START
from tests.sim.history import build_system, draw_actions, play_on
from tests.sim.simulated_ports import SimulatedPorts


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Desk:
    return Desk(monkeypatch, capfdbinary)


EXAMPLE = ROOT / "examples" / "service-level" / "recompute.py"
CLUSTER = "train-a"


@pytest.fixture(scope="module")
def recompute() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recompute", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulated(seed: int) -> SimulatedPorts:
    system = build_system(seed)
    play_on(system, seed, draw_actions(seed))
    return system.ports


def write_archive(ports: SimulatedPorts, folder: Path) -> None:
    """Write every entry of the table into archive objects of a day each, some lines twice."""
    days: dict[tuple[str, str], list[layout.ArchiveLine]] = {}
    for item in ports.table.items():
        if "body" in item and "hash" in item:
            line = layout.line_of(item)
            days.setdefault((line.cluster, line.day), []).append(line)
    for (cluster, day), lines in days.items():
        path = folder / f"archive/cluster={cluster}/day={day}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(layout.pack([*reversed(lines), *lines[:3]]))


def check_equal(recompute: ModuleType, ports: SimulatedPorts, folder: Path, random: Random) -> None:
    """Assert that both programs print the same documents for some periods of each cluster."""
    write_archive(ports, folder)
    events = list(Timeline(ports.table).entries(TimelineQuery(CLUSTER)))
    end = max(line.event.metadata.recorded_at for line in events) + timedelta(hours=1)
    whole = (START - timedelta(days=1), end)
    length = (end - START) // timedelta(milliseconds=1)
    first, last = sorted(random.sample(range(length), 2))
    part = (START + timedelta(milliseconds=first), START + timedelta(milliseconds=last))
    for since, until in (whole, part):
        lines = Timeline(ports.table).entries(TimelineQuery(CLUSTER, until=until))
        ours = json.loads(json_text(service_level(CLUSTER, (line.event for line in lines), since, until)))
        given = to_text(since), to_text(until)
        assert recompute.level(CLUSTER, recompute.entries(folder, CLUSTER, given[1]), *given) == ours


@pytest.mark.parametrize("seed", [0, 8])
def test_both_programs_compute_the_same_service_level(recompute: ModuleType, seed: int, tmp_path: Path) -> None:
    check_equal(recompute, simulated(seed), tmp_path, Random(seed))


@pytest.mark.nightly
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_both_programs_agree_on_two_hundred_histories(recompute: ModuleType, first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        check_equal(recompute, simulated(seed), tmp_path / str(seed), Random(seed))


def test_the_other_program_is_short_and_stands_alone() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "faultbridge." not in text.split('"""', 2)[2]


DAY = 86_400_000
NOON = from_text("2026-02-01T12:00:00.000Z")


class History:
    """The entries of one node, an hour apart unless said otherwise."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.now = NOON

    def status(self, to: str, hours: float = 1, by: str = "step", case: str | None = None) -> History:
        self.now += timedelta(hours=hours)
        data = {"from": None, "to": to, "reason": "", "incarnation": None, "isolation": "none", "unverified": False}
        return self._add("Node Status Change", data, by, case)

    def planned(self, case: str) -> History:
        component = dict.fromkeys(("pci", "uuid", "index", "serial", "link", "name")) | {"type": "node"}
        cause = {"failure_mode": "provider.retirement", "code": "c", "codes": [], "component": component}
        data = {"from": None, "to": "open", "cause": cause, "detected_at": to_text(self.now)}
        return self._add("Case Status Change", data, "ingest", case)

    def _add(self, kind: str, data: dict[str, Any], by: str, case: str | None) -> History:
        number = len(self.events) + 1
        metadata = {
            "event_id": f"e-{number}",
            "event_type": kind,
            "epoch": 1,
            "sequence": number,
            "occurred_at": to_text(self.now),
            "recorded_at": to_text(self.now),
            "cluster": CLUSTER,
            "node": "n-1",
            "case_id": case,
            "recorded_by": by,
        }
        self.events.append(read_event({"metadata": metadata, "data": data}))
        return self

    def level(self, hours: float = 24) -> ServiceLevel:
        return service_level(CLUSTER, self.events, NOON, NOON + timedelta(hours=hours))


def test_a_node_counts_from_its_first_service_to_its_removal() -> None:
    history = History().status("provisioning").status("healthy").status("retired", hours=10)
    assert history.level().eligible_ms == 10 * 3_600_000
    assert history.level().availability_ppm == 1_000_000


def test_an_outage_lasts_from_the_end_of_service_to_the_return() -> None:
    history = History().status("healthy", 0).status("quarantined", 4).status("replacing").status("healthy", 2)
    found = history.level()
    assert (found.lost_ms, found.availability_ppm, found.credit_percent) == (3 * 3_600_000, 875_000, 50)
    (outage,) = found.outages
    assert (outage.why, outage.began, outage.ended) == ("fault", "e-2", "e-4")
    assert found.repair_times == {"under_4h": 1}


def test_an_order_of_the_customer_is_excluded() -> None:
    found = History().status("healthy", 0).status("quarantined", 12, by="cli").level()
    assert (found.lost_ms, found.excluded_ms, found.availability_ppm) == (0, DAY // 2, 1_000_000)


@pytest.mark.parametrize(("hours", "why"), [(24, "maintenance"), (23.9, "fault")])
def test_maintenance_is_excluded_only_with_a_day_of_notice(hours: float, why: str) -> None:
    history = History().status("healthy", 0).planned("c-1").status("draining", hours, case="c-1")
    assert [one.why for one in history.level(48).outages] == [why]


def test_a_period_without_a_delivered_node_has_no_availability() -> None:
    found = History().status("provisioning").level()
    assert (found.availability_ppm, found.credit_percent, found.nodes) == (None, None, ())


def test_an_outage_that_lasts_has_no_repair_time() -> None:
    found = History().status("healthy", 0).status("failed", 20).level()
    assert found.repair_times == {"open": 1}
    assert found.outages[0].end is None


def test_the_command_prints_the_level_and_the_entries_that_count(desk: Desk) -> None:
    desk.world.outcomes(desk.world.message())
    wire_react(desk.world.app).run([(CLUSTER, KEY.node)])
    desk.world.ports.clock.advance(timedelta(hours=1))
    found = desk.json("sla", "--cluster", CLUSTER, "--since", "1d")
    assert found["eligible_ms"] == 3_600_000
    assert [one["node"] for one in found["outages"]] == [KEY.node]
    assert found["outages"][0]["began"]
    shown = desk("sla", "--cluster", CLUSTER, "--since", "1d")
    assert shown.code == 0
    assert "Lost to faults" in shown.out
    refused = desk("sla", "--cluster", CLUSTER, "--since", "2d", "--until", "3d")
    assert refused.code == 2

"""The receipt of a closed case is what the fleet lab computes for the same fault, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cases import ESCALATED_AT, OUT_OF_SERVICE, RELEASED, Case
from faultbridge.model.entries import Draft
from faultbridge.model.enums import EntryType, RepairAction, Resolution
from faultbridge.model.event_data import CaseStatusData
from faultbridge.model.nodes import NodeState
from tests.builders import NOON
from tests.lab.baselines import BASELINES, EKS, Baseline, BaselineFleet
from tests.lab.fault_process import HostFault
from tests.lab.fleet import Event, EventKind
from tests.lab.jobs import JobMix
from tests.lab.product.product_fleet import ProductFleet
from tests.lab.scenario import Physics, Scenario
from tests.lab.symptoms import CODES
from tests.lab.trace import HOUR
from tests.lab.traces import sample, scenario

KINDS = {code: kind for kind, code in CODES.items()}
IDLE = JobMix(shares=())


class OneFault(Scenario):
    """A fleet of five nodes (one is no more than 20 %) without jobs, to whose first node a test adds one fault."""

    def faults(self) -> tuple[HostFault, ...]:
        return ()

    def precursors(self) -> Iterator[tuple[float, HostFault]]:
        return iter(())


class EndingFaults(BaselineFleet):
    """A baseline in whose fleet a fault can end before its repair."""

    def end_report(self, node: int, kind: str, at: float) -> None:
        self.hosts.cured(self.host_of(node))
        super().end_report(node, kind, at)


def lab_loss(baseline: Baseline, case: Case, end: datetime) -> int:
    """Return the milliseconds of GPU time that the lab's fleet loses under a baseline to the fault of a case."""
    length = (end - case.marks["detected"]).total_seconds()
    launched = case.marks["awaiting"] - case.marks[RELEASED] if RELEASED in case.marks else timedelta()
    if launched <= timedelta():  # nothing was launched, or an earlier attempt waited for its successor
        launched = timedelta(minutes=5)
    operator = end - case.marks[ESCALATED_AT] if ESCALATED_AT in case.marks else timedelta(hours=4)
    physics = Physics(launch=launched.total_seconds(), operator=operator.total_seconds(), false_alarms=0)
    fleet = EndingFaults(OneFault(sample(), 5, 1, 30 * 24 * HOUR, 1, physics, IDLE), baseline)
    kind = KINDS.get(case.code, "alarm: not ready" if case.code.startswith("host.not") else "GPU")
    if OUT_OF_SERVICE in case.marks:
        fault = HostFault(0, 0.0, 0.0, kind)
        fleet.push(Event(0.0, EventKind.FAULT, host=0, fault=fault))
        verified = case.repair_action is RepairAction.VERIFY and ESCALATED_AT not in case.marks
        if case.resolution is Resolution.RECOVERED or verified:
            fleet.push(Event(length, EventKind.REPORT_END, host=0, text=kind))
    else:
        fleet.push(Event(0.0, EventKind.ALARM, 0, text=kind, length=length))
    lost = fleet.run().lost["node_down"]
    return round(lost * HOUR * 1000)


def closed_cases(one: Scenario) -> Iterator[tuple[Case, CaseStatusData, datetime]]:
    """Yield each case that a simulated fleet closes, with the data of its last event and its time."""
    found: list[tuple[Case, CaseStatusData, datetime]] = []

    def observer(at: datetime, state: NodeState, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            data = draft.data
            if draft.type is EntryType.CASE_STATUS and isinstance(data, CaseStatusData) and not data.to.live:
                assert state.case is not None
                found.append((state.case, data, at))

    ProductFleet(one, default_policy(), observer=observer, begin=NOON).run()
    yield from found


def compare(seeds: range, least: int) -> dict[str, int]:
    """Compare the receipts of the cases of simulated fleets with the lab; returns how many ended in which way."""
    ends: dict[str, int] = {}
    seen = 0
    for seed in seeds:
        for case, data, at in closed_cases(scenario(nodes=20, pool=10, days=60, seed=seed, false_alarms=20)):
            assert data.receipt is not None
            assert data.receipt.recorded == data.gpu_time_lost
            assert "lost_work" in data.receipt.unknown
            assert data.receipt.provider_repair == lab_loss(BASELINES[EKS], case, at), case
            assert data.receipt.no_automation == lab_loss(BASELINES["never-replace"], case, at), case
            ends[str(data.resolution)] = ends.get(str(data.resolution), 0) + 1
            seen += 1
        if seen >= least:
            break
    assert seen >= least
    return ends


def test_receipts_are_what_the_lab_computes() -> None:
    assert set(compare(range(1, 4), 30)) >= {"replaced", "recovered"}


@pytest.mark.nightly
@pytest.mark.timeout(3_000)
def test_a_thousand_receipts_are_what_the_lab_computes() -> None:
    ends = compare(range(1, 200), 1_000)
    assert set(ends) >= {"replaced", "repaired", "recovered"}

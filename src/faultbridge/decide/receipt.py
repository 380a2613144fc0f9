"""Receipt: the GPU time that a closed case cost, and what it would have cost under other rules of repair.

docs/service-level.md states the rules and their assumptions. The fleet lab of the tests simulates the same rules
independently, and a test compares the results case by case.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from faultbridge.model.cases import ESCALATED_AT, OUT_OF_SERVICE, RELEASED, Case, Phase
from faultbridge.model.enums import RepairAction, Resolution
from faultbridge.model.event_data import Receipt

PROVIDER_WAIT, PROVIDER_SOFT_WAIT = timedelta(minutes=10), timedelta(minutes=30)
"""How long EKS node auto repair waits: for accelerators, and for networks and nodes that do not respond."""

SOFT = ("net.", "host.silent", "host.not_ready", "host.unreachable")
"""The first part of the fault codes with the longer wait."""

ASSUMED_LAUNCH, ASSUMED_OPERATOR = timedelta(minutes=5), timedelta(hours=4)
"""How long the launch of an instance and the repair by an operator take, if the case recorded neither."""

UNFIXED = frozenset({Resolution.CANCELLED, Resolution.DRY_RUN, Resolution.RELEASED_NO_DEMAND, Resolution.RETIRED})
"""Results after which it is unknown how long the fault lasted."""

_MILLISECOND = timedelta(milliseconds=1)


def receipt(case: Case, recorded: int | None, end: datetime) -> Receipt:
    """Return the receipt of a case that closed at `end` and cost `recorded` GPU time; see `Receipt` for the values."""
    began = case.marks.get("detected")
    if began is None or case.resolution in UNFIXED or case.code.startswith("operator."):
        return Receipt(recorded=recorded, unknown=("fault", "lost_work"))
    replaced = (
        recorded if case.resolution is Resolution.EXTERNAL else _gpu_time(case, _under_provider(case, began, end))
    )
    return Receipt(
        recorded=recorded,
        provider_repair=replaced,
        no_automation=_gpu_time(case, _without_automation(case, began, end)),
        unknown=tuple(_unknown(case)),
    )


def _gpu_time(case: Case, span: timedelta) -> int | None:
    return None if case.gpus is None else case.gpus * (span // _MILLISECOND)


def _under_provider(case: Case, began: datetime, end: datetime) -> timedelta:
    """Return how long the node would not have worked if its provider had replaced each instance after its wait."""
    wait = PROVIDER_SOFT_WAIT if case.code.startswith(SOFT) else PROVIDER_WAIT
    stopped = OUT_OF_SERVICE in case.marks
    if _ended_by_itself(case) and end - began < wait:
        return end - began if stopped else timedelta()
    return (wait if stopped else timedelta()) + (_recorded_launch(case) or ASSUMED_LAUNCH)


def _without_automation(case: Case, began: datetime, end: datetime) -> timedelta:
    """Return how long the node would not have worked if an operator had repaired it after the report of the fault."""
    if OUT_OF_SERVICE not in case.marks:
        return timedelta()
    repair = _recorded_operator(case, end) or ASSUMED_OPERATOR
    return min(repair, end - began) if _ended_by_itself(case) else repair


def _ended_by_itself(case: Case) -> bool:
    """Return whether the fault ended without a repair: its reports ended, or diagnostics alone resolved the case."""
    only_verified = case.resolution is Resolution.REPAIRED and case.repair_action is RepairAction.VERIFY
    return case.resolution is Resolution.RECOVERED or (only_verified and ESCALATED_AT not in case.marks)


def _recorded_launch(case: Case) -> timedelta | None:
    released, running = case.marks.get(RELEASED), case.marks.get(Phase.AWAITING)
    return None if released is None or running is None or running <= released else running - released


def _recorded_operator(case: Case, end: datetime) -> timedelta | None:
    escalated = case.marks.get(ESCALATED_AT)
    return None if escalated is None or escalated >= end else end - escalated


def _unknown(case: Case) -> Iterator[str]:
    if case.gpus is None:
        yield "gpus"
    if case.resolution is not Resolution.EXTERNAL:
        yield "detection"
        if _recorded_launch(case) is None:
            yield "launch"
            if case.capacity_checks:
                yield "capacity"
    if ESCALATED_AT not in case.marks:
        yield "operator"
    yield "lost_work"

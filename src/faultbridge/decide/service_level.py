"""Service level: availability, repair times and credits of a period, as a function of the recorded entries alone.

docs/service-level.md defines every value. All times are integers of milliseconds, so that another program computes
exactly the same numbers; `examples/service-level/recompute.py` is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.event_data import CaseStatusData, EventData, NodeStatusData
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.times import EPOCH, to_text

NOTICE_MS = 24 * 3_600_000
"""An outage for maintenance is excluded if the maintenance was recorded at least this long before."""

PLANNED_MODES = frozenset({"provider.maintenance", "provider.retirement"})
REPAIR_CLASSES = ((900_000, "under_15m"), (3_600_000, "under_1h"), (14_400_000, "under_4h"), (86_400_000, "under_1d"))
"""Upper ends of the classes of repair times in milliseconds; longer outages are `over_1d`."""

CREDITS = ((990_000, 0), (950_000, 10), (900_000, 25))
"""The lowest availability in millionths for each credit in percent; below all of them it is 50."""

LOWEST_CREDIT = 50
IN_SERVICE = frozenset({NodeStatus.HEALTHY.value, NodeStatus.DEGRADED.value})

Why = Literal["fault", "maintenance", "customer"]


class Outage(Struct, frozen=True):
    """A time in which a delivered node was not in service, within the period; `end` is null while it lasts.

    `began` and `ended` are the ids of the entries that count.
    """

    node: str
    why: Why
    start: str
    end: str | None
    ms: int
    case_id: str | None
    began: str
    ended: str | None


class NodeLevel(Struct, frozen=True):
    """The milliseconds of a node in the period: in which it was delivered, excluded, and lost to faults."""

    node: str
    eligible_ms: int
    excluded_ms: int
    lost_ms: int


class ServiceLevel(Struct, frozen=True):
    """The service level of a cluster in a period, with the entries that count.

    `availability_ppm` is null if no node was delivered.
    """

    method: int
    cluster: str
    since: str
    until: str
    eligible_ms: int
    excluded_ms: int
    lost_ms: int
    availability_ppm: int | None
    credit_percent: int | None
    repair_times: dict[str, int]
    nodes: tuple[NodeLevel, ...]
    outages: tuple[Outage, ...]


class _Change(Struct, frozen=True):
    at: int
    status: str
    event_id: str
    actor: str
    case_id: str | None


def _ms(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


def _instant(ms: int) -> str:
    return to_text(EPOCH + timedelta(milliseconds=ms))


def service_level(
    cluster: str, events: Iterable[RecordedEvent[EventData | None]], since: datetime, until: datetime
) -> ServiceLevel:
    """Return the service level of a cluster from the entries that were recorded before `until`, in any order."""
    notices: dict[str, int] = {}
    changes: dict[str, list[_Change]] = {}
    for event in sorted(events, key=lambda one: (one.metadata.epoch, one.metadata.sequence)):
        data, of = event.data, event.metadata
        if isinstance(data, CaseStatusData) and data.from_ is None and data.cause.failure_mode in PLANNED_MODES:
            notices[str(of.case_id)] = _ms(data.detected_at or of.occurred_at)
        if isinstance(data, NodeStatusData) and of.node:
            before = changes.setdefault(of.node, [])
            at = max(_ms(of.occurred_at), before[-1].at if before else 0)
            before.append(_Change(at, str(data.to), of.event_id, str(of.recorded_by), of.case_id))
    period = _ms(since), _ms(until)
    found = [_of_node(node, listed, notices, period) for node, listed in sorted(changes.items())]
    nodes = tuple(one for one, _ in found if one.eligible_ms)
    outages = tuple(outage for _, listed in found for outage in listed)
    eligible, excluded, lost = (
        sum(getattr(one, name) for one in nodes) for name in ("eligible_ms", "excluded_ms", "lost_ms")
    )
    counted = eligible - excluded
    ppm = (counted - lost) * 1_000_000 // counted if counted else None
    return ServiceLevel(
        method=1,
        cluster=cluster,
        since=to_text(since),
        until=to_text(until),
        eligible_ms=eligible,
        excluded_ms=excluded,
        lost_ms=lost,
        availability_ppm=ppm,
        credit_percent=None if ppm is None else next((c for least, c in CREDITS if ppm >= least), LOWEST_CREDIT),
        repair_times=dict(sorted(Counter(map(_class, (one for one in outages if one.why == "fault"))).items())),
        nodes=nodes,
        outages=outages,
    )


def _class(outage: Outage) -> str:
    if outage.end is None:
        return "open"
    return next((name for limit, name in REPAIR_CLASSES if outage.ms < limit), "over_1d")


def _of_node(
    node: str, changes: list[_Change], notices: Mapping[str, int], period: tuple[int, int]
) -> tuple[NodeLevel, list[Outage]]:
    """Return the milliseconds and outages of one node; a node is delivered from its first service to its removal."""
    since, until = period
    eligible, outages = 0, []
    delivered = False
    began: _Change | None = None
    ends = [*changes[1:], None]
    for change, following in zip(changes, ends, strict=True):
        delivered = change.status in IN_SERVICE or (delivered and change.status != NodeStatus.RETIRED)
        end = following.at if following else until
        eligible += max(0, min(end, until) - max(change.at, since)) if delivered else 0
        if change.status in IN_SERVICE or not delivered:
            began = None
            continue
        began = began or change
        over = following is None or following.status in IN_SERVICE or following.status == NodeStatus.RETIRED
        if over and min(end, until) > max(began.at, since):
            outages.append(_outage(node, began, following if end < until else None, notices, period))
    lost = sum(one.ms for one in outages if one.why == "fault")
    excluded = sum(one.ms for one in outages) - lost
    return NodeLevel(node, eligible, excluded, lost), outages


def _outage(
    node: str, began: _Change, ended: _Change | None, notices: Mapping[str, int], period: tuple[int, int]
) -> Outage:
    start, end = max(began.at, period[0]), min(ended.at if ended else period[1], period[1])
    notice = notices.get(str(began.case_id))
    why: Why = "fault"
    if began.actor == Actor.CLI:
        why = "customer"
    elif notice is not None and began.at - notice >= NOTICE_MS:
        why = "maintenance"
    stopped = _instant(end) if ended else None
    return Outage(
        node,
        why,
        _instant(start),
        stopped,
        end - start,
        began.case_id,
        began.event_id,
        ended.event_id if ended else None,
    )

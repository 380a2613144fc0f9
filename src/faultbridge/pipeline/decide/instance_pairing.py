"""Pair: which of a group's machines sit in which of its nodes, and which are to sit somewhere.

A node under repair finds its own successor: as many of the youngest machines are left to such nodes as there are of
them, because a successor is launched after its predecessor was given up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A node whose machine is not there: `proven` when it is gone for good, `held` while a repair is at work on it."""

    node: str
    zone: str | None = None
    slot: str | None = None
    proven: bool = True
    held: bool = False

    @property
    def open(self) -> bool:
        """Tell whether the inventory may fill it."""
        return self.proven and not self.held


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A machine in service that sits in no node."""

    instance_id: str
    launched_at: datetime | None = None
    zone: str | None = None
    slot: str | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Seats that get a machine, machines that make a new node, machines that are left to repairs or to doubt."""

    seated: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def pair(vacancies: Collection[Vacancy], newcomers: Iterable[Newcomer]) -> Pairing:
    """Pair the vacancies of one group with its newcomers: by the provider's own slot, else by zone, oldest first."""
    by_age = sorted(newcomers, key=lambda one: (one.launched_at or _LONG_AGO, one.instance_id))
    slotted = _by_slot({one.slot: one for one in vacancies if one.slot}, [one for one in by_age if one.slot])
    free = _by_age(
        sorted((one for one in vacancies if not one.slot), key=lambda one: one.node),
        [one for one in by_age if not one.slot],
    )
    return Pairing(slotted.seated + free.seated, slotted.added + free.added, slotted.waiting + free.waiting)


def _by_slot(vacancies: Mapping[str | None, Vacancy], newcomers: Iterable[Newcomer]) -> Pairing:
    seated: list[tuple[str, str]] = []
    added: list[str] = []
    waiting: list[str] = []
    for newcomer in newcomers:
        placement = vacancies.get(newcomer.slot)
        if placement is None:
            added.append(newcomer.instance_id)
        elif placement.open:
            seated.append((placement.node, newcomer.instance_id))
        else:
            waiting.append(newcomer.instance_id)
    return Pairing(tuple(seated), tuple(added), tuple(waiting))


def _by_age(vacancies: Sequence[Vacancy], newcomers: Sequence[Newcomer]) -> Pairing:
    kept = sum(1 for placement in vacancies if not placement.open)
    offered, left = list(newcomers[: max(len(newcomers) - kept, 0)]), newcomers[max(len(newcomers) - kept, 0) :]
    seated: list[tuple[str, str]] = []
    for placement in vacancies:
        if placement.open and offered:
            chosen = next((one for one in offered if placement.zone and one.zone == placement.zone), offered[0])
            offered.remove(chosen)
            seated.append((placement.node, chosen.instance_id))
    added = tuple(one.instance_id for one in offered)
    return Pairing(tuple(seated), added, tuple(one.instance_id for one in left))

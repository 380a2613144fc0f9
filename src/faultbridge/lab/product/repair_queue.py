"""Repair queue: the queued cases of a fleet in memory; admission gets only the cases that it needs.

Admission decides for each queued case whether its repair starts now or is refused with a reason, such as no free slot.
The cases are grouped in classes. The cases of one class differ only in their position in the queue: if admission
refuses one of them, it refuses all later ones for the same reason. Admission therefore gets only this number of cases
from the start of each class:

- As many cases as there are free repair slots, and one more, whose reason for refusal applies to all later cases.
- `MAX_PICKS` more, if the repair action of the class needs no slot.
- `MAX_REFUSALS` more, if the refusal of any of these cases of the class is not yet recorded. One run of
  dispatch records at most this number.

There are two exceptions. Admission gets a whole class if its policy rule only reports planned repairs (`dry_run`),
because one run ends all cases of such a rule. It gets the whole queue if the queue has at most 30 cases.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from faultbridge.domain.cluster.state import Control, QueuedCase
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.policy import Policy
from faultbridge.pipeline.decide.admit import MAX_PICKS, admit, recent_starts
from faultbridge.repair.queued_cases import MAX_REFUSALS

Place = tuple[int, datetime, str]
SMALL = 30
"""Admission gets the whole queue if it has at most this number of cases."""


class _Question(NamedTuple):
    """The inputs from which the cases for admission are chosen.

    If no input has changed, the earlier choice is used again. `changes` is how often the queue has changed so far.
    `excluded` are the ids of cases that are not chosen.
    """

    changes: int
    control: Control
    policy: Policy
    now: datetime
    excluded: frozenset[str]


class _Shown(NamedTuple):
    """The cases that admission gets for one set of inputs (`question`).

    `recorded` is True if all refusals of these cases are already recorded.
    """

    question: _Question
    cases: list[QueuedCase]
    recorded: bool = False

    def answers(self, question: _Question) -> bool:
        mine = self.question
        if mine.control is not question.control or mine.policy is not question.policy:
            return False
        return (mine.changes, mine.now, mine.excluded) == (question.changes, question.now, question.excluded)


class RepairQueue:
    """The queued cases by node, grouped in classes of cases that admission treats alike.

    The cases of a class are in the order in which admission will take them.
    """

    def __init__(self) -> None:
        """Start with an empty queue."""
        self._cases: dict[NodeKey, QueuedCase] = {}
        self._class_of: dict[NodeKey, Hashable] = {}
        self._classes: dict[Hashable, list[tuple[Place, NodeKey]]] = defaultdict(list)
        self._delayed: list[tuple[datetime, NodeKey]] = []
        self._shown: _Shown | None = None
        self.changes = 0

    def __bool__(self) -> bool:
        """Return whether any case is queued."""
        return bool(self._cases)

    def __len__(self) -> int:
        """Return the number of queued cases."""
        return len(self._cases)

    def put(self, queued: QueuedCase) -> None:
        """Add a queued case; it replaces an earlier queued case of the same node."""
        self.remove(queued.key)
        self.changes += 1
        self._cases[queued.key] = queued
        if queued.not_before is not None:
            heapq.heappush(self._delayed, (queued.not_before, queued.key))
        self._sort_in(queued, delayed=queued.not_before is not None)

    def remove(self, key: NodeKey) -> None:
        """Remove the queued case of a node; nothing happens if it has none."""
        queued = self._cases.pop(key, None)
        if queued is not None:
            self.changes += 1
            self._sort_out(queued)

    def unrecorded(self, control: Control, policy: Policy, now: datetime) -> bool:
        """Return whether admission would refuse a queued case with a reason that is not yet recorded."""
        shown = self._show(control, policy, now, ())
        return not shown.recorded and any(_unrecorded(control, policy, shown.cases, now))

    def next_delayed(self, now: datetime) -> datetime | None:
        """Return the next time after `now` at which the waiting period of a case may end.

        Returns None if no case has a waiting period.
        """
        self._end_delays(now)
        return self._delayed[0][0] if self._delayed else None

    def shown_to(
        self, control: Control, policy: Policy, now: datetime, excluded: Collection[str] = ()
    ) -> list[QueuedCase]:
        """Return the queued cases to pass to admission: all of a small queue, else the first of each class.

        With these cases, admission decides the same as with the whole queue. Cases with an id in `excluded` are
        omitted.
        """
        return self._show(control, policy, now, excluded).cases

    def _show(self, control: Control, policy: Policy, now: datetime, excluded: Collection[str]) -> _Shown:
        question = _Question(self.changes, control, policy, now, frozenset(excluded))
        if self._shown is None or not self._shown.answers(question):
            self._end_delays(now)
            self._shown = self._choose(question)
        return self._shown

    def _choose(self, question: _Question) -> _Shown:
        _, control, policy, now, excluded = question
        if len(self._cases) <= SMALL:
            return _Shown(question, [queued for queued in self._cases.values() if queued.case not in excluded])
        limits = policy.limits
        started = sum(1 for _ in recent_starts(control, now))
        free = max(0, min(limits.concurrent - len(control.holders), limits.per_hour - started, MAX_PICKS))
        first = list(self._first(1 + free, policy, excluded))
        unrecorded = {self._class_of[one.key] for one in _unrecorded(control, policy, first, now)}
        if not unrecorded:
            return _Shown(question, first, recorded=True)
        return _Shown(question, list(self._first(1 + free, policy, excluded, unrecorded)))

    def _first(
        self, slots: int, policy: Policy, excluded: Collection[str], unrecorded: Collection[Hashable] = ()
    ) -> Iterator[QueuedCase]:
        for kind, places in self._classes.items():
            one = self._cases[places[0][1]]
            wanted = slots if one.repair_action.needs_slot else slots + MAX_PICKS
            wanted += MAX_REFUSALS if kind in unrecorded else 0
            # Dispatch itself ends the cases of rules that only report, all at once.
            number = len(places) if policy.rule_named(one.rule).dry_run else wanted
            cases = (self._cases[key] for _, key in places)
            yield from islice((queued for queued in cases if queued.case not in excluded), number)

    def _end_delays(self, now: datetime) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            until, key = heapq.heappop(self._delayed)
            queued = self._cases.get(key)
            if queued is not None and queued.not_before == until:
                self._sort_out(queued)
                self._sort_in(queued, delayed=False)

    def _sort_in(self, queued: QueuedCase, *, delayed: bool) -> None:
        kind = (
            delayed, queued.repair_action, queued.rule, queued.domain, queued.domains, queued.families, queued.group,
            queued.approved, queued.approval_pending, queued.waiting_for, queued.reason,
        )  # fmt: skip
        self._class_of[queued.key] = kind
        insort(self._classes[kind], (_place(queued), queued.key))

    def _sort_out(self, queued: QueuedCase) -> None:
        kind = self._class_of.pop(queued.key)
        places = self._classes[kind]
        del places[bisect_left(places, (_place(queued), queued.key))]
        if not places:
            del self._classes[kind]


def _unrecorded(control: Control, policy: Policy, shown: list[QueuedCase], now: datetime) -> Iterator[QueuedCase]:
    return (one.queued for one in admit(control, policy, shown, now).refusals if not one.recorded)


def _place(queued: QueuedCase) -> Place:
    return queued.priority, queued.since, queued.case

"""Repair queue: the queued cases of a fleet in memory; admission gets only the cases that it needs.

Admission decides for each queued case whether its repair starts now or is refused with a reason, such as no free slot.
The cases are grouped in classes. The cases of one class differ only in their position in the queue: if admission
refuses one of them, it refuses all later ones for the same reason. Admission therefore gets only this number of cases
from the start of each class:

- As many cases as there are free repair slots, and one more, whose reason for refusal applies to all later cases.
- `MAX_PICKS` more, if the repair action of the class needs no slot.
- `MAX_REFUSALS` more, if the refusal of any of these cases of the class is not yet recorded. One run of
  dispatch records at most this number.

There are four exceptions. Admission gets a whole class if its policy rule only reports planned repairs (`dry_run`),
because one run ends all cases of such a rule, and if its nodes need a permit of the isolation budget, whose answer
differs between them. It gets the case of each node without an instance, and the whole queue if the queue has at most 30
cases.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from faultbridge.decide.admit import MAX_PICKS, admit, recent_starts, urgency
from faultbridge.decide.isolation_budget import IsolationUse
from faultbridge.model.cluster.state import Control
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Policy
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.repair.dispatch import MAX_REFUSALS

Place = tuple[int, bool, datetime, str]
SMALL = 30
"""Admission gets the whole queue if it has at most this number of cases."""


class _Question(NamedTuple):
    """The inputs from which the cases for admission are chosen.

    If no input has changed, the earlier choice is used again. `changes` is how often the queue has changed so far.
    `excluded` are the ids of cases that are not chosen. `use` is the use of the isolation budget; None if no case needs
    it.
    """

    changes: int
    control: Control
    policy: Policy
    now: datetime
    excluded: frozenset[str]
    use: IsolationUse | None = None


class _Shown(NamedTuple):
    """The cases that admission gets for one set of inputs (`question`).

    `recorded` is True if all refusals of these cases are already recorded.
    """

    question: _Question
    cases: list[QueuedCase]
    recorded: bool = False

    def answers(self, question: _Question) -> bool:
        mine = self.question
        if mine.control is not question.control or mine.policy is not question.policy or mine.use != question.use:
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
        self._budgeted: set[NodeKey] = set()
        self.changes = 0

    def __bool__(self) -> bool:
        """Return whether any case is queued."""
        return bool(self._cases)

    def __len__(self) -> int:
        """Return the number of queued cases."""
        return len(self._cases)

    def put(self, queued: QueuedCase) -> None:
        """Add a queued case; it replaces an earlier queued case of the same node."""
        if self._cases.get(queued.key) == queued:
            return
        self.remove(queued.key)
        self.changes += 1
        self._cases[queued.key] = queued
        if queued.needs_permit or queued.lost:
            self._budgeted.add(queued.key)
        if queued.not_before is not None:
            heapq.heappush(self._delayed, (queued.not_before, queued.key))
        self._sort_in(queued, delayed=queued.not_before is not None)

    def remove(self, key: NodeKey) -> None:
        """Remove the queued case of a node; nothing happens if it has none."""
        queued = self._cases.pop(key, None)
        if queued is not None:
            self.changes += 1
            self._budgeted.discard(key)
            self._sort_out(queued)

    def budgeted(self) -> Iterator[QueuedCase]:
        """Return the queued cases for which dispatch measures the isolation budget."""
        return (self._cases[key] for key in self._budgeted)

    def unrecorded(self, control: Control, policy: Policy, now: datetime, use: IsolationUse | None = None) -> bool:
        """Return whether admission would refuse a queued case with a reason that is not yet recorded."""
        shown = self._show(_Question(self.changes, control, policy, now, frozenset(), use))
        return not shown.recorded and any(_unrecorded(shown.question, shown.cases))

    def next_delayed(self, now: datetime) -> datetime | None:
        """Return the next time after `now` at which the waiting period of a case may end.

        Returns None if no case has a waiting period.
        """
        self._end_delays(now)
        return self._delayed[0][0] if self._delayed else None

    def shown_to(
        self,
        control: Control,
        policy: Policy,
        now: datetime,
        excluded: Collection[str] = (),
        use: IsolationUse | None = None,
    ) -> list[QueuedCase]:
        """Return the queued cases to pass to admission: all of a small queue, else the first of each class.

        With these cases, admission decides the same as with the whole queue. Cases with an id in `excluded` are
        omitted.
        """
        return self._show(_Question(self.changes, control, policy, now, frozenset(excluded), use)).cases

    def _show(self, question: _Question) -> _Shown:
        if self._shown is None or not self._shown.answers(question):
            self._end_delays(question.now)
            self._shown = self._choose(question)
        return self._shown

    def _choose(self, question: _Question) -> _Shown:
        control, limits, excluded = question.control, question.policy.limits, question.excluded
        if len(self._cases) <= SMALL:
            return _Shown(question, [queued for queued in self._cases.values() if queued.case not in excluded])
        started = sum(1 for _ in recent_starts(control, question.now))
        waiting = {vacancy.case for vacancy in control.vacancies}
        held = sum(case not in waiting for case in control.holders)
        free = max(0, min(limits.concurrent - held, limits.per_hour - started, MAX_PICKS))
        first = self._first(1 + free, question)
        unrecorded = {self._class_of[one.key] for one in _unrecorded(question, first)}
        if not unrecorded:
            return _Shown(question, first, recorded=True)
        return _Shown(question, self._first(1 + free, question, unrecorded))

    def _first(self, slots: int, question: _Question, unrecorded: Collection[Hashable] = ()) -> list[QueuedCase]:
        policy, excluded = question.policy, question.excluded
        chosen = dict[NodeKey, QueuedCase]()
        for kind, places in self._classes.items():
            one = self._cases[places[0][1]]
            wanted = slots if one.repair_action.needs_slot else slots + MAX_PICKS
            wanted += MAX_REFUSALS if kind in unrecorded else 0
            # Dispatch itself ends the cases of rules that only report, all at once.
            whole = policy.rule_named(one.rule).dry_run or (one.needs_permit and question.use is not None)
            cases = (self._cases[key] for _, key in places)
            shown = (queued for queued in cases if queued.case not in excluded)
            chosen.update((queued.key, queued) for queued in islice(shown, None if whole else wanted))
        vacant = {vacancy.node for vacancy in question.control.vacancies}
        if vacant:
            own = (queued for key, queued in self._cases.items() if key.node in vacant)
            chosen.update((queued.key, queued) for queued in own if queued.case not in excluded)
        return list(chosen.values())

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
            queued.approved, queued.approval_pending, queued.waiting_for, queued.reason, queued.needs_permit,
        )  # fmt: skip
        self._class_of[queued.key] = kind
        insort(self._classes[kind], (_place(queued), queued.key))

    def _sort_out(self, queued: QueuedCase) -> None:
        kind = self._class_of.pop(queued.key)
        places = self._classes[kind]
        del places[bisect_left(places, (_place(queued), queued.key))]
        if not places:
            del self._classes[kind]


def _unrecorded(question: _Question, shown: list[QueuedCase]) -> Iterator[QueuedCase]:
    refusals = admit(question.control, question.policy, shown, question.now, use=question.use).refusals
    return (one.queued for one in refusals if not one.recorded)


def _place(queued: QueuedCase) -> Place:
    return urgency(queued)

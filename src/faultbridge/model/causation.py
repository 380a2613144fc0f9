"""Causation: gives each timeline entry of a node the id of the event or record that caused it.

An entry that names its own cause, such as the raw record of a fault, keeps that cause. All other entries follow these
rules:

- The entry that opens a case is caused by the fault that the case is about.
- The entry with which an incident absorbs or releases a case (the case starts or stops waiting) is caused by the latest
  event of the incident. For this entry, a reader must also follow the previous entry of the case (`continues_case`).
- Any other entry of a case is caused by the previous entry of the case. The chain of a case therefore leads from its
  first fault to its last entry.
- An entry about a fault that changed without a record is caused by the last entry in the same commit that is not about
  a fault, else by the detection of the fault.
- Any other entry is caused by the previous entry in the same commit, else by the node's last status change. If an actor
  in `STARTS_CHAINS`, such as an operator, makes the commit, an entry without a previous entry has no cause.

The ids that later commits need are stored in the node's state, so a retry and another process give the same cause.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from faultbridge.model.entries import FAULT_TYPES, Draft, EntryMetadata, Stream
from faultbridge.model.enums import Actor, EntryType
from faultbridge.model.nodes import CaseEvent, NodeState
from faultbridge.model.values import replace

STARTS_CHAINS = frozenset({Actor.CLI, Actor.INVENTORY, Actor.ARCHIVE})
"""Actors whose entries may start a chain: they act on an order, a schedule or a change outside Faultbridge."""


def continues_case(event: EntryMetadata, cause: EntryMetadata) -> bool:
    """Return whether a search for the causes of an event must include the previous entry of its case.

    The result is True if `event` belongs to a case and its `cause` is an event of an incident. The causes of that
    incident do not lead to the first fault of the case, but the previous entry of the case does.
    """
    return event.case_id is not None and cause.event_type == EntryType.CLUSTER_INCIDENT


def moved_by(drafts: Iterable[Draft], cause: str | None) -> tuple[Draft, ...]:
    """Return these drafts, with `cause` as the cause of the first draft that changes the status of a case.

    `cause` is the id of an event. The other drafts are not changed: those after the status change are consequences of
    the status change. If `cause` is None, or if no draft changes the status of a case, no draft is changed.
    """
    named = list(drafts)
    first = next((place for place, draft in enumerate(named) if draft.type is EntryType.CASE_STATUS), None)
    if first is not None and cause is not None:
        named[first] = replace(named[first], causation_id=cause)
    return tuple(named)


def name_causes(
    before: NodeState, after: NodeState, drafts: Iterable[Draft], stream: Stream, actor: Actor
) -> tuple[NodeState, tuple[Draft, ...]]:
    """Set the cause of each draft entry: the id of the event or raw record that caused it, or None.

    Returns two values: `after` with the event ids that later commits need as causes, and the drafts with their causes.
    A cause that a draft already names is kept.
    """
    drafts = tuple(drafts)
    if not drafts:
        return after, ()
    causes = _Causes.of(before, after, starts_chains=actor in STARTS_CHAINS)
    named: list[Draft] = []
    for sequence, draft in enumerate(drafts, before.head.sequence + 1):
        named.append(replace(draft, causation_id=draft.causation_id or causes.cause_of(draft)))
        causes.add(draft, stream.event_id(before.head.epoch, sequence))
    return causes.stored_in(after), tuple(named)


class _Causes(Struct):
    """The events that the next entry can name as its cause, from earlier commits and from this commit."""

    starts_chains: bool
    last_in_case: dict[str, str]
    status: str | None
    faults: dict[str, str] = field(default_factory=dict)
    detected: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    last: str | None = None
    last_action: str | None = None

    @classmethod
    def of(cls, before: NodeState, after: NodeState, *, starts_chains: bool) -> _Causes:
        """Return the possible causes before the first entry of a commit: the event ids in the node's state.

        `starts_chains` is used if the first entry of the commit is about neither a fault nor a case. If it is True,
        this entry has no cause, because it starts a new chain of causes. If it is False, the cause of this entry is
        the last status change of the node.
        """
        conditions = (*before.conditions.items(), *after.conditions.items())
        known = {key: one.event_id for key, one in conditions if one.event_id}
        last_in_case = dict([before.case_event] if before.case_event else ())
        return cls(starts_chains, last_in_case, before.status_event, known)

    def cause_of(self, draft: Draft) -> str | None:
        if draft.type in FAULT_TYPES:
            return self.last_action or self.faults.get(draft.subject or "")
        if draft.case_id is not None:
            opened_for = self.faults.get(draft.subject or "")
            return self.last_in_case.get(draft.case_id) or opened_for or self.last
        return self.last or (None if self.starts_chains else self.status)

    def add(self, draft: Draft, event_id: str) -> None:
        self.last = event_id
        if draft.type in FAULT_TYPES:
            self._add_fault(draft, event_id)
            return
        self.last_action = event_id
        if draft.case_id is not None:
            self.last_in_case[draft.case_id] = event_id
        if draft.type is EntryType.NODE_STATUS:
            self.status = event_id

    def _add_fault(self, draft: Draft, event_id: str) -> None:
        """Make a new fault available as a cause of the following entries.

        The condition key of a fault changes when its device is identified, so the fault is also available under the new
        key.
        """
        if not draft.subject:
            return
        mode = draft.subject.partition("@")[0]
        if draft.type is EntryType.FAULT_DETECTED:
            self.modes[mode] = event_id
            self.faults[draft.subject] = self.detected[draft.subject] = event_id
        elif draft.subject not in self.faults and mode in self.modes:
            self.faults[draft.subject] = self.detected[draft.subject] = self.modes[mode]

    def stored_in(self, state: NodeState) -> NodeState:
        conditions = {
            key: replace(one, event_id=self.detected[key]) if key in self.detected else one
            for key, one in state.conditions.items()
        }
        case = state.case.id if state.case else None
        last = self.last_in_case.get(case) if case else None
        return replace(
            state,
            conditions=conditions if self.detected else state.conditions,
            case_event=CaseEvent(case, last) if case and last else None,
            status_event=self.status,
        )

"""Facts: rebuilds the recorded conditions, placements and operator orders of nodes from entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.backtest.record import Commit, Event
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.conditions import Condition, Reporter, condition_key, counted_at
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.entries import FAULT_TYPES, EntryType
from faultbridge.domain.faults import Action, Component, Severity, read_component
from faultbridge.domain.nodes import Ignored, Incarnation, Isolation, NodeState, Placement
from faultbridge.domain.policy import Policy
from faultbridge.domain.times import from_text
from faultbridge.pipeline.fold.changes import Change, ChangeKind

_KINDS = {
    EntryType.FAULT_DETECTED.value: ChangeKind.BEGAN,
    EntryType.FAULT_UPDATED.value: ChangeKind.UPDATED,
    EntryType.FAULT_CLEARED.value: ChangeKind.ENDED,
}
_FAULTS = frozenset(one.value for one in FAULT_TYPES)


@dataclass(slots=True)
class FactReader:
    """Rebuilds the conditions of nodes from entries; `policies` are the known policies by version.

    An entry has the severity and the action of a fault after a policy rule was applied. The reported severity and the
    reported action, from before the rule, are rebuilt:

    - If the rule sets the value, the value of the catalog is assumed.
    - If the rule does not set the value, or the policy is not known, the value of the entry is used.

    `guessed` has the ids of the entries whose rule sets a value or whose policy is not known. Their reported values are
    uncertain.
    """

    catalog: Catalog
    policies: Mapping[str, Policy]
    guessed: set[str] = field(default_factory=set)

    def changes(self, state: NodeState, commit: Commit) -> tuple[tuple[Change, ...], dict[str, Condition]]:
        """Return the changes of a node's conditions in a commit, and all conditions of the node after it."""
        after = dict(state.conditions)
        changes = []
        for event in commit.events:
            metadata, data = event["metadata"], event["data"]
            if metadata["event_type"] not in _FAULTS:
                continue
            kind, at = _KINDS[metadata["event_type"]], from_text(data["observed_at"])
            component = read_component(data["component"])
            key = condition_key(data["code"], component)
            condition = self._condition(event, component, after.get(key), at)
            if kind is ChangeKind.ENDED:
                after.pop(key, None)
            else:
                _forget_renamed(after, key, condition)
                after[key] = condition
            reason = data["reason"] or ""
            changes.append(Change(kind, at, condition, None, None, reason, tuple(data["changed"])))
        return tuple(changes), after

    def _condition(self, event: Event, component: Component, before: Condition | None, at: datetime) -> Condition:
        data = event["data"]
        code, count = data["code"], data["count"]
        row = self.catalog.row(code)
        policy = self.policies.get(data["policy"])
        rule = policy.rule_named(data["rule"]) if policy else None
        severity, action = Severity(data["severity"]), Action(data["action"])
        if policy is None or (rule is not None and (rule.severity or rule.action)):
            self.guessed.add(event["metadata"]["event_id"])
        reported_severity = row.severity if rule and rule.severity else severity
        reported_action = row.action if rule and rule.action else action
        seen = max(count - before.count, 0) if before else count
        return Condition(
            code=code,
            component=component,
            severity=severity,
            action=action,
            scope=row.scope,
            ends_on=row.ends_on,
            since=from_text(data["since"]),
            last_at=max(at, before.last_at) if before else at,
            message=data["message"],
            count=count,
            known_incarnation=data["incarnation"] is not None,
            reporters={name: Reporter(True, at) for name in data["reporters"]},
            reported_severity=reported_severity,
            reported_action=reported_action,
            hours=counted_at(before.hours if before else {}, at, seen) if seen else (before.hours if before else {}),
            family=row.family,
        )


def _forget_renamed(conditions: dict[str, Condition], key: str, condition: Condition) -> None:
    """Remove the condition that `condition` replaces because the device of the fault is now identified.

    The replaced condition has another key than `key`, but the same code, start time and component type as `condition`.
    Nothing is removed if `key` already exists.
    """
    if key in conditions:
        return
    same = [name for name, one in conditions.items() if (one.code, one.since) == (condition.code, condition.since)]
    for name in same:
        if conditions[name].component.type is condition.component.type:
            del conditions[name]


def placed(state: NodeState, commit: Commit) -> NodeState:
    """Return a node with the placement and instance that a commit records, and ignored if it records so.

    The operator orders `ignore` and `heed` determine whether the node is ignored.
    """
    for event in commit.events:
        data = event["data"]
        if data.get("placement"):
            state = replace(state, placement=_placement(data["placement"]))
        if event["metadata"]["event_type"] == EntryType.NODE_STATUS.value:
            incarnation = data["incarnation"]
            state = replace(state, incarnation=_incarnation(incarnation, commit.at) if incarnation else None)
        if event["metadata"]["event_type"] == EntryType.NOTE.value and data["kind"] == "operator":
            state = _ordered(state, str(data["facts"].get("order", "")), commit.at)
    return state


def _ordered(state: NodeState, order: str, at: datetime) -> NodeState:
    if order == "ignore":
        # The end of the order is not recorded; `heed` or a case that the record opens ends it.
        return replace(state, ignored=Ignored("operator", at))
    return replace(state, ignored=None) if order == "heed" else state


def in_status(state: NodeState, commit: Commit) -> NodeState:
    """Return a node with the status and the isolation that a commit records.

    A node that enters service from validation is returned as not isolated.
    """
    for event in commit.of_type(EntryType.NODE_STATUS):
        data = event["data"]
        state = replace(state, status=NodeStatus(data["to"]), isolation=Isolation(data["isolation"]))
        if state.status is not None and state.status.in_service and data["from"] == NodeStatus.VALIDATING.value:
            state = replace(state, isolation=Isolation.NONE)
    return state


def _placement(data: Event) -> Placement:
    return Placement(group=data["group"], instance_type=data["instance_type"], domain=data["domain"])


def _incarnation(data: Event, at: datetime) -> Incarnation:
    return Incarnation(data["instance"], data["boot"], data["instance_id"], None, at)

"""Policy: declarative rules that say what a condition means for the node, and the limits of what may be done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.domain.breakers import BreakerLimit
from faultbridge.domain.cases import REPAIR_ACTION_OF, RepairAction
from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Action, ComponentType, Severity
from faultbridge.domain.windows import Window


@dataclass(frozen=True, slots=True)
class Match:
    """Which conditions a rule is about; an empty field matches all. `codes` are shell patterns (`xid.*`).

    `count` is how often a condition must have been observed within `hours` hours (1 to 24) up to its last observation.
    """

    codes: tuple[str, ...] = ()
    severities: tuple[Severity, ...] = ()
    actions: tuple[Action, ...] = ()
    components: tuple[ComponentType, ...] = ()
    clusters: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    count: int = 1
    hours: int = 24

    def covers(self, condition: Condition, cluster: str, instance_type: str | None = None) -> bool:
        """Tell whether the rule is about this condition of a node of this type in this cluster."""
        return (
            (not self.codes or _any(condition.code, self.codes))
            and (not self.severities or condition.severity in self.severities)
            and (not self.actions or condition.action in self.actions)
            and (not self.components or condition.component.type in self.components)
            and (not self.clusters or _any(cluster, self.clusters))
            and (not self.sources or not condition.sources.isdisjoint(self.sources))
            and (not self.instance_types or _any(instance_type or "", self.instance_types))
            and (self.count == 1 or condition.counted_within(self.hours) >= self.count)
        )

    def awaits(self, condition: Condition, at: datetime) -> bool:
        """Tell whether the rule may be about this condition once it was observed more often than it was by `at`."""
        if self.count == 1 or (self.codes and not _any(condition.code, self.codes)):
            return False
        return replace(condition, last_at=at).counted_within(self.hours) < self.count


def _any(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


class OrchestratorUnreachable(StrEnum):
    """What a repair does while the node's orchestrator does not answer."""

    HOLD = "hold"
    PROCEED = "proceed"


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do about the conditions it matches; the first rule that matches decides.

    `wait_seconds` is the time a case stays open before it may be queued; `severity`, `action` and `repair_action` override
    the catalog's when given. `repair_actions` holds the repair actions that may be used, mildest first; those in `approval` begin
    only when a person said so within `approval_deadline`, and with `windows` only while one of them is open.
    Only a rule with `release_without_capacity` lets an unusable instance go although nothing proves that there is another; by
    any other a person is asked. `dry_run` only says what would have been done. An orchestrator that does not answer
    is waited for, unless `orchestrator_unreachable` says to proceed and a cloud reporter proves the machine dead.
    """

    name: str
    match: Match = Match()
    severity: Severity | None = None
    action: Action | None = None
    isolate: bool = True
    wait_seconds: int = 0
    repair_actions: tuple[RepairAction, ...] = (
        RepairAction.VERIFY,
        RepairAction.RESET_GPU,
        RepairAction.REBOOT_NODE,
        RepairAction.REPLACE_NODE,
    )
    verify_level: int | None = None
    approval: tuple[RepairAction, ...] = ()
    approval_deadline: timedelta = timedelta(hours=24)
    windows: tuple[Window, ...] = ()
    release_without_capacity: bool = False
    orchestrator_unreachable: OrchestratorUnreachable = OrchestratorUnreachable.HOLD
    dry_run: bool = False

    def repair_action(self, action: Action) -> RepairAction | None:
        """Return the mildest permitted repair action that is at least what the action asks for, or None: a person must act."""
        wanted = REPAIR_ACTION_OF.get(action)
        if wanted is None:
            return None
        order = list(RepairAction)
        return next(
            (
                repair_action
                for repair_action in self.repair_actions
                if order.index(repair_action) >= order.index(wanted)
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be done at once, how old a fault may be and still count, how long a heartbeat may stay away."""

    concurrent: int = 2
    per_hour: int = 20
    attempts: int = 3
    act_within: timedelta = timedelta(hours=1)
    remember_for: timedelta = timedelta(days=16)
    heartbeat_timeout: timedelta = timedelta(minutes=5)
    drain_deadline: timedelta = timedelta(minutes=30)
    orchestrator_timeout: timedelta = timedelta(minutes=10)
    repair_deadline: timedelta = timedelta(minutes=30)
    follow_deadline: timedelta = timedelta(hours=1)
    launch_deadline: timedelta = timedelta(hours=8)
    verify_deadline: timedelta = timedelta(hours=2)
    verify_level: int = 3


_EVERYTHING = Rule("default")


@dataclass(frozen=True, slots=True)
class Policy:
    """One immutable version of the rules; `version` is the hash of its document."""

    version: str
    rules: tuple[Rule, ...] = ()
    limits: Limits = Limits()
    breakers: tuple[BreakerLimit, ...] = ()

    def rule_for(self, condition: Condition, cluster: str, instance_type: str | None = None) -> Rule:
        """Return the first rule that matches, or the one that leaves all to the catalog."""
        told = condition.as_reported
        matching = (rule for rule in self.rules if rule.match.covers(told, cluster, instance_type))
        return next(matching, _EVERYTHING)

    def counts(self, condition: Condition, at: datetime) -> bool:
        """Tell whether some rule asks how often such a condition was observed and had not seen enough by an instant."""
        return any(rule.match.awaits(condition, at) for rule in self.rules)

    def rule_named(self, name: str) -> Rule:
        """Return the rule under which a case was opened; one that is not there any more leaves all to the catalog."""
        return next((rule for rule in self.rules if rule.name == name), Rule(name))

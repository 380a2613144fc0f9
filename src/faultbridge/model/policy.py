"""Policy: the customer's rules for conditions (active faults), and the limits on repairs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TypeAlias

from msgspec import Struct, field

from faultbridge.model.cases import REPAIR_ACTION_OF
from faultbridge.model.cluster.config import DEFAULT_SOURCES, CapacitySource
from faultbridge.model.cluster.incidents import CorrelationLimits
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import RepairAction
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.storage.writes import Value
from faultbridge.model.values import replace

PolicyDocument: TypeAlias = Mapping[str, Value]
"""The document of a policy as the table stores it: JSON without fractions, with durations in seconds."""


class Match(Struct, frozen=True):
    """The conditions (active faults) that a policy rule applies to. An empty field matches any value.

    `modes`, `codes`, `clusters` and `instance_types` are shell patterns (`xid.*`). `modes` matches the failure mode of
    a condition, and `codes` any code under which a source reports it now. `count` is the minimum number of observations
    of one source under one code, within `hours` hours (1 to 24) up to the last observation.
    """

    modes: tuple[str, ...] = ()
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
        """Return whether a condition matches all fields of this match; an empty field matches any condition."""
        return (
            self._names(condition)
            and (not self.severities or condition.severity in self.severities)
            and (not self.actions or condition.action in self.actions)
            and (not self.components or condition.component.type in self.components)
            and (not self.clusters or _matches_any(cluster, self.clusters))
            and (not self.sources or not condition.sources.isdisjoint(self.sources))
            and (not self.instance_types or _matches_any(instance_type or "", self.instance_types))
            and (self.count == 1 or condition.counted_within(self.hours) >= self.count)
        )

    def below_count(self, condition: Condition, at: datetime) -> bool:
        """Return whether this match requires more observations than a condition had at the time `at`.

        The result is False if `modes` and `codes` do not match the condition. Fields other than these, `count` and
        `hours` are not considered.
        """
        if self.count == 1 or not self._names(condition):
            return False
        return replace(condition, last_at=at).counted_within(self.hours) < self.count

    def _names(self, condition: Condition) -> bool:
        if self.modes and not _matches_any(condition.mode, self.modes):
            return False
        codes = condition.codes or (condition.code,)
        return not self.codes or any(_matches_any(code, self.codes) for code in codes)


def _matches_any(text: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


class OrchestratorUnreachable(StrEnum):
    """What a repair does while the orchestrator does not respond: wait, or proceed without it."""

    HOLD = "hold"
    PROCEED = "proceed"


class Window(Struct, frozen=True):
    """A recurring maintenance window: a cron expression with five fields and an IANA time zone."""

    cron: str
    duration: timedelta
    zone: str = "UTC"


class Rule(Struct, frozen=True):
    """The response of a policy to the conditions (active faults) that match this rule.

    The first rule of the policy that matches a condition applies.

    - `severity` and `action` override the values of the source or the catalog.
    - Without `isolate`, the condition keeps no new work off the node before its repair starts.
    - `wait_seconds` is how long a case stays open before it is queued.
    - `repair_actions` lists the permitted repair actions, least disruptive first.
    - The actions in `approval` start only after an operator approves them within `approval_deadline`.
    - With `windows`, repairs start only while one of these maintenance windows is open. Verifications need no window.
    - If it is unknown whether a replacement can be launched, an operator must approve the release of the instance. With
      `release_without_capacity`, a node that has a fatal fault or never served needs no such approval. It still needs
      one if no source in `Policy.capacity` exists and `Policy.capacity` does not list `on_demand`.
    - While the orchestrator does not respond, a repair waits. If `orchestrator_unreachable` is `proceed`, the repair
      continues after `Limits.orchestrator_timeout` once the instance is proven gone or impaired.
    - With `dry_run`, repairs are reported but not started.
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
        """Return the least disruptive permitted repair action that is at least as strong as `action` requires.

        Returns None if `action` is no repair action, such as `contact_support`, or if the rule permits no repair action
        that is strong enough.
        """
        required = REPAIR_ACTION_OF.get(action)
        if required is None:
            return None
        order = list(RepairAction)
        sufficient = order[order.index(required) :]
        return next((permitted for permitted in self.repair_actions if permitted in sufficient), None)


class Limits(Struct, frozen=True):
    """The limits of a policy: concurrent repairs, attempts, ages of faults, and deadlines of each step.

    - A condition that only claims report ends `claim_ttl` after the first claim was received, unless a failed
      verification confirmed it. The sender of a claim did not prove to be the node.
    - `verify_level` is the lowest level of a verification, or None for the verifier's default. A level that a rule
      names replaces it.
    - `probation` is how long a repaired node is on probation. A relapse is verified at `relapse_verify_level` or
      higher.
    - While the owner of a group updates it, repairs of its nodes wait, for at most `update_deadline` from the start of
      the update. After the update, they wait for `update_grace`. During `update_deadline` after this grace period,
      nodes that the update replaced are retired.
    - At most `isolation_percent` percent of the nodes of a cluster, and of each failure domain, may take no new work
      because of suspected faults; at least one node may.
    - A node out of service that waits longer than `page_waiting_after` for capacity, a successor or its work to end
      sends an urgent page.
    - After a person acknowledged a case, urgent pages about it are not repeated for `acknowledged_for`.
    - A job whose last `same_attempts` attempts ended alike without progress is not restarted; None is 3, as packaged.
    - The findings of a detector count as faults if its recorded precision is at least `finding_precision` percent. With
      None, findings never count as faults.
    """

    concurrent: int = 2
    per_hour: int = 20
    isolation_percent: int = 10
    attempts: int = 3
    act_within: timedelta = timedelta(hours=1)
    claim_ttl: timedelta = timedelta(hours=1)
    remember_for: timedelta = timedelta(days=16)
    heartbeat_timeout: timedelta = timedelta(minutes=5)
    drain_deadline: timedelta = timedelta(minutes=30)
    orchestrator_timeout: timedelta = timedelta(minutes=10)
    repair_deadline: timedelta = timedelta(minutes=30)
    follow_deadline: timedelta = timedelta(hours=1)
    launch_deadline: timedelta = timedelta(hours=8)
    verify_deadline: timedelta = timedelta(hours=2)
    verify_level: int | None = None
    probation: timedelta = timedelta(hours=24)
    relapse_verify_level: int = 4
    finding_precision: int | None = None
    same_attempts: int | None = None
    update_deadline: timedelta = timedelta(hours=6)
    update_grace: timedelta = timedelta(minutes=15)
    page_waiting_after: timedelta = timedelta(hours=1)
    acknowledged_for: timedelta = timedelta(hours=8)


DEFAULT_RULE = Rule("default")
"""The rule of a condition that no rule of the policy matches."""

INVENTORY_RULE = "inventory"
"""The rule name that is stored in a case that was opened to verify an instance. No policy has this rule."""


class Policy(Struct, frozen=True):
    """One immutable version of the rules; `version` is the hash of its document.

    A repair moves an EBS volume to the successor if its tag `faultbridge:volume` has one of the values in `volumes`.
    Before a repair releases an instance, it queries the sources in `capacity` in this order. The first source with free
    capacity for a successor is used.
    """

    version: str
    rules: tuple[Rule, ...] = ()
    limits: Limits = Limits()
    breakers: tuple[BreakerLimit, ...] = ()
    incidents: CorrelationLimits = field(default_factory=CorrelationLimits)
    volumes: tuple[str, ...] = ()
    capacity: tuple[CapacitySource, ...] = DEFAULT_SOURCES

    def rule_for(self, condition: Condition, cluster: str, instance_type: str | None = None) -> Rule:
        """Return the first rule that applies to a condition, else the default rule, which overrides nothing."""
        reported = condition.as_reported
        matching = (rule for rule in self.rules if rule.match.covers(reported, cluster, instance_type))
        return next(matching, DEFAULT_RULE)

    def needs_count(self, condition: Condition, at: datetime) -> bool:
        """Return whether a rule for the condition's code requires more observations than it had at time `at`."""
        return any(rule.match.below_count(condition, at) for rule in self.rules)

    def has_rule(self, name: str) -> bool:
        """Return whether the policy has a rule of this name."""
        return any(rule.name == name for rule in self.rules)

    def rule_named(self, name: str) -> Rule:
        """Return the rule of this name. If the policy has none, return a rule that overrides nothing."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        return Rule(name)

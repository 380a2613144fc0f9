"""Policy: declarative rules that say what a condition means for the node, and the limits of what may be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase

from faultbridge.domain.cases import RUNG_OF_ACTION, Rung
from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Action, ComponentType, Severity


@dataclass(frozen=True, slots=True)
class Match:
    """Which conditions a rule is about; an empty field matches all. `codes` are shell patterns (`xid.*`)."""

    codes: tuple[str, ...] = ()
    severities: tuple[Severity, ...] = ()
    actions: tuple[Action, ...] = ()
    components: tuple[ComponentType, ...] = ()
    clusters: tuple[str, ...] = ()

    def covers(self, condition: Condition, cluster: str) -> bool:
        """Tell whether the rule is about this condition of this cluster."""
        return (
            (not self.codes or any(fnmatchcase(condition.code, pattern) for pattern in self.codes))
            and (not self.severities or condition.severity in self.severities)
            and (not self.actions or condition.action in self.actions)
            and (not self.components or condition.component.type in self.components)
            and (not self.clusters or any(fnmatchcase(cluster, pattern) for pattern in self.clusters))
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do about the conditions it matches; the first rule that matches decides.

    `wait_seconds` is the time a case stays open before it may be queued; `severity`, `action` and `rung` override
    the catalogue's when given. `ladder` holds the rungs that may be used, mildest first.
    """

    name: str
    match: Match = Match()
    severity: Severity | None = None
    action: Action | None = None
    isolate: bool = True
    wait_seconds: int = 0
    ladder: tuple[Rung, ...] = (Rung.VERIFY, Rung.RESET, Rung.REBOOT, Rung.REPLACE)

    def rung(self, action: Action) -> Rung | None:
        """Return the mildest permitted rung that is at least what the action asks for, or None: a person must act."""
        wanted = RUNG_OF_ACTION.get(action)
        if wanted is None:
            return None
        order = list(Rung)
        return next((rung for rung in self.ladder if order.index(rung) >= order.index(wanted)), None)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be done at once, and how old a fault may be and still be acted upon or remembered."""

    concurrent: int = 2
    per_hour: int = 20
    attempts: int = 3
    act_within: timedelta = timedelta(hours=1)
    remember_for: timedelta = timedelta(days=16)
    drain_deadline: timedelta = timedelta(minutes=30)
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

    def rule_for(self, condition: Condition, cluster: str) -> Rule:
        """Return the first rule that matches, or the one that leaves all to the catalogue."""
        told = condition.as_told
        return next((rule for rule in self.rules if rule.match.covers(told, cluster)), _EVERYTHING)

"""What a policy file may say. Field names are those of the domain, so that the two read alike."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from faultbridge.domain import windows
from faultbridge.domain.breakers import BreakerScope
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.faults import Action, ComponentType, Severity
from faultbridge.domain.policy import OrchestratorUnreachable
from faultbridge.policyfile import durations

_DAY = 86_400

Seconds = Annotated[int, BeforeValidator(durations.seconds), Field(ge=0, le=_DAY)]
Duration = Annotated[int, BeforeValidator(durations.seconds), Field(ge=1, le=90 * _DAY)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
CodePattern = Annotated[str, Field(pattern=r"^[a-z0-9_.*?\[\]!-]{1,100}$")]
ClusterPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_*?\[\]!-]{1,100}$")]
TypePattern = Annotated[str, Field(pattern=r"^[a-z0-9.*?\[\]!-]{1,60}$")]


def _cron(value: str) -> str:
    windows.read_cron(value)
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("the name of a time zone such as Europe/Berlin is expected") from None
    return value


Cron = Annotated[str, AfterValidator(_cron)]
Zone = Annotated[str, AfterValidator(_zone)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class MatchPart(_Part):
    """Which conditions a rule is about; a field that is left out matches all."""

    codes: tuple[CodePattern, ...] = ()
    severities: tuple[Severity, ...] = ()
    actions: tuple[Action, ...] = ()
    components: tuple[ComponentType, ...] = ()
    clusters: tuple[ClusterPattern, ...] = ()
    sources: tuple[Name, ...] = ()
    instance_types: tuple[TypePattern, ...] = ()
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    hours: Annotated[int, Field(ge=1, le=24)] = 24

    @property
    def matches_all(self) -> bool:
        """Tell whether no later rule can ever be reached."""
        return not self.model_dump(exclude_defaults=True, exclude={"hours"})


class WindowPart(_Part):
    """A time in which repairs may begin: five cron fields, how long it lasts, and the time zone they are meant in."""

    cron: Cron
    duration: Annotated[int, BeforeValidator(durations.seconds), Field(ge=60, le=7 * _DAY)]
    zone: Zone = "UTC"


class BreakerPart(_Part):
    """How many nodes, and what share of the nodes, may fail at once before nothing more is taken out of service."""

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: Annotated[int, Field(ge=1, le=100_000)] = 5
    percent: Annotated[int, Field(ge=0, le=100)] = 20
    quiet: Duration = 600
    trial: Annotated[int, Field(ge=1, le=100)] = 1


class RulePart(_Part):
    """What to do about the conditions that it matches; the first rule that matches decides."""

    name: Name
    match: MatchPart = MatchPart()
    severity: Severity | None = None
    action: Action | None = None
    isolate: bool = True
    wait_seconds: Seconds = 0
    repair_actions: tuple[RepairAction, ...] = tuple(RepairAction)
    verify_level: Annotated[int, Field(ge=1, le=4)] | None = None
    approval: tuple[RepairAction, ...] = ()
    approval_deadline: Duration = _DAY
    windows: Annotated[tuple[WindowPart, ...], Field(max_length=20)] = ()
    release_without_capacity: bool = False
    orchestrator_unreachable: OrchestratorUnreachable = OrchestratorUnreachable.HOLD
    dry_run: bool = False


class LimitsPart(_Part):
    """How much may be done at once, and how long things may take."""

    concurrent: Annotated[int, Field(ge=0, le=500)] = 2
    per_hour: Annotated[int, Field(ge=0, le=1000)] = 20
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    act_within: Duration = 3_600
    remember_for: Duration = 16 * _DAY
    heartbeat_timeout: Duration = 300
    drain_deadline: Duration = 1_800
    orchestrator_timeout: Duration = 600
    repair_deadline: Duration = 1_800
    follow_deadline: Duration = 3_600
    launch_deadline: Duration = 8 * 3_600
    verify_deadline: Duration = 2 * 3_600
    verify_level: Annotated[int, Field(ge=1, le=4)] = 3


class PolicyPart(_Part):
    """A whole policy."""

    rules: tuple[RulePart, ...] = ()
    limits: LimitsPart = LimitsPart()
    breakers: Annotated[tuple[BreakerPart, ...], Field(max_length=2)] = ()


DURATIONS = frozenset(
    {
        "act_within",
        "remember_for",
        "heartbeat_timeout",
        "drain_deadline",
        "orchestrator_timeout",
        "repair_deadline",
        "follow_deadline",
        "launch_deadline",
        "verify_deadline",
        "approval_deadline",
        "duration",
        "quiet",
    }
)
"""The fields that people write as durations and the table keeps in milliseconds, wherever they stand."""

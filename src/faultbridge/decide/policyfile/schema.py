"""Schema: the fields of a policy file and their allowed values, named as in the domain model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from faultbridge.decide.admit import check_cron
from faultbridge.model.cluster.config import DEFAULT_SOURCES, CapacitySource
from faultbridge.model.enums import BreakerScope, RepairAction
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.policy import OrchestratorUnreachable

_DAY = 86_400
_UNITS = {"d": _DAY, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?")
_DURATION_TEXT = r"^(?=[0-9])([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}s)?$"
DURATION = "duration"
"""The `$comment` of a duration in the JSON Schema."""


def parse_duration(value: object) -> int:
    """Convert a duration such as `1h30m`, or whole seconds, to seconds. Other input raises `ValueError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) and value.strip() else None
    if found is None:
        raise ValueError("a duration such as 90s, 30m, 8h or 16d is expected")
    return sum(int(part) * unit for part, unit in zip(found.groups(), _UNITS.values(), strict=True) if part)


def format_duration(seconds: int) -> str:
    """Convert a number of seconds to a duration, such as `1h30m`."""
    parts: list[str] = []
    for name, unit in _UNITS.items():
        count, seconds = divmod(seconds, unit)
        parts += [f"{count}{name}"] if count else []
    return "".join(parts) or "0s"


def write_durations(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of a policy document with its durations as text, such as `1h30m`."""
    if isinstance(value, dict):
        return {
            name: format_duration(field)
            if name in DURATION_FIELDS and isinstance(field, int)
            else write_durations(field)
            for name, field in value.items()
        }
    return [write_durations(item) for item in value] if isinstance(value, list) else value


def _check_cron(value: str) -> str:
    check_cron(value)
    return value


def _check_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("the name of a time zone such as Europe/Berlin is expected") from None
    return value


class _DurationSchema:
    """Describes a duration in the JSON Schema: whole seconds, or text such as `1h30m`."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:  # noqa: ANN401 - pydantic's own interface
        field = handler(core)
        seconds = {"type": "integer", "minimum": field["ge"], "maximum": field["le"]}
        return {"$comment": DURATION, "anyOf": [seconds, {"type": "string", "pattern": _DURATION_TEXT}]}


_AS_TEXT = _DurationSchema()
Seconds = Annotated[int, BeforeValidator(parse_duration), Field(ge=0, le=_DAY), _AS_TEXT]
Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=1, le=90 * _DAY), _AS_TEXT]
STEP_DEADLINES = {
    "drain_deadline": 3 * 3_600,
    "repair_deadline": 3 * 3_600,
    "follow_deadline": 11 * 3_600,
    "launch_deadline": 11 * 3_600,
    "verify_deadline": 9 * 3_600,
}
"""The longest deadline of each step in seconds: an hour less than the timeout of its state in the state machine."""
REPLACEMENT_SECONDS = 15 * 3_600
"""The longest sum of the deadlines of a replacement. The other states still fit into the state machine's timeout."""


def _within(name: str) -> Any:  # noqa: ANN401 - what pydantic returns
    return Field(ge=1, le=STEP_DEADLINES[name])


DrainDeadline = Annotated[int, BeforeValidator(parse_duration), _within("drain_deadline"), _AS_TEXT]
RepairDeadline = Annotated[int, BeforeValidator(parse_duration), _within("repair_deadline"), _AS_TEXT]
FollowDeadline = Annotated[int, BeforeValidator(parse_duration), _within("follow_deadline"), _AS_TEXT]
LaunchDeadline = Annotated[int, BeforeValidator(parse_duration), _within("launch_deadline"), _AS_TEXT]
VerifyDeadline = Annotated[int, BeforeValidator(parse_duration), _within("verify_deadline"), _AS_TEXT]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
CodePattern = Annotated[str, Field(pattern=r"^[a-z0-9_.*?\[\]!-]{1,100}$")]
ClusterPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_*?\[\]!-]{1,100}$")]
TypePattern = Annotated[str, Field(pattern=r"^[a-z0-9.*?\[\]!-]{1,60}$")]
VolumeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Cron = Annotated[str, AfterValidator(_check_cron)]
Zone = Annotated[str, AfterValidator(_check_zone)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class MatchPart(_Part):
    """The conditions to which a rule applies; an omitted field matches every condition."""

    modes: tuple[CodePattern, ...] = ()
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
        """Whether the rule matches every condition, so that no later rule ever applies."""
        return not self.model_dump(exclude_defaults=True, exclude={"hours"})


class WindowPart(_Part):
    """A maintenance window, in which repairs may start: five cron fields, a duration and a time zone."""

    cron: Cron
    duration: Annotated[int, BeforeValidator(parse_duration), Field(ge=60, le=7 * _DAY), _AS_TEXT]
    zone: Zone = "UTC"


class BreakerPart(_Part):
    """A circuit breaker: stops repairs, but no cordon, when too many nodes have failed at once."""

    scope: BreakerScope = BreakerScope.CLUSTER
    nodes: Annotated[int, Field(ge=1, le=100_000)] = 5
    percent: Annotated[int, Field(ge=0, le=100)] = 20
    quiet: Duration = 600
    trial: Annotated[int, Field(ge=1, le=100)] = 1
    openings: Annotated[int, Field(ge=1, le=1000)] = 3


class RulePart(_Part):
    """One rule: the response to the conditions that it matches. The first rule that matches applies."""

    name: Name
    match: MatchPart = MatchPart()
    severity: Severity | None = None
    action: Action | None = None
    isolate: bool = True
    wait_seconds: Seconds = 0
    repair_actions: tuple[RepairAction, ...] = tuple(RepairAction)
    verify_level: Annotated[int, Field(ge=1, le=5)] | None = None
    approval: tuple[RepairAction, ...] = ()
    approval_deadline: Duration = _DAY
    windows: Annotated[tuple[WindowPart, ...], Field(max_length=20)] = ()
    release_without_capacity: bool = False
    orchestrator_unreachable: OrchestratorUnreachable = OrchestratorUnreachable.HOLD
    dry_run: bool = False


class LimitsPart(_Part):
    """Limits of repairs, deadlines of repair steps, verification levels, and other times and limits."""

    concurrent: Annotated[int, Field(ge=0, le=500)] = 2
    per_hour: Annotated[int, Field(ge=0, le=1000)] = 20
    isolation_percent: Annotated[int, Field(ge=1, le=100)] = 10
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    act_within: Duration = 3_600
    claim_ttl: Duration = 3_600
    remember_for: Duration = 16 * _DAY
    heartbeat_timeout: Duration = 300
    drain_deadline: DrainDeadline = 1_800
    orchestrator_timeout: Duration = 600
    repair_deadline: RepairDeadline = 1_800
    follow_deadline: FollowDeadline = 3_600
    launch_deadline: LaunchDeadline = 8 * 3_600
    verify_deadline: VerifyDeadline = 2 * 3_600
    verify_level: Annotated[int, Field(ge=1, le=5)] | None = None
    probation: Annotated[int, BeforeValidator(parse_duration), Field(ge=0, le=90 * _DAY), _AS_TEXT] = _DAY
    relapse_verify_level: Annotated[int, Field(ge=1, le=5)] = 4
    finding_precision: Annotated[int, Field(ge=1, le=100)] | None = None
    same_attempts: Annotated[int, Field(ge=2, le=100)] | None = None
    update_deadline: Duration = 6 * 3_600
    update_grace: Annotated[int, BeforeValidator(parse_duration), Field(ge=0, le=_DAY), _AS_TEXT] = 900
    page_waiting_after: Duration = 3_600
    acknowledged_for: Annotated[int, BeforeValidator(parse_duration), Field(ge=60, le=7 * _DAY), _AS_TEXT] = 8 * 3_600

    @model_validator(mode="after")
    def _fit_into_the_state_machine(self) -> Self:
        if self.drain_deadline + self.launch_deadline + self.verify_deadline > REPLACEMENT_SECONDS:
            limit = f"at most {format_duration(REPLACEMENT_SECONDS)} together"
            raise ValueError(f"drain_deadline, launch_deadline and verify_deadline of {limit} are expected")
        return self


class IncidentsPart(_Part):
    """The limits from which faults of many nodes form an incident, and how long incidents delay repairs."""

    nodes: Annotated[int, Field(ge=2, le=100_000)] = 3
    percent: Annotated[int, Field(ge=0, le=100)] = 30
    explains: Annotated[int, Field(ge=50, le=100)] = 80
    window: Annotated[int, BeforeValidator(parse_duration), Field(ge=60, le=_DAY), _AS_TEXT] = 600
    odds: Annotated[int, Field(ge=1, le=1_000_000_000)] = 10_000
    quiet: Duration = 600
    max_age: Annotated[int, BeforeValidator(parse_duration), Field(ge=60, le=7 * _DAY), _AS_TEXT] = 7_200


class PolicyPart(_Part):
    """A complete policy: rules, limits, circuit breakers, incidents, volumes and sources of capacity."""

    rules: tuple[RulePart, ...] = ()
    limits: LimitsPart = LimitsPart()
    breakers: Annotated[tuple[BreakerPart, ...], Field(max_length=2)] = ()
    incidents: IncidentsPart = IncidentsPart()
    volumes: Annotated[tuple[VolumeName, ...], Field(max_length=50)] = ()
    capacity: Annotated[tuple[CapacitySource, ...], Field(max_length=len(CapacitySource))] = DEFAULT_SOURCES


DURATION_FIELDS = frozenset(
    name
    for part in (RulePart, WindowPart, LimitsPart, BreakerPart, IncidentsPart)
    for name, described in part.model_fields.items()
    if _AS_TEXT in described.metadata and name != "wait_seconds"
)
"""The fields with a duration in seconds that a policy file writes with a unit."""

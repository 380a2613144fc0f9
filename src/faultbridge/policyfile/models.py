"""What a policy file may say. Field names are those of the domain, so that the two read alike."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from faultbridge.domain.cases import Rung
from faultbridge.domain.faults import Action, ComponentType, Severity
from faultbridge.policyfile import durations

_DAY = 86_400

Seconds = Annotated[int, BeforeValidator(durations.seconds), Field(ge=0, le=_DAY)]
Duration = Annotated[int, BeforeValidator(durations.seconds), Field(ge=1, le=90 * _DAY)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
CodePattern = Annotated[str, Field(pattern=r"^[a-z0-9_.*?\[\]!-]{1,100}$")]
ClusterPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_*?\[\]!-]{1,100}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class MatchPart(_Part):
    """Which conditions a rule is about; a field that is left out matches all."""

    codes: tuple[CodePattern, ...] = ()
    severities: tuple[Severity, ...] = ()
    actions: tuple[Action, ...] = ()
    components: tuple[ComponentType, ...] = ()
    clusters: tuple[ClusterPattern, ...] = ()

    @property
    def matches_all(self) -> bool:
        """Tell whether no later rule can ever be reached."""
        return not (self.codes or self.severities or self.actions or self.components or self.clusters)


class RulePart(_Part):
    """What to do about the conditions that it matches; the first rule that matches decides."""

    name: Name
    match: MatchPart = MatchPart()
    severity: Severity | None = None
    action: Action | None = None
    isolate: bool = True
    wait_seconds: Seconds = 0
    ladder: tuple[Rung, ...] = tuple(Rung)


class LimitsPart(_Part):
    """How much may be done at once, and how long things may take."""

    concurrent: Annotated[int, Field(ge=0, le=500)] = 2
    per_hour: Annotated[int, Field(ge=0, le=1000)] = 20
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    act_within: Duration = 3_600
    remember_for: Duration = 16 * _DAY
    drain_deadline: Duration = 1_800
    launch_deadline: Duration = 8 * 3_600
    verify_deadline: Duration = 2 * 3_600
    verify_level: Annotated[int, Field(ge=1, le=4)] = 3


class PolicyPart(_Part):
    """A whole policy."""

    rules: tuple[RulePart, ...] = ()
    limits: LimitsPart = LimitsPart()


DURATIONS = ("act_within", "remember_for", "drain_deadline", "launch_deadline", "verify_deadline")

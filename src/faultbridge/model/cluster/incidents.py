"""Incidents: a shared cause of faults of many nodes, such as a dead switch, for which repairs wait."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.model.cluster.config import FailureDomain, is_placed
from faultbridge.model.enums import DomainKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_text

_IDENTIFIER = re.compile("/(?:pci|uuid|index|name|serial)=")
MAX_NODES = 2_000
"""Maximum nodes that an incident names, so that its item stays small; `affected` counts all of them."""

MAX_DOUBLINGS = 10
"""Maximum doublings of an incident's quiet period, so that it stays a valid `timedelta` whatever the policy says."""


class CorrelationLimits(Struct, frozen=True):
    """The limits by which faults of many nodes become one incident, and how long it delays repairs.

    - An incident opens if at least `nodes` nodes, and at least `percent` percent of a failure domain, start to show
      faults of one family within `window`. The probability that so many nodes fail by chance must also be less than one
      in `odds`. This probability is computed from the recorded history of the failure domain. An incident of the intake
      opens without these limits.
    - The incident belongs to the narrowest failure domain that contains at least `explains` percent of these nodes.
    - The incident closes when no node has been affected for its quiet period (`Incident.quiet_period`).
    - After `max_age`, repairs no longer wait for the incident.
    """

    nodes: int = 3
    percent: int = 30
    explains: int = 80
    window: timedelta = timedelta(minutes=10)
    odds: int = 10_000
    quiet: timedelta = timedelta(minutes=10)
    max_age: timedelta = timedelta(hours=2)


class Hold(Stored, frozen=True):
    """The part of an incident that decides which repairs wait for the incident; `covers` states the rules.

    - `holding` is True while repairs wait for the incident. It becomes False when the incident reaches its maximum age
      (`expired_at`) or is closed (`ended_at`).
    - After the close, faults that started up to `explains_until` open no further incident.
    - The nodes in `exempt` wait for no incident of this family, even if their faults start again.
    - `recurrence` is a copy of `Incident.recurrence`.
    """

    family: Family
    domain: FailureDomain
    holding: bool = True
    ended_at: datetime | None = None
    exempt: tuple[str, ...] = ()
    explains_until: datetime | None = None
    expired_at: datetime | None = None
    recurrence: int = 0

    def expired_since(self, time: datetime) -> bool:
        """Return whether the incident reached its maximum age at `time` or later.

        Call this only for an incident that is not closed. An expired incident that an earlier version of Faultbridge
        stored has no `expired_at`. The result is then True for any `time`.
        """
        return not self.holding and (self.expired_at is None or self.expired_at >= time)

    def covers(self, domains: Collection[FailureDomain], families: Collection[Family]) -> bool:
        """Return whether the incident covers a node, so that the node's repair waits for the incident.

        `domains` are the failure domains of the node, and `families` the families of its faults.

        - An incident covers no node if repairs no longer wait for it.
        - An incident of the intake covers every node, because no records arrive from any node.
        - Any other incident covers a node in its failure domain that has a fault of its family. A node without a known
          failure domain may share the cause, so it counts as a node in the failure domain.
        """
        every_node = self.domain.kind is DomainKind.INTAKE
        inside = self.domain in domains or not is_placed(domains)
        return self.holding and (every_node or (inside and self.family in families))


class FaultSite(Stored, frozen=True):
    """The component (`component_key`, with the link that the fault names) and the start of a fault."""

    component: str
    since: datetime


class Origin(Stored, frozen=True):
    """The fault of one node that explains the faults of the other nodes of an incident.

    `out_at` is since when the node is out of service or has the fault no more, else None.
    """

    node: str
    code: str
    mode: str
    site: FaultSite
    out_at: datetime | None = None

    @property
    def text(self) -> str:
        """Return node, component, link and fault code as text: `gpu-1, gpu 0000:04:00 link 14 (xid.149)`."""
        component = _IDENTIFIER.sub(" ", self.site.component).replace("/link=", " link ")
        return f"{self.node}, {component} ({self.code})"


class Incident(Stored, frozen=True):
    """One cluster incident: a shared cause of the faults of many nodes.

    - `affected` is the number of affected nodes. `nodes` are their names, at most `MAX_NODES`. `of` is the number of
      all nodes of the failure domain.
    - `left` maps each node that left the incident less than a quiet period ago to the time when it left.
    - `code` is the most frequent fault code.
    - `subject` is the remote object, such as a switch or a file server, that most of the faults name.
    - Faults that started before `evidence_since` do not belong to the incident.
    - `recurrence` is how often the same shared cause came back. A cause comes back if a new incident opens less than
      `CorrelationLimits.max_age` after an incident of the same family was closed, and all nodes of the new incident are
      in the failure domain of the closed incident. For an incident of the intake, it is always 0.
    - `origin` is the fault that explains the others, or None while it is unknown. Only its node is repaired meanwhile.
    - `announced` is the number of affected nodes in the last page or notice. At `announced_at`, a notice reported that
      the incident has grown to this number; None before the first notice.
    """

    id: str
    cluster: str
    family: Family
    domain: FailureDomain
    status: IncidentStatus
    opened_at: datetime
    evidence_since: datetime
    code: str
    nodes: tuple[str, ...] = ()
    left: Mapping[str, datetime] = field(default_factory=dict)
    affected: int = 0
    of: int = 0
    subject: str | None = None
    quiet_since: datetime | None = None
    expired_at: datetime | None = None
    closed_at: datetime | None = None
    reason: str = ""
    operator: str | None = None
    recurrence: int = 0
    announced: int = 0
    announced_at: datetime | None = None
    origin: Origin | None = None

    @property
    def held_nodes(self) -> tuple[str, ...]:
        """Return the affected nodes whose cases wait for the incident: all but that of its origin."""
        return tuple(one for one in self.nodes if self.origin is None or one != self.origin.node)

    def quiet_period(self, limits: CorrelationLimits) -> timedelta:
        """Return how long no node may be affected before the incident closes.

        Each recurrence doubles `limits.quiet`, up to `limits.max_age`. Faults that come and go then stay one incident,
        which reaches its maximum age, instead of opening and closing an incident each time.
        """
        factor = 1 << min(self.recurrence, MAX_DOUBLINGS)
        return min(limits.quiet * factor, max(limits.quiet, limits.max_age))

    @property
    def hold(self) -> Hold:
        """Return the `Hold` of the incident, which decides which repairs wait for the incident."""
        return Hold(
            self.family,
            self.domain,
            self.status.holds,
            self.closed_at,
            self.exempt,
            self._explains_until,
            self.expired_at,
            self.recurrence,
        )

    @property
    def _explains_until(self) -> datetime | None:
        """Return the latest start of the faults that this closed incident explains; None if it explains none.

        An explained fault opens no further incident.

        - If an operator closed this incident, or a wider incident replaced it while nodes were affected, the result is
          the time at which it was closed.
        - If no node was affected when it closed, the result is the time at which it expired. If it never expired, the
          result is None: all its faults have ended, so a fault that is recorded later is a new one.
        """
        quiet = self.quiet_since is not None and self.operator is None
        return self.expired_at if quiet else self.closed_at

    @property
    def exempt(self) -> tuple[str, ...]:
        """Return the nodes whose repairs no incident of this family delays.

        While repairs wait for the incident, this is the node of its origin. When the incident is expired, these are the
        affected nodes, and the nodes that left it recently; none for an incident of the intake, which affects all.
        """
        if self.status.holds and self.origin is not None:
            return (self.origin.node,)
        expired = self.status is IncidentStatus.EXPIRED and self.domain.kind is not DomainKind.INTAKE
        return tuple(sorted({*self.nodes, *self.left})) if expired else ()

    @property
    def origin_text(self) -> str:
        """Return the origin in one phrase, which also states that it is unknown."""
        unknown = "unknown: no fault of one of its nodes explains those of the others"
        return f"origin {self.origin.text if self.origin else unknown}"

    @property
    def summary(self) -> str:
        """Return the incident in one phrase: `8 of 8 nodes of rack r-7 have network faults`."""
        return f"{self.affected} of {self.of} nodes of {self.domain.text} have {self.family.value} faults"


def incident_id(stack_id: str, cluster: str, family: Family, domain: FailureDomain, opened_at: datetime) -> str:
    """Derive the id of an incident: `inc-` and 16 base32 characters."""
    text = "/".join((stack_id, cluster, family.value, domain.text, to_text(opened_at)))
    digest = hashlib.sha256(text.encode()).digest()
    return "inc-" + base64.b32encode(digest).decode().lower()[:16]

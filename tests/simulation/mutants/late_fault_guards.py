"""The guards of faults of one cause that are recorded late, hidden by others, or end during a verification."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

_OPENINGS = "pipeline/correlate/openings.py"
_INCIDENTS = "domain/cluster/incidents.py"
LATE_FAULT_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _OPENINGS,
        "with_shared_causes",
        "late records of earlier faults do not join the incident of their cause",
        "since = min(current.evidence_since, _evidence_since(snapshot, cause, family, limits))",
        "since = current.evidence_since",
    ),
    planted(
        _OPENINGS,
        "_causes",
        "an incident hides a smaller group of later faults in the same wide domain",
        "if explained else []",
        "if False else []",
    ),
    planted(
        _OPENINGS,
        "_is_another",
        "nodes that fail together shortly before the end of an old incident are repaired with its nodes",
        "late = incident.opened_at + limits.max_age / 2",
        "late = incident.opened_at + limits.max_age",
    ),
    planted(
        _OPENINGS,
        "_is_another",
        "links that come and go open one incident after another",
        "known = {*incident.nodes, *incident.left}",
        "known = set(incident.nodes)",
    ),
    planted(
        _OPENINGS,
        "_covers",
        "an incident gets the nodes of a later one, and frees them at its maximum age",
        "return contained or later.domain == earlier.domain",
        "return False",
    ),
    planted(
        _INCIDENTS,
        "Incident._explains_until",
        "a closed incident explains faults that were recorded after its quiet period",
        "return self.expired_at if quiet else self.closed_at",
        "return self.closed_at",
    ),
    planted(
        _INCIDENTS,
        "Incident._explains_until",
        "faults of an incident that an operator closed open another one",
        "quiet = self.quiet_since is not None and self.operator is None",
        "quiet = self.quiet_since is not None",
    ),
    planted(
        _INCIDENTS,
        "Hold.expired_since",
        "an old expired incident frees the failed repairs of later cases",
        "return not self.holding and (self.expired_at is None or self.expired_at >= time)",
        "return not self.holding",
    ),
    planted(
        "incidents/changes.py",
        "_is_used",
        "an incident is forgotten before the verifications that it disturbed have ended",
        "if hold.ended_at is None or now < hold.ended_at + kept:",
        "if hold.ended_at is None:",
    ),
    planted(
        "repair/attempt/next_action.py",
        "try_next_action",
        "a second instance is released for a verification that a closed incident disturbed",
        "if incidents.closed is not None and at_least is None:",
        "if False:",
    ),
    planted(
        _OPENINGS,
        "_open",
        "links that come and go more slowly than the quiet period open one incident after another",
        "recurrence=_recurrence(cause, family, ended, limits, now),",
        "",
    ),
    planted(
        _OPENINGS,
        "_recurrence",
        "an incident closes later because another rack failed before",
        "all(one.domain in node.domains for node in cause.affected)",
        "True",
    ),
    planted(
        "pipeline/correlate/life_cycle.py",
        "_recovered_at",
        "a recovery that only a late run noticed does not end the quiet period",
        "return max(times) if known and len(times) == len(known) else None",
        "return None",
    ),
    planted(
        "pipeline/correlate/life_cycle.py",
        "_recovered_at",
        "the recovery of some nodes closes an incident although others never recovered",
        "len(times) == len(known)",
        "times",
    ),
    planted(
        "domain/conditions.py",
        "last_end",
        "a fault that ended last and is not active again is forgotten",
        "one.ended_at for one in tombstones",
        "one.ended_at for one in ()",
    ),
    planted(
        "repair/attempt/next_action.py",
        "_unrepairable_faults",
        "a failed verification of a node with a fault for an operator reboots it",
        "return tuple(sorted({one.condition.code for one in found}))",
        "return ()",
    ),
    planted(
        "repair/steps/verify_instance.py",
        "on_timeout",
        "a verification that an open incident delays is escalated to an operator",
        "waits = wait_for_incident(context, text, draft)",
        "waits = None",
    ),
)

"""Bugs planted by hand, each of which all seeds and tests once missed: each is a replaced piece of source."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tests.simulation.mutants.catalog import Mutant, source


@dataclass(frozen=True, order=True)
class PlantedBug(Mutant):
    """A bug planted by hand: `old` source is replaced by `new` source, wherever it occurs in the file."""

    old: str = ""
    new: str = ""

    def tree(self) -> ast.Module:
        return ast.parse(source(self.file).replace(self.old, self.new))


def _planted(file: str, function: str, text: str, old: str, new: str) -> PlantedBug:
    line = source(file)[: source(file).find(old)].count("\n") + 1
    return PlantedBug(file, 0, line, function, "planted", text, old, new)


_TABLE = "adapters/dynamodb/table.py"
_ISOLATE = "repair/isolate.py"
_LIFE_CYCLE = "pipeline/correlate/life_cycle.py"
_HELD_CASES = "pipeline/correlate/held_cases.py"
INCIDENT_GUARDS: tuple[PlantedBug, ...] = (
    _planted(
        "repair/attempt/intent.py",
        "stop_for_incident",
        "a repair passes its intent although an incident holds the node",
        "if incident is None:",
        "if True:",
    ),
    _planted(
        "pipeline/decide/admit.py",
        "_check_incident",
        "a case is admitted although an incident holds its node",
        "if incident is None:",
        "if True:",
    ),
    _planted(
        _HELD_CASES,
        "absorb",
        "a case that is being repaired is absorbed",
        "if not is_absorbable(case):",
        "if case.cancelled:",
    ),
    _planted(
        _HELD_CASES,
        "release",
        "a case is released while its incident holds it",
        "if faulty and case.incident in holding:",
        "if False:",
    ),
    _planted(
        _LIFE_CYCLE,
        "_advance",
        "an incident holds repairs for ever",
        "if limited and incident.status.holds and now >=",
        "if False and now >=",
    ),
    _planted(
        _LIFE_CYCLE,
        "_advance",
        "an incident closes without a quiet period",
        "if incident.quiet_since is not None and now >= incident.quiet_since + limits.quiet:",
        "if incident.quiet_since is not None:",
    ),
    _planted(
        _LIFE_CYCLE,
        "_ignored",
        "faults of an incident that is over open the next one",
        "family is node.family and domain in node.domains and at is not None and node.since <= at",
        "False",
    ),
    _planted(
        "incidents/changes.py",
        "IncidentChanges.__call__",
        "an incident opens without holding repairs",
        "holds |= {change.after.id: change.after.hold for change in committed}",
        "pass",
    ),
    _planted(
        "incidents/held.py",
        "HeldCases.release",
        "the cases of an incident that is over are not released",
        'row["incident"] not in holding or row["node"] not in affected',
        'row["node"] not in affected and row["incident"] in holding',
    ),
    _planted(
        "incidents/held.py",
        "HeldCases.absorb",
        "no case waits for an incident",
        "if incident.status.holds\n",
        "if False\n",
    ),
)
"""The guards of incidents, each left out."""

_VERIFICATION_CASES = "registry/verification_cases.py"
GROWTH_GUARDS: tuple[PlantedBug, ...] = (
    _planted(
        "registry/groups.py",
        "Group.is_joined_by",
        "an instance that ran before its group was known is taken out of service",
        "return bool(launched and known_since and launched >= known_since.replace(microsecond=0))",
        "return bool(launched)",
    ),
    _planted(
        "registry/inventory_sync.py",
        "SyncInventory._rules_of_verification",
        "a new instance that is opted out is verified",
        " or instance.opted_out:",
        ":",
    ),
    _planted(
        "registry/inventory_sync.py",
        "SyncInventory._rules_of_verification",
        "new instances are verified where Faultbridge does not act",
        "if config.mode is not Mode.ACT or not config.opens_cases or instance.opted_out:",
        "if instance.opted_out:",
    ),
    _planted(
        "registry/new_node.py",
        "first_status_of",
        "a new instance serves before its verification",
        "return NodeStatus.HEALTHY if serving else NodeStatus.VALIDATING",
        "return NodeStatus.HEALTHY",
    ),
    _planted(
        _VERIFICATION_CASES,
        "require_verification",
        "the orchestrator may place work on a new instance before its verification",
        "if rules.config.acts and rules.config.mode is Mode.ACT:",
        "if False:",
    ),
    _planted(
        _VERIFICATION_CASES,
        "_open_verification_case",
        "the policy rule of new instances, with its approvals, is not applied",
        "rule = RULE if code != INSTANCE_ADDED else",
        "rule = RULE if code else",
    ),
    _planted(
        "repair/steps/verify_instance.py",
        "_start",
        "diagnostics run on a new instance that is not cordoned yet",
        "or unconfirmed) and",
        ") and",
    ),
    _planted(
        "repair/steps/close_case.py",
        "close_case",
        "a new instance starts on probation as if it had been repaired",
        "if resolution in ON_PROBATION and not case.before_service:",
        "if resolution in ON_PROBATION:",
    ),
)
"""The guards of growing groups, each left out; `tests/scenarios/provider/test_growth.py` notices each of them."""

_DETACH, _ATTACH, _ZONES = "repair/volumes/detach.py", "repair/volumes/attach.py", "repair/volumes/zones.py"
VOLUME_GUARDS: tuple[PlantedBug, ...] = (
    _planted(
        _DETACH,
        "_detach",
        "an instance is released while a volume is still being detached",
        "    if left:\n        names",
        "    if False:\n        names",
    ),
    _planted(
        _DETACH,
        "detach_volumes",
        "a volume is detached before it is recorded",
        "    if new:\n        context = context.commit(lambda state, now: _record(state, now, new))",
        "    if False:\n        pass",
    ),
    _planted(
        _DETACH,
        "detach_volumes",
        "an instance is released while the storage driver has a volume on it",
        "    if left:\n        return",
        "    if False:\n        return",
    ),
    _planted(
        _DETACH,
        "detach_volumes",
        "volumes are detached although no successor can take them",
        "if refusal is not None:",
        "if False:",
    ),
    _planted(
        _ATTACH,
        "_attach",
        "a volume is taken from another instance",
        "    if not _is_free(volume, instance_id):",
        "    if False:",
    ),
    _planted(
        _ATTACH,
        "_is_attached",
        "a node serves while a volume is still being attached",
        "attachment.state == ATTACHED",
        "bool(attachment.state)",
    ),
    _planted(
        "repair/successor/sources.py",
        "_spare",
        "a spare in another zone than the volumes is taken",
        "not zones or in_zones(context, one, zones)",
        "True",
    ),
    _planted(
        "repair/successor/launch.py",
        "take_spare",
        "a spare that no volume can be attached to stays with its case",
        "if taken is not None and not fits(taken):",
        "if False:",
    ),
    _planted(
        "repair/volumes/detach.py",
        "refuse_unmovable",
        "a repair of a provider that moves no volumes is tried again and again",
        "if not context.moves_volumes or not context.lacks_volumes:",
        "if True:",
    ),
    _planted(
        "repair/steps/return_to_service.py",
        "return_to_service",
        "a node serves without its volumes",
        "return missing or _uncordon(context)",
        "return _uncordon(context)",
    ),
    _planted(
        _ZONES,
        "refuse_release",
        "the old instance is released although its successor is in another zone",
        "if reason else None",
        "if False else None",
    ),
)
"""The guards of volumes, each left out; `tests/scenarios/repair/test_volumes.py` notices each of them."""

_SOURCES = "repair/successor/sources.py"
_CAPACITY = "repair/successor/capacity.py"
CAPACITY_GUARDS: tuple[PlantedBug, ...] = (
    _planted(
        _SOURCES,
        "decision",
        "an instance is released for a source that has none free",
        "if self.found.free and not self._ends_soon",
        "if not self._ends_soon",
    ),
    _planted(
        _SOURCES,
        "decision",
        "an instance is released for a capacity block that ends within the hour",
        "if self.found.free and not self._ends_soon",
        "if self.found.free",
    ),
    _planted(
        _SOURCES,
        "decision",
        "a source that the provider does not have counts as capacity",
        "if self.found.evidence is CapacityEvidence.ABSENT:\n            return Decision.ABSENT",
        "if self.found.evidence is CapacityEvidence.ABSENT:\n            return Decision.USED",
    ),
    _planted(
        _SOURCES,
        "decision",
        "capacity that only a launch shows counts as proven",
        "return Decision.UNKNOWN",
        "return Decision.USED",
    ),
    _planted(
        _SOURCES,
        "ask_sources",
        "the sources are not asked in the order of the policy",
        "for source in context.rules.policy.capacity:",
        "for source in sorted(context.rules.policy.capacity):",
    ),
    _planted(
        _CAPACITY,
        "find_capacity",
        "a rule releases an instance although every source has nothing free",
        "if Decision.NONE_FREE in decisions and Decision.UNKNOWN not in decisions:",
        "if False:",
    ),
    _planted(
        _CAPACITY,
        "find_capacity",
        "a case waits for capacity although a source is unknown",
        "if Decision.NONE_FREE in decisions and Decision.UNKNOWN not in decisions:",
        "if Decision.NONE_FREE in decisions:",
    ),
    _planted(
        "repair/successor/launch.py",
        "launch_request",
        "an instance type is launched that the policy does not name",
        "instance_types=chosen or types[:1]",
        "instance_types=types",
    ),
)
"""The guards of capacity, each left out; `tests/scenarios/repair/test_capacity_sources.py` notices each of them."""

_UPDATES = "pipeline/decide/provider_conditions.py"
UPDATE_GUARDS: tuple[PlantedBug, ...] = (
    _planted(
        "pipeline/decide/admit.py",
        "_check_update",
        "a repair competes with an update of the group",
        "if hold is None or not queued.repair_action.needs_slot:",
        "if True:",
    ),
    _planted(
        "repair/attempt/intent.py",
        "stop_for_update",
        "a running repair passes its intent although an update of the group began",
        "if hold is None or not context.case.repair_action.needs_slot:",
        "if True:",
    ),
    _planted(
        "pipeline/decide/decide.py",
        "_deferred_until",
        "a node that leaves in an update opens a case",
        "if is_absence(condition) else None",
        "if False else None",
    ),
    _planted(
        "pipeline/decide/decide.py",
        "_case_condition",
        "an absence in an update hides a fatal fault",
        "found = [one for one in found if not is_absence(one)] or found",
        "found = [one for one in found if is_absence(one)] or found",
    ),
    _planted(
        _UPDATES,
        "_running",
        "an update that never ends holds repairs for ever",
        "return UpdateHold(name, since, since + limits.update_deadline)",
        "return UpdateHold(name, since, now + limits.update_deadline)",
    ),
    _planted(
        _UPDATES,
        "_running",
        "an update that is overdue begins again",
        "known = before.since if before is not None and before.running else now",
        "known = now",
    ),
    _planted(
        _UPDATES,
        "_ended",
        "repairs wait for an update that has ended",
        "until = now + limits.update_grace if before.running else before.until",
        "until = before.until",
    ),
    _planted(
        _UPDATES,
        "_ended",
        "the grace period after an update begins again at each sync",
        "until = now + limits.update_grace if before.running else before.until",
        "until = now + limits.update_grace",
    ),
    _planted(
        "incidents/affected_nodes.py",
        "affected_nodes",
        "an update of many nodes is an incident",
        "if not updated or one.family is not Family.HEARTBEAT",
        "if True",
    ),
    _planted(
        "ops/postponed_cases.py",
        "postponed_too_long",
        "a node that stays silent after an update gets its case only at the deadline of the update",
        "if stored is not None and stored > max(",
        "if False and stored > max(",
    ),
    _planted(
        "registry/retirement.py",
        "is_replaced",
        "a node is retired although its group still lacks an instance",
        "and reported.complete and",
        "and",
    ),
    _planted(
        "registry/retirement.py",
        "is_replaced",
        "a node is retired without an update of its group",
        "updated = config.update_hold(group.name, now) is not None",
        "updated = True",
    ),
)
"""The guards of updates, each left out; `tests/scenarios/provider/test_group_updates.py` notices each of them."""

PLANTED: tuple[PlantedBug, ...] = (
    *INCIDENT_GUARDS,
    *GROWTH_GUARDS,
    *VOLUME_GUARDS,
    *CAPACITY_GUARDS,
    *UPDATE_GUARDS,
    _planted(
        "pipeline/decide/escalation.py",
        "raise_repair_action",
        "an approval survives a raise to another repair action",
        "unapproved, approval_over = drop_approval(case, now, text)",
        "unapproved, approval_over = (case, ())",
    ),
    _planted(
        "pipeline/fold/fold.py",
        "_apply",
        "a late clear of the old instance ends the condition of the new one",
        "if arrival.incarnation is IncarnationMatch.EARLIER:",
        "if arrival.incarnation is IncarnationMatch.EARLIER and not isinstance(observation, Clear):",
    ),
    _planted(_TABLE, "DynamoTable.get", "get is not consistent", ", ConsistentRead=True)", ")"),
    _planted(_TABLE, "DynamoTable._read", "batch get is not consistent", ', "ConsistentRead": True}}', "}}"),
    _planted(_TABLE, "DynamoTable.query", "query is not consistent", '{"ConsistentRead": True} if', "{} if"),
    _planted(
        "adapters/compute/ssm_commands.py",
        "comment_of",
        "tokens of attempts are cut and collide",
        "        return token\n",
        "        return token[:28]\n",
    ),
    _planted(
        _ISOLATE,
        "Isolate._held_by_breaker",
        "isolation trusts a breaker that was read before it opened",
        "return _breaker_holds(self.controls.read(state.key.cluster), state, ordered=ordered)",
        "return False",
    ),
)

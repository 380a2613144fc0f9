"""The guards of fleets, each left out: growing groups, volumes, capacity, updates and rivals."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

_VERIFICATION_CASES = "registry/verification/cases.py"
GROWTH_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "registry/groups.py",
        "Group.is_joined_by",
        "an instance that ran before its group was known is taken out of service",
        "return bool(launched and known_since and launched >= known_since.replace(microsecond=0))",
        "return bool(launched)",
    ),
    planted(
        "registry/inventory_sync.py",
        "SyncInventory._rules_of_verification",
        "a new instance that is opted out is verified",
        " or instance.opted_out:",
        ":",
    ),
    planted(
        "registry/inventory_sync.py",
        "SyncInventory._rules_of_verification",
        "new instances are verified where Faultbridge does not act",
        "if config.mode is not Mode.ACT or not config.opens_cases or instance.opted_out:",
        "if instance.opted_out:",
    ),
    planted(
        "registry/new_node.py",
        "first_status_of",
        "a new instance serves before its verification",
        "return NodeStatus.HEALTHY if serving else NodeStatus.VALIDATING",
        "return NodeStatus.HEALTHY",
    ),
    planted(
        _VERIFICATION_CASES,
        "require_verification",
        "the orchestrator may place work on a new instance before its verification",
        "if rules.config.acts and rules.config.mode is Mode.ACT:",
        "if False:",
    ),
    planted(
        _VERIFICATION_CASES,
        "_open_verification_case",
        "the policy rule of new instances, with its approvals, is not applied",
        "rule = INVENTORY_RULE if code != INSTANCE_ADDED else",
        "rule = INVENTORY_RULE if code else",
    ),
    planted(
        "repair/steps/verify_instance.py",
        "_start",
        "diagnostics run on a new instance that is not cordoned yet",
        "or unconfirmed) and",
        ") and",
    ),
    planted(
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
    planted(
        _DETACH,
        "_detach",
        "an instance is released while a volume is still being detached",
        "    if left:\n        names",
        "    if False:\n        names",
    ),
    planted(
        _DETACH,
        "detach_volumes",
        "a volume is detached before it is recorded",
        "    if new:\n        context = context.commit(lambda state, now: _record(state, now, new))",
        "    if False:\n        pass",
    ),
    planted(
        _DETACH,
        "detach_volumes",
        "an instance is released while the storage driver has a volume on it",
        "    if left:\n        return",
        "    if False:\n        return",
    ),
    planted(
        _DETACH,
        "detach_volumes",
        "volumes are detached although no successor can take them",
        "if refusal is not None:",
        "if False:",
    ),
    planted(
        _ATTACH,
        "_attach",
        "a volume is taken from another instance",
        "    if not _is_free(volume, instance_id):",
        "    if False:",
    ),
    planted(
        _ATTACH,
        "_is_attached",
        "a node serves while a volume is still being attached",
        "attachment.state == ATTACHED",
        "bool(attachment.state)",
    ),
    planted(
        "repair/successor/sources.py",
        "_fits",
        "a spare in another zone than the volumes is taken",
        "not zones or in_zones(context, spare, zones)",
        "True",
    ),
    planted(
        "repair/successor/launch.py",
        "taken_spare",
        "a spare that no volume can be attached to stays with its case",
        "if taken is not None and not fits(taken):",
        "if False:",
    ),
    planted(
        "repair/volumes/detach.py",
        "refuse_unmovable",
        "a repair of a provider that moves no volumes is tried again and again",
        "if not context.moves_volumes or not context.lacks_volumes:",
        "if True:",
    ),
    planted(
        "repair/steps/return_to_service.py",
        "return_to_service",
        "a node serves without its volumes",
        "return missing or _uncordon(context)",
        "return _uncordon(context)",
    ),
    planted(
        _ZONES,
        "refuse_release",
        "the old instance is released although its successor is in another zone",
        "if reason else None",
        "if False else None",
    ),
    planted(
        _DETACH,
        "_detach",
        "a volume that lost its tag on its way is called for like one with a tag",
        "if not volume.tagged:",
        "if False:",
    ),
    planted(
        _DETACH,
        "_detach",
        "a volume that no role may detach is tried for ever",
        "if answer.failure is not None and not answer.failure.retriable:",
        "if False:",
    ),
    planted(
        _DETACH,
        "_detach",
        "an instance is released although a volume of its node was deleted",
        "    if gone:",
        "    if False:",
    ),
    planted(
        _ATTACH,
        "_is_lost",
        "a node waits for ever for a volume that lost its tag",
        "return volume is None or not (volume.tagged or volume.on(instance_id))",
        "return volume is None",
    ),
    planted(
        _ATTACH,
        "attach_volumes",
        "a node serves after its volume was refused",
        "    if refused is not None:",
        "    if False:",
    ),
)
"""The guards of volumes, each left out; `tests/scenarios/repair/test_volumes.py` notices each of them."""

_SOURCES = "repair/successor/sources.py"
_CAPACITY = "repair/successor/capacity.py"
_LAUNCH = "repair/successor/launch.py"
CAPACITY_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _SOURCES,
        "decision",
        "an instance is released for a source that has none free",
        "if free and not self._ends_soon",
        "if not self._ends_soon",
    ),
    planted(
        _SOURCES,
        "decision",
        "an instance is released for a capacity block that ends within the hour",
        "if free and not self._ends_soon",
        "if free",
    ),
    planted(
        _SOURCES,
        "decision",
        "a source that the provider does not have counts as capacity",
        "if self.found.evidence is CapacityEvidence.ABSENT:\n            return Decision.ABSENT",
        "if self.found.evidence is CapacityEvidence.ABSENT:\n            return Decision.USED",
    ),
    planted(
        _SOURCES,
        "decision",
        "capacity that only a launch shows counts as proven",
        "return Decision.UNKNOWN",
        "return Decision.USED",
    ),
    planted(
        _SOURCES,
        "ask_sources",
        "the sources are not asked in the order of the policy",
        "for source in context.rules.policy.capacity:",
        "for source in sorted(context.rules.policy.capacity):",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "a rule releases an instance although every source has nothing free",
        "if Decision.NONE_FREE in decisions and Decision.UNKNOWN not in decisions:",
        "if False:",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "a case waits for capacity although a source is unknown",
        "if Decision.NONE_FREE in decisions and Decision.UNKNOWN not in decisions:",
        "if Decision.NONE_FREE in decisions:",
    ),
    planted(
        _SOURCES,
        "ask_sources",
        "a case waits for capacity although its successor runs",
        "if present is not None:",
        "if False:",
    ),
    planted(
        _LAUNCH,
        "types_to_launch",
        "an instance type is launched that the policy does not name",
        "return chosen or types[:1]",
        "return types",
    ),
    planted(
        _LAUNCH,
        "types_to_launch",
        "another type is launched than the one that the reservation has",
        "(old,) if used in RESERVATIONS",
        "() if used in RESERVATIONS",
    ),
    planted(
        _LAUNCH,
        "launch_request",
        "a change of the policy changes the request of a token",
        "types = context.attempt.instance_types or types_to_launch(context)",
        "types = types_to_launch(context)",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "an instance is given up without evidence of capacity",
        "if useless and all(rule.release_without_capacity for rule in rules) and not demanded:",
        "if True:",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "an instance is released on demand although the policy names only reservations",
        "if useless and all(rule.release_without_capacity for rule in rules) and not demanded:",
        "if useless and all(rule.release_without_capacity for rule in rules):",
    ),
    planted(
        _SOURCES,
        "_provided",
        "one free instance permits several releases",
        "pending=count_pending(context)",
        "pending=0",
    ),
    planted(
        _CAPACITY,
        "is_left",
        "two repairs that ask at once use the same free instance",
        "return found.used.is_enough_for(count_pending(context, control))",
        "return True",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "an instance that still works is given up without evidence of capacity",
        "if useless and all(rule.release_without_capacity for rule in rules) and not demanded:",
        "if all(rule.release_without_capacity for rule in rules) and not demanded:",
    ),
    planted(
        _CAPACITY,
        "find_capacity",
        "an approval of a release without evidence has no effect",
        "if context.case.approves(context.case.repair_action, context.case.attempts):",
        "if False:",
    ),
    planted(
        _CAPACITY,
        "requeue_without_capacity",
        "other replacements start in a group without capacity",
        "_mark_group(context, dry=True)",
        "pass",
    ),
    planted(
        "pipeline/decide/admit.py",
        "_check_capacity",
        "a group without capacity is tried again at once",
        "if not trying and no_capacity_until[group] <= request.now:",
        "if not trying:",
    ),
    planted(
        "repair/steps/release_instance.py",
        "_finish_released",
        "replacements wait although their group has capacity again",
        "capacity.mark_available(context)",
        "pass",
    ),
)
"""The guards of capacity, each left out; `tests/scenarios/repair/test_capacity_sources.py` notices each of them."""

_UPDATES = "pipeline/decide/provider_conditions.py"
UPDATE_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "pipeline/decide/admit.py",
        "_check_update",
        "a repair competes with an update of the group",
        "if hold is None or not queued.repair_action.needs_slot:",
        "if True:",
    ),
    planted(
        "repair/attempt/intent.py",
        "stop_for_update",
        "a running repair passes its intent although an update of the group began",
        "if hold is None or not context.case.repair_action.needs_slot:",
        "if True:",
    ),
    planted(
        "pipeline/decide/opt_out.py",
        "deferred_until",
        "a node that leaves in an update opens a case",
        "if is_absence(condition) else None",
        "if False else None",
    ),
    planted(
        "pipeline/decide/decide.py",
        "_case_condition",
        "an absence in an update hides a fatal fault",
        "found = [one for one in found if not is_absence(one)] or found",
        "found = [one for one in found if is_absence(one)] or found",
    ),
    planted(
        _UPDATES,
        "_running",
        "an update that never ends holds repairs for ever",
        "return UpdateHold(name, since, since + limits.update_deadline)",
        "return UpdateHold(name, since, now + limits.update_deadline)",
    ),
    planted(
        _UPDATES,
        "_running",
        "an update that is overdue begins again",
        "known = before.since if before is not None and before.running else now",
        "known = now",
    ),
    planted(
        _UPDATES,
        "_ended",
        "repairs wait for an update that has ended",
        "until = now + limits.update_grace if before.running else before.until",
        "until = before.until",
    ),
    planted(
        _UPDATES,
        "_ended",
        "the grace period after an update begins again at each sync",
        "until = now + limits.update_grace if before.running else before.until",
        "until = now + limits.update_grace",
    ),
    planted(
        "incidents/affected_nodes.py",
        "affected_nodes",
        "an update of many nodes is an incident",
        "if not updated or one.family is not Family.HEARTBEAT",
        "if True",
    ),
    planted(
        "ops/postponed_cases.py",
        "postponed_too_long",
        "a node that stays silent after an update gets its case only at the deadline of the update",
        "if stored is not None and stored > max(",
        "if False and stored > max(",
    ),
    planted(
        "registry/retirement.py",
        "is_replaced",
        "a node is retired although its group still lacks an instance",
        "and reported.complete and",
        "and",
    ),
    planted(
        "registry/retirement.py",
        "is_replaced",
        "a node is retired without an update of its group",
        "updated = config.update_hold(group.name, now) is not None",
        "updated = True",
    ),
)
"""The guards of updates, each left out; `tests/scenarios/provider/test_group_updates.py` notices each of them."""

_OWNER, _DETECTION = "registry/repair_owner.py", "registry/replacement_detection.py"
RIVAL_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _OWNER,
        "owner_conflict",
        "a rival that repairs beside Faultbridge is no conflict",
        "if setting.repairs and config.repair_owner is RepairOwner.FAULTBRIDGE:",
        "if False:",
    ),
    planted(
        _OWNER,
        "owner_conflict",
        "a provider that repairs nothing is no conflict",
        "if not setting.repairs and config.repair_owner is RepairOwner.PROVIDER:",
        "if False:",
    ),
    planted(
        _OWNER,
        "check_repair_owner",
        "a cluster is registered beside a rival",
        "    if conflict is not None:\n        other",
        "    if False:\n        other",
    ),
    planted(
        _OWNER,
        "check_repair_owner",
        "a cluster whose provider changes is not checked again",
        "unchanged = before is not None and all(",
        "unchanged = before is not None and any(",
    ),
    planted(
        "registry/provider_check.py",
        "ProviderCheck.__call__",
        "a rival that is turned on later is not recorded",
        "if conflict is not None:",
        "if False:",
    ),
    planted(
        _DETECTION,
        "ReplacementDetection.attach_replacement",
        "an instance that a rival launched takes a node from its repair",
        "if not may_change_instance(state) or _is_backed_by(",
        "if _is_backed_by(",
    ),
    planted(
        _DETECTION,
        "ReplacementDetection.vacate",
        "a node whose repair runs is taken out of that repair when a rival terminates its instance",
        "under_repair = state.live_case is not None and not waits_for_provider(state)",
        "under_repair = False",
    ),
    planted(
        _DETECTION,
        "_replaced",
        "an instance that a rival launched serves without a verification",
        "return require_verification(transition, CODE, reason, rules, now, external=True)",
        "return transition",
    ),
)
"""The guards against rivals, each left out; tests of `tests/scenarios/provider` notice each of them."""

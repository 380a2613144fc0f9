"""The guards of successors and restarts: spares for lost instances, and what counts against a successor."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

SUCCESSOR_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "repair/successor/sources.py",
        "ask_spare_pool",
        "two spares that cannot be claimed are tried in turn, and no successor is launched",
        "taken = _taken(context, instance_id) if context.attempt.spare is None else None",
        "taken = _taken(context, instance_id)",
    ),
    planted(
        "repair/successor/provide.py",
        "provide_successor",
        "a node whose instance is gone waits for a launch beside a ready spare",
        "taken = _take_spare(context, group) if is_first else None",
        "taken = None",
    ),
    planted(
        "repair/successor/provide.py",
        "provide_successor",
        "a spare is used although the policy does not list the pool",
        " or CapacitySource.SPARE_POOL not in sources",
        "",
    ),
    planted(
        "repair/steps/await_successor.py",
        "_claim_candidate",
        "a spare is claimed before it is tagged with its case",
        "if untagged is not None:",
        "if False:",
    ),
    planted(
        "repair/successor/claim.py",
        "_backs_since",
        "faults before the release count against a successor after a failed reset",
        "is_of_restart = attempt.intent is not None and acted_at < attempt.intent.at",
        "is_of_restart = False",
    ),
    planted(
        "repair/steps/repair_in_place.py",
        "_check_restart",
        "a restart whose answer was lost is never recorded as begun",
        "if restart.state in STARTED and restart.operation is not None and context.attempt.operation is None:",
        "if False:",
    ),
)

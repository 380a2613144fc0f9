"""Which situations a seed has, the systems that they need, and the actions that they add to its plan."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from random import Random

from tests.sim.environment.action_plan import ExternalAction, with_kinds


class Situation(StrEnum):
    """The situations of a run. A seed has none, one, or two of them, and rarely `versions` or `jobs` too."""

    CLAIMS = "claims"
    STORM = "storm"
    LISTING = "listing"
    SHORTAGE = "shortage"
    SCALE_IN = "scale_in"
    RESTORE = "restore"
    SPOOL = "spool"
    ORDERS = "orders"
    TRIALS = "trials"
    POLICIES = "policies"
    MODES = "modes"
    CLOCKS = "clocks"
    SCHEDULES = "schedules"
    ANSWERS = "answers"
    VERSIONS = "versions"
    JOBS = "jobs"


SHARE, KINDS_SHARE, RARE_SHARE = 0.5, 0.3, 0.1
"""The share of seeds with a situation, and the shares of their actions that a situation replaces."""

LATER: Mapping[Situation, float] = {Situation.VERSIONS: 0.05, Situation.JOBS: 0.1}
"""The situations that have a draw of their own, so that the other seeds keep their histories, and their shares."""

LARGE_SHARE = 0.05
"""The share of seeds with a large cluster, which has 40 to 64 nodes."""

LARGE_STEPS = 16
"""The number of actions of a run with a large cluster, whose calls take much longer."""

KINDS: Mapping[Situation, tuple[str, ...]] = {
    Situation.CLAIMS: (
        "claim", "claim_wave", "claim_wave", "claim_repeated", "claim_joined", "claim_joined", "claim_on_work",
        "forged_text", "work_begins", "hours_pass",
    ),
    Situation.STORM: ("links_lost_for_long", "links_lost_for_long", "hours_pass"),
    Situation.LISTING: ("launch_lost", "launch_lost", "launch_lost", "hours_pass"),
    Situation.SHORTAGE: ("lasting_shortage", "break_nodes", "hours_pass", "hours_pass"),
    Situation.SCALE_IN: ("scale_in", "scale_in", "hours_pass"),
    Situation.RESTORE: ("restore", "restore", "break_nodes", "hours_pass"),
    Situation.SPOOL: ("spooled_report",),
    Situation.ORDERS: ("replace_seen",),
    Situation.TRIALS: ("bad_image", "hours_pass"),
    Situation.POLICIES: ("policy_change", "policy_change", "policy_broken"),
    Situation.MODES: ("mode_change",),
    Situation.CLOCKS: ("worker_clocks", "clock_jump", "clock_jump"),
    Situation.SCHEDULES: ("sweeps_stop", "hours_pass"),
    Situation.ANSWERS: ("not_found", "break_nodes"),
    Situation.VERSIONS: ("deployment", "deployment", "break_nodes", "claim"),
    Situation.JOBS: ("job_begins", "job_begins", "work_endangered", "work_endangered", "hours_pass"),
}  # fmt: skip
"""The kinds of actions that each situation adds."""

BY_TEMPLATE = frozenset({Situation.LISTING, Situation.RESTORE})
RACKED = frozenset({Situation.STORM, Situation.TRIALS})
GROUPED = frozenset({Situation.SHORTAGE, Situation.SCALE_IN})
MORE_NODES = frozenset({Situation.CLAIMS, Situation.SHORTAGE, Situation.RESTORE, Situation.SCALE_IN})
"""Situations that need a cluster with a launch template, with racks, with a group that launches the successors, or
with more than three nodes."""


OWN_PORTS = frozenset({Situation.CLOCKS, Situation.VERSIONS})
"""Situations in which each process has a clock and a version of the code of its own."""

RARE = frozenset({Situation.SPOOL, Situation.MODES, Situation.POLICIES, Situation.SCHEDULES, Situation.CLOCKS})
"""Situations that replace fewer actions, because each of theirs takes long or lasts for hours."""


@cache
def draw_situations(seed: int) -> frozenset[Situation]:
    """Draw the situations of a seed."""
    random = Random(f"situations {seed}")
    later = {one for one, share in LATER.items() if Random(f"{one} {seed}").random() < share}
    if random.random() >= SHARE:
        return frozenset(later)
    first, second = random.sample([one for one in Situation if one not in LATER], 2)
    needs = [one for one in (BY_TEMPLATE, RACKED, GROUPED) if {first, second} & one]
    # Two situations that need different systems exclude each other.
    return frozenset(later | {first} | ({second} if random.random() < SHARE and len(needs) <= 1 else set()))


def draw_large(seed: int) -> int | None:
    """Draw the number of nodes of a large cluster; None for the other seeds."""
    random = Random(f"large {seed}")
    return random.randint(40, 64) if random.random() < LARGE_SHARE else None


def with_situations(seed: int, actions: tuple[ExternalAction, ...]) -> tuple[ExternalAction, ...]:
    """Replace some actions of a plan by those of the situations of its seed."""
    for situation in sorted(draw_situations(seed)):
        share = RARE_SHARE if situation in RARE else KINDS_SHARE
        actions = with_kinds(actions, KINDS[situation], share, Random(f"{situation} {seed}"))
    return actions if draw_large(seed) is None else actions[:LARGE_STEPS]

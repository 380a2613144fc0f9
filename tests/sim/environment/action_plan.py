"""The plan of external actions of a run, which is drawn from the seed before the run starts.

An action contains numbers instead of names: when the action runs, a number selects one of the existing instances. A
plan with fewer actions equals the beginning of a longer plan of the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from faultbridge.model.values import replace
from tests.sim.environment.samples import SAMPLES


@dataclass(frozen=True, slots=True)
class ExternalAction:
    """One external action: its kind, its parameters, and the seconds since the previous action (`gap`).

    The kind defines the meaning of the parameters. `subject` is the name of a sample (a kind of record) or of a port.
    `selector` is a number that selects one of several objects or variants, usually modulo their number. `fraction` is a
    number from 0 to 1 that sets a duration or an amount, or makes a random choice.
    """

    gap: float
    kind: str
    subject: str = ""
    selector: int = 0
    fraction: float = 0.0


_KIND_WEIGHTS: Mapping[str, int] = {
    "report": 46,
    "repeated_report": 6,
    "late_report": 3,
    "unregistered_report": 3,
    "malformed_message": 3,
    "redrive": 4,
    "register_node": 2,
    "pause_repairs": 2,
    "resume_repairs": 2,
    "change_limits": 1,
    "provider_failure": 5,
    "restart_failure": 3,
    "external_termination": 2,
    "verification_result": 4,
    "orchestrator_failure": 4,
    "capacity_change": 2,
    "bad_arrival": 3,
    "running_job": 2,
    "abort_execution": 3,
    "port_outage": 3,
    "days_pass": 1,
    "retry_rejects": 1,
    "approve": 8,
    "deny": 2,
    "cancel": 3,
    "replace": 3,
    "quarantine": 3,
    "return": 5,
    "ignore": 3,
    "heed": 3,
    "retire": 1,
    "close_breakers": 1,
    "heartbeats": 4,
    "stop_heartbeats": 2,
    "own_reboot": 2,
    "mass_report": 2,
    "alert_group": 2,
    "many_conditions": 2,
}
"""The kinds of actions with their weights; the environment has a method for each kind."""

_DOMAIN_KINDS = ("links_lost", "links_lost", "links_lost_during_repair", "many_own_faults")
_DOMAIN_SHARE = 0.12
"""The share of actions that are faults of a failure domain, in clusters with racks."""

_GROWTH_KINDS = ("growth", "growth", "growth_during_pause", "growth_during_import", "growth_during_incident")
_GROWTH_SHARE = 0.1
"""The share of actions that add instances, in clusters whose group grows."""

_OWNER_KINDS = ("group_update", "group_update", "rival_repair")
_OWNER_SHARE = 0.08
"""The share of actions of the group's owner, in clusters whose group grows."""

_CAPACITY_KINDS = ("reservation_change", "reservation_change", "spares_used_up")
_CAPACITY_SHARE = 0.06
"""The share of actions about capacity, in clusters whose capacity is limited at times."""

_VOLUME_KINDS = ("volume_failure", "volume_failure", "volume_stuck", "volume_outage", "volume_tag_lost")
_VOLUME_SHARE = 0.08
"""The share of actions about volumes, in clusters whose policy moves volumes."""

_PORTS = (
    "table", "bus", "queue", "objects", "workflow", "pager", "provider", "restarter", "collector", "orchestrator",
    "verifier", "receipts",
)  # fmt: skip


def draw_plan(
    seed: int,
    steps: int,
    mean_gap: float,
    *,
    racks: bool = False,
    growing: bool = False,
    owned: bool = False,
    reserving: bool = False,
    volumes: bool = False,
) -> tuple[ExternalAction, ...]:
    """Draw the plan of a seed: `steps` external actions in the order of time.

    `mean_gap` is the mean time in seconds between two actions that do not start at the same time.

    Each flag replaces some of the actions by actions of further kinds. `racks` adds faults of failure domains,
    `growing` adds growth of the group, `owned` adds actions of the group's owner, `reserving` adds changes of the
    capacity, and `volumes` adds failures of volumes.
    """
    random = Random(f"plan {seed}")
    kinds, samples = _expand(_KIND_WEIGHTS), _expand({name: sample.weight for name, sample in SAMPLES.items()})
    actions = tuple(_draw_action(random, kinds, samples, mean_gap) for _ in range(steps))
    for wanted, others, share, text in (
        (racks, _DOMAIN_KINDS, _DOMAIN_SHARE, "domain faults"),
        (growing, _GROWTH_KINDS, _GROWTH_SHARE, "growth"),
        (owned, _OWNER_KINDS, _OWNER_SHARE, "owner"),
        (reserving, _CAPACITY_KINDS, _CAPACITY_SHARE, "capacity"),
        (volumes, _VOLUME_KINDS, _VOLUME_SHARE, "volume failures"),
    ):
        actions = with_kinds(actions, others, share, Random(f"{text} {seed}")) if wanted else actions
    return actions


def with_kinds(
    actions: tuple[ExternalAction, ...], kinds: tuple[str, ...], share: float, random: Random
) -> tuple[ExternalAction, ...]:
    """Replace a share of the actions by actions of other kinds, with the same parameters and times."""
    drawn = [(random.random(), random.choice(kinds)) for _ in actions]
    return tuple(
        replace(action, kind=kind) if number < share else action
        for action, (number, kind) in zip(actions, drawn, strict=True)
    )


def _draw_action(random: Random, kinds: list[str], samples: list[str], mean_gap: float) -> ExternalAction:
    kind = random.choice(kinds)
    gap = random.expovariate(1 / mean_gap) if random.random() < 0.8 else 0.0
    subject = random.choice(_PORTS) if kind == "port_outage" else random.choice(samples)
    return ExternalAction(round(gap, 3), kind, subject, random.randrange(1000), round(random.random(), 4))


def _expand(weights: Mapping[str, int]) -> list[str]:
    """Return each name as many times as its weight, so that `random.choice` draws the names by weight."""
    return [name for name, weight in weights.items() for _ in range(weight)]

"""From every reachable state of node, case and isolation, time or a listed command leads to a final state.

`tests.scenarios.exploration` explores further: `python -m tests.scenarios.exploration 600`.
"""

from __future__ import annotations

import pytest

from faultbridge.model.cluster.state import BreakerState
from tests.scenarios.exploration import ACTS, KINDS, PAIR, PAIR_ACTS, Explored, check_way_out, explore, world_of


def check_states(kind: str, number: int) -> set[str]:
    """Check that so many states, the first that are reached, have a way out; returns what limited repairs in them."""
    explored, limits = 0, set()
    for path, world in explore(kind, lambda states: states <= number):
        explored += 1
        limits |= safety(world)
        try:
            check_way_out(world)
        except AssertionError as error:
            pytest.fail(f"{kind} {path}: {error}")
    assert explored == number
    return limits


@pytest.mark.parametrize("kind", KINDS)
def test_from_every_state_time_or_a_listed_command_leads_to_a_final_one(kind: str) -> None:
    check_states(kind, 20)


def safety(world: Explored) -> set[str]:
    """Return what limits the repairs of a cluster now."""
    control = world.control()
    is_open = any(one.state is BreakerState.OPEN for one in control.breakers.values())
    limits = {"breaker": is_open, "budget": control.budget_used_up, "incident": bool(control.holds)}
    return {name for name, limits_now in limits.items() if limits_now}


def test_from_every_state_of_two_nodes_both_reach_a_final_one() -> None:
    assert check_states(PAIR, 40) == {"breaker", "budget", "incident"}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_from_many_states_of_two_nodes_both_reach_a_final_one() -> None:
    check_states(PAIR, 1500)


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        (("fatal 1", "fatal 2"), []),
        (("links down", "fatal 1", "fatal 2"), []),
        (("fatal 1", "hour", "fatal 2", "cancel 2"), []),
        (("fatal 1", "fatal 2", "pause"), ["resume --cluster"]),
    ],
)
def test_two_nodes_that_fail_together_both_serve_again(path: tuple[str, ...], commands: list[str]) -> None:
    world = world_of(PAIR)
    for name in path:
        PAIR_ACTS[name](world)
    given = [" ".join(command.split()[1:3]) for command in check_way_out(world)]
    assert sorted(given) == sorted(commands)


@pytest.mark.parametrize(
    ("kind", "path", "commands"),
    [
        # A dry run resolved the case of an isolated node, which was then without a case and without a command.
        ("plain", ("support", "dry run", "return"), ["cluster set"]),
        ("plain", ("pause", "fatal", "dry run", "minute"), ["cluster set", "resume --cluster"]),
        # Where the provider repairs, no command moved an escalated case.
        ("provider", ("support",), ["node return"]),
        ("provider", ("fatal", "cancel"), []),
        # An instance was replaced while the cluster observed, and its node kept the cordon or the case of the former.
        ("plain", ("cordon without answer", "observe", "replaced externally"), ["cluster set"]),
        ("asking", ("cordon without answer", "observe", "replaced externally"), ["cluster set"]),
        # The defects of test_no_case_is_stuck.py.
        ("waiting", ("fatal", "cancel"), []),
        ("asking", ("reboot", "fatal", "minute"), ["case approve"]),
        ("asking", ("fatal", "replaced externally"), []),
        ("plain", ("fatal", "ignore", "pause", "hour"), []),
        ("plain", ("pause", "fatal", "ignore"), ["node ignore", "resume --cluster"]),
    ],
)
def test_states_that_once_had_no_way_out_have_one(kind: str, path: tuple[str, ...], commands: list[str]) -> None:
    world = world_of(kind)
    for name in path:
        ACTS[name](world)
    given = [" ".join(command.split()[1:3]) for command in check_way_out(world)]
    assert given[: len(commands)] == commands
    assert bool(given) is bool(commands)

"""From every reachable state of node, case and isolation, time or a listed command leads to a final state.

`tests.scenarios.exploration` explores further: `python -m tests.scenarios.exploration 600`.
"""

from __future__ import annotations

import pytest

from tests.scenarios.exploration import ACTS, KINDS, check_way_out, explore, world_of


@pytest.mark.parametrize("kind", KINDS)
def test_from_every_state_time_or_a_listed_command_leads_to_a_final_one(kind: str) -> None:
    explored = 0
    for path, world in explore(kind, lambda states: states <= 20):
        explored += 1
        try:
            check_way_out(world)
        except AssertionError as error:
            pytest.fail(f"{kind} {path}: {error}")
    assert explored == 20


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

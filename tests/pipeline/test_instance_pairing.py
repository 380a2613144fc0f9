"""Which machine sits in which node: nobody takes what a repair waits for, nobody sits twice."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.pipeline.decide.instance_pairing import Newcomer, Vacancy, pair
from tests.builders import NOON


def newcomers(number: int, **others: str) -> list[Newcomer]:
    return [Newcomer(f"i-{one}", NOON + timedelta(minutes=one), **others) for one in range(number)]


def test_the_youngest_machine_is_left_to_a_repair_the_oldest_takes_the_free_node() -> None:
    pairing = pair([Vacancy("free"), Vacancy("under-repair", held=True)], newcomers(2))
    assert pairing.seated == (("free", "i-0"),)
    assert pairing.waiting == ("i-1",)


def test_what_nobody_waits_for_makes_a_node_of_its_own() -> None:
    assert pair([Vacancy("free")], newcomers(3)).added == ("i-1", "i-2")


def test_a_machine_takes_the_node_in_its_own_zone_first() -> None:
    free = [Vacancy("a", zone="z-1"), Vacancy("b", zone="z-2")]
    machines = [Newcomer("i-1", NOON, "z-2"), Newcomer("i-2", NOON + timedelta(minutes=1), "z-1")]
    assert dict(pair(free, machines).seated) == {"a": "i-2", "b": "i-1"}


def test_a_node_that_the_provider_itself_names_gets_only_its_own_machine() -> None:
    seats = [Vacancy("a", slot="s-1"), Vacancy("b", slot="s-2", held=True)]
    machines = [Newcomer("i-1", slot="s-1"), Newcomer("i-2", slot="s-2"), Newcomer("i-3", slot="s-3")]
    pairing = pair(seats, machines)
    assert (pairing.seated, pairing.waiting, pairing.added) == ((("a", "i-1"),), ("i-2",), ("i-3",))


vacancies = st.lists(
    st.builds(Vacancy, st.text("abcdef", min_size=1), held=st.booleans(), proven=st.booleans()),
    max_size=8,
    unique_by=lambda one: one.node,
)


@given(vacancies, st.integers(0, 12))
def test_every_machine_goes_one_way_and_every_node_under_repair_keeps_its_chance(seats: list[Vacancy], number: int):
    pairing = pair(seats, newcomers(number))
    seated = [machine for _, machine in pairing.seated]
    assert sorted([*seated, *pairing.added, *pairing.waiting]) == sorted(f"i-{one}" for one in range(number))
    open_ = {placement.node for placement in seats if placement.open}
    assert {node for node, _ in pairing.seated} <= open_
    assert len(pairing.seated) == len({node for node, _ in pairing.seated})
    assert len(pairing.waiting) == min(len(seats) - len(open_), number)
    if pairing.added:
        assert {node for node, _ in pairing.seated} == open_

"""Phases of a case: waits and the parts of each attempt, so that no attempt and no wait is missing."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from faultbridge.model.enums import RepairAction
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.serve.presentation.case_page import CasePage, case_page
from tests.presentation.histories import case_of, replaced
from tests.scenarios.world import World

FULL = Capacity(CapacityEvidence.RESERVATION, free=False, reason="the reservation is in use")
BAD = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
KEEP = Rule("keep", release_without_capacity=False)


def page_of(world: World) -> CasePage:
    return case_page(case_of(world), world.clock.now())


def without_capacity() -> World:
    world = World(nodes=1, rules=(KEEP,))
    world.provider.known_capacity = FULL
    world.fault_and_react(minutes=33)
    return world


def repaired_at_the_second_attempt() -> World:
    world = World(nodes=1)
    world.verifier.results[f"i-{2:017x}"] = BAD
    world.fault_until_resolved()
    return world


def running() -> World:
    world = World(nodes=1)
    world.fault_and_react(minutes=1)
    return world


def in_progress(page: CasePage) -> list[str]:
    return [lane.name for lane in page.phases.lanes if any(bar.running for bar in lane.bars)]


def test_a_case_that_waits_for_capacity_shows_its_wait_and_no_drain() -> None:
    page = page_of(without_capacity())
    (lane,) = page.phases.lanes
    assert lane.name == "wait: capacity of the provider"
    assert lane.note == "33 min"
    assert in_progress(page) == [lane.name]


def test_a_failed_attempt_is_shown_before_the_one_that_succeeded() -> None:
    names = [lane.name for lane in page_of(repaired_at_the_second_attempt()).phases.lanes]
    assert [name for name in names if name.startswith("attempt")] == [
        "attempt 1: wait for the successor",
        "attempt 1: diagnostics",
        "attempt 2: wait for the successor",
        "attempt 2: diagnostics",
    ]


def test_a_running_attempt_shows_what_it_does() -> None:
    (name,) = in_progress(page_of(running()))
    assert name.startswith("attempt 1: ")
    assert name != "attempt 1: end"


@pytest.mark.parametrize("build", [replaced, without_capacity, repaired_at_the_second_attempt, running])
def test_the_phases_cover_the_time_of_the_case_without_gap_or_overlap(build) -> None:
    world = build()
    page = page_of(world)
    bars = sorted((bar for lane in page.phases.lanes for bar in lane.bars), key=lambda bar: bar.start)
    assert all(before.end == after.start for before, after in pairwise(bars))
    assert (bars[0].start, bars[-1].end) == (page.case.opened_at, page.case.closed_at or world.clock.now())


def test_a_case_whose_first_entries_are_missing_shows_the_phases_that_it_keeps_itself() -> None:
    found = case_of(replaced())
    later = [one for one in found.entries if getattr(one.data, "to", None) not in {"open", "queued", "in_progress"}]
    page = case_page(replace(found, entries=later, older=True), found.now + timedelta(days=1))
    assert [lane.name for lane in page.phases.lanes][-1] == "verifying"


def test_an_approval_that_was_answered_is_a_wait_of_its_own() -> None:
    world = World(nodes=1, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react(minutes=5)
    assert [lane.name for lane in page_of(world).phases.lanes] == ["wait: approval by an operator"]

"""Many troubles at once: what a person's pocket hears of them in an hour, and that no trouble is silent."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.errors import Transient
from faultbridge.pager.deliver import Paging
from faultbridge.pager.notification_log import Fate
from faultbridge.pager.page import PagerSettings
from faultbridge.pager.remind import Remind
from faultbridge.ports import PageMessage, PageUrgency
from faultbridge.simulation.fakes import FakePager, FakeTable, ManualClock, breaking
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put
from tests.pages import BREAKER, case_event, incident

CLUSTER = "train-a"
LIMIT = 10
SUMMARY = f"{CLUSTER}:summary:urgent"


class Pocket:
    """A pager's services over fakes, one of the person's minutes after the other."""

    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.table, self.pager = FakeTable(self.clock), FakePager()
        how = PagerSettings(**settings)  # type: ignore[arg-type]  # what a test says of them
        self.paging = Paging(self.table, self.pager, self.clock, how)
        self.remind = Remind(self.table, self.pager, self.clock, how)
        listed = items.item(keys.cluster_listed(CLUSTER), self.clock.now(), {"cluster": ClusterConfig(CLUSTER).cluster})
        self.table.write(Put(listed))

    def minutes(self, number: int) -> None:
        """Let minutes pass, each with its round."""
        for _ in range(number):
            self.clock.advance(timedelta(minutes=1))
            self.remind()

    @property
    def said(self) -> list[str]:
        """Each page in short."""
        return [f"{page.key} {page.attributes['state']}" for page in self.pager.sent]

    @property
    def live(self) -> set[str]:
        """The keys whose last word was that they are triggered."""
        last = {page.key: page.attributes["state"] for page in self.pager.sent}
        return {key for key, state in last.items() if state == "triggered"}

    def heard(self) -> set[str]:
        """The keys that were triggered, in pages of their own or by name in a summary."""
        named = {member["key"] for page in self.pager.sent for member in json.loads(page.bodies["sqs"])["members"]}
        return named | {page.key for page in self.pager.sent if page.attributes["state"] == "triggered"}


def stuck(number: int, sequence: int = 12, to: str = "escalated", **data: object) -> dict[str, object]:
    """The case of one node of many that goes to a person, or moves on from there."""
    before = {"escalated": "in_progress"}.get(to, "escalated")
    return case_event(to, sequence, node=f"gpu-{number:04}", case=f"c-{number:026}", **{"from": before, **data})


def a_key(number: int) -> str:
    """The key of its page."""
    return f"c-{number:026}:escalated"


def test_a_thousand_cases_in_an_hour_stay_within_the_limit_and_none_is_silent() -> None:
    pocket, random = Pocket(), Random(7)
    arrivals = sorted(random.uniform(0, 60) for _ in range(1000))
    for number, at in enumerate(arrivals):
        while (pocket.clock.now() - ManualClock().now()) < timedelta(minutes=int(at)):
            pocket.minutes(1)
        pocket.paging(stuck(number))
    pocket.minutes(6)
    own = [page for page in pocket.pager.sent if page.key != SUMMARY]
    summaries = [page for page in pocket.pager.sent if page.key == SUMMARY]
    assert len(own) <= 2 * LIMIT, "two clock hours are touched"
    assert len(summaries) <= 14, "one each five minutes of 66"
    pocket.minutes(6)
    assert pocket.heard() - {SUMMARY} == {a_key(number) for number in range(1000)}


def test_a_burst_is_named_to_the_last_case_and_says_at_once_how_many_there_are() -> None:
    pocket = Pocket()
    for number in range(300):
        pocket.paging(stuck(number))
    pocket.minutes(1)
    assert "290 cases are live without a page of their own" in pocket.pager.sent[-1].bodies["email"]
    pocket.minutes(15)
    assert pocket.heard() - {SUMMARY} == {a_key(number) for number in range(300)}
    assert len(pocket.pager.sent) == LIMIT + 3


def test_the_summary_ends_when_the_last_of_its_cases_has_and_their_ends_are_quiet() -> None:
    pocket = Pocket()
    for number in range(12):
        pocket.paging(stuck(number))
    pocket.minutes(1)
    for number in range(11):
        pocket.paging(stuck(number, 20, "resolved", resolution="by_operator"))
    pocket.minutes(6)
    assert pocket.live == {SUMMARY}
    ended = pocket.paging(stuck(11, 20, "resolved", resolution="by_operator"))
    assert Fate.QUIET in {one.fate for one in ended}
    pocket.minutes(1)
    assert pocket.live == set()
    pocket.minutes(600)
    assert len(pocket.pager.sent) == 2 * LIMIT + 2


def test_what_ended_before_the_summary_is_in_none() -> None:
    pocket = Pocket()
    for number in range(11):
        pocket.paging(stuck(number))
    pocket.paging(stuck(10, 20, "resolved"))
    pocket.minutes(10)
    assert SUMMARY not in {page.key for page in pocket.pager.sent}


def test_another_hour_has_pages_of_its_own() -> None:
    pocket = Pocket(max_per_hour=1)
    for number in range(2):
        pocket.paging(stuck(number))
        pocket.clock.advance(timedelta(hours=1))
    assert pocket.live == {a_key(0), a_key(1)}


def test_what_is_about_the_whole_cluster_is_never_held_back() -> None:
    pocket = Pocket(max_per_hour=1)
    for number in range(3):
        pocket.paging(stuck(number))
    pocket.paging(BREAKER)
    pocket.paging(incident("opened"))
    assert pocket.said[1:] == ["train-a:breaker triggered", "train-a:incident:switch-leaf-7 triggered"]


def test_a_cluster_incident_with_64_absorbed_cases_is_two_pages() -> None:
    pocket = Pocket()
    nodes = [(f"gpu-{number:04}", f"c-{number:026}") for number in range(64)]
    for node, case in nodes:
        pocket.paging(case_event("open", 6, node=node, case=case, repair_action="verify"))
    pocket.paging(incident("opened"))
    for node, case in nodes:
        pocket.paging(case_event("absorbed", 8, node=node, case=case, **{"from": "open"}))
        pocket.paging(incident("grown", 4))
    pocket.minutes(5)
    pocket.paging(incident("closed", 8))
    for node, case in nodes:
        ended = {"from": "absorbed", "resolution": "recovered"}
        pocket.paging(case_event("resolved", 10, node=node, case=case, **ended))
    pocket.minutes(300)
    assert pocket.said == ["train-a:incident:switch-leaf-7 triggered", "train-a:incident:switch-leaf-7 resolved"]


def test_what_nobody_ends_is_said_again_under_its_key_every_four_hours() -> None:
    pocket = Pocket()
    pocket.paging(stuck(1))
    pocket.minutes(8 * 60 + 1)
    assert pocket.said == [f"{a_key(1)} triggered"] * 3
    assert "Reminder 2: nobody has ended this since 2026-02-03T04:05Z." in pocket.pager.sent[-1].bodies["email"]
    pocket.paging(stuck(1, 20, "resolved"))
    pocket.minutes(5 * 60)
    assert pocket.said[3:] == [f"{a_key(1)} resolved"]


def test_a_notice_is_not_said_again() -> None:
    pocket = Pocket()
    pocket.paging(case_event("queued", **{"from": "open"}))
    pocket.minutes(24 * 60)
    assert len(pocket.pager.sent) == 1


def test_a_summary_that_was_cut_short_is_said_again_under_its_key() -> None:
    pocket = Pocket(max_per_hour=1)
    for number in range(3):
        pocket.paging(stuck(number))
    pocket.table.seam.before = breaking(("table.write", Transient("throttled")))
    with pytest.raises(Transient):
        pocket.minutes(1)
    pocket.minutes(2)
    assert pocket.said[1:] == [f"{SUMMARY} triggered"] * 2
    assert pocket.heard() - {SUMMARY} == {a_key(number) for number in range(3)}


def test_a_page_whose_end_could_not_be_noted_is_not_said_again() -> None:
    pocket = Pocket()
    pocket.paging(stuck(1))
    pocket.table.seam.before = breaking(("table.transact", Transient("throttled")))
    assert not all(one.noted for one in pocket.paging(stuck(1, 20, "resolved")))
    pocket.minutes(5 * 60)
    assert pocket.said == [f"{a_key(1)} triggered", f"{a_key(1)} resolved"]
    assert pocket.remind().live == 0


def test_what_cannot_be_noted_as_held_back_comes_again() -> None:
    pocket = Pocket(max_per_hour=1)
    pocket.paging(stuck(0))
    pocket.table.seam.before = breaking(("table.transact", Transient("throttled")))
    with pytest.raises(Transient):
        pocket.paging(stuck(1))
    pocket.paging(stuck(1))
    pocket.minutes(1)
    assert a_key(1) in pocket.heard()


def test_without_the_table_the_limit_holds_in_memory_and_what_is_beyond_it_comes_again() -> None:
    pocket = Pocket()

    def down(_call: object) -> None:
        raise Transient("the table is down")

    pocket.table.seam.before = down
    for number in range(LIMIT):
        with pytest.raises(Transient, match="the table is down"):
            pocket.paging(stuck(number))
    with pytest.raises(Transient, match="10 pages are out"):
        pocket.paging(stuck(LIMIT))
    assert pocket.live == {a_key(number) for number in range(LIMIT)}
    with pytest.raises(Transient, match="the table is down"):
        pocket.paging(BREAKER)
    assert "train-a:breaker" in pocket.live


MOVES = ("escalated", "queued", "escalated", "resolved")


@given(st.permutations([(node, step) for node in range(3) for step in range(len(MOVES))]), st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_comes_twice_or_in_another_order_every_key_is_resolved_in_the_end(
    order: list[tuple[int, int]], data: st.DataObject
) -> None:
    pocket = Pocket(max_per_hour=2)
    for node, step in order:
        for _ in range(data.draw(st.integers(1, 2))):
            pocket.paging(stuck(node, 10 + step, MOVES[step]))
        if data.draw(st.booleans()):
            pocket.minutes(1)
    pocket.minutes(10)
    assert pocket.live == set()
    assert not list(live_rows(pocket))


def live_rows(pocket: Pocket) -> list[object]:
    """What the table still holds of live pages."""
    partitions = [keys.pages(CLUSTER, urgency) for urgency in PageUrgency]
    return [row for pk in partitions for row in pocket.table.query(pk, prefix=keys.LIVE_PAGE).items]


def test_a_summary_stays_far_below_what_a_topic_carries() -> None:
    pocket = Pocket(max_per_hour=1)
    for number in range(150):
        given = stuck(number)
        given["metadata"]["node"] = f"gpu-{number:04}" + "n" * 200  # type: ignore[index]  # a mapping
        pocket.paging(given)
    pocket.minutes(1)
    assert size(pocket.pager.sent[-1]) < 256 * 1024


def size(page: PageMessage) -> int:
    """The bytes that SNS counts."""
    return len(json.dumps(dict(page.bodies)).encode())

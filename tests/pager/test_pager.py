"""Whoever must act is paged, in words that say what to do, at least once and under one key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.times import from_text
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.pager.compose import runbook_of
from faultbridge.pager.deliver import TOO_OLD, Paging
from faultbridge.pager.notification_log import Fate
from faultbridge.pager.open_pages import LivePages
from faultbridge.pager.page import PagerSettings, PageState
from faultbridge.pager.rules import EVENT_TYPES, RULES
from faultbridge.pager.text_formats import MAX_SMS, MAX_SUBJECT
from faultbridge.ports import PageFormat, PageMessage, PageUrgency, ProviderFailure
from faultbridge.simulation.fakes import START, Call, FakePager, FakeTable, ManualClock, raise_once
from faultbridge.storage import keys
from tests.builders import fault
from tests.ingest.world import World
from tests.pages import BREAKER, CASE, CLOSED, ESCALATED, OPENED, PAGES, QUEUED, case_event, event
from tests.races import run_after_read

GOLDEN = Path(__file__).parent / "golden"


def made() -> tuple[Paging, FakePager, FakeTable]:
    clock = ManualClock()
    table, pager = FakeTable(clock), FakePager()
    return Paging(table, pager, clock), pager, table


def fates(paging: Paging, given: dict[str, Any]) -> list[Fate]:
    """What became of the urgent page about a case."""
    return [one.fate for one in paging(given) if one.key.endswith(":escalated")]


def sent(*events: dict[str, Any]) -> list[PageMessage]:
    paging, pager, _ = made()
    for one in events:
        paging(one)
    return pager.sent


def rendering(page: PageMessage) -> str:
    """A page as all its readers get it."""
    attributes = "\n".join(f"{key}: {value}" for key, value in page.attributes.items())
    parts = {
        "topic": page.urgency.value,
        "subject": page.subject,
        "attributes": attributes,
        "sms": page.bodies["sms"],
        "email": page.bodies["email"],
        "sqs": page.bodies["sqs"],
        "pagerduty behind sns: subject": page.forms[PageFormat.ALARM].subject,
        **{form.value: _indented(formed.body) for form, formed in page.forms.items()},
    }
    return "".join(f"== {part}\n{body.rstrip()}\n\n" for part, body in parts.items())


def _indented(body: str) -> str:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_as_it_was_agreed(name: str) -> None:
    page = sent(*PAGES[name])[-1]
    assert rendering(page) == (GOLDEN / f"page-{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_way_to_a_person_has_its_length(name: str) -> None:
    page = sent(*PAGES[name])[-1]
    assert len(page.subject) <= MAX_SUBJECT
    assert len(page.bodies["sms"]) <= MAX_SMS
    assert (page.subject + page.bodies["sms"]).isascii()
    assert "default" in page.bodies
    assert len(page.attributes) <= 10


def test_long_and_foreign_names_do_not_break_a_length() -> None:
    long = case_event("escalated", reason="\u00fc" * 300)
    long["metadata"] |= {"cluster": "c" * 100, "node": "n\u00e9" * 120}
    (page,) = sent(long)
    assert len(page.subject) <= MAX_SUBJECT
    assert len(page.bodies["sms"]) <= MAX_SMS
    assert (page.subject + page.bodies["sms"]).isascii()


@pytest.mark.parametrize(
    "quiet",
    [
        case_event("open"),
        case_event("queued", severity="error", **{"from": "open"}),
        case_event("queued", action="contact_support", **{"from": "open"}),
        case_event("queued", **{"from": "in_progress"}),
        case_event("absorbed", **{"from": "open"}),
        event(EntryType.NODE_STATUS, **{"from": "validating", "to": "failed", "reason": "its case is escalated"}),
        event(EntryType.FAULT_DETECTED, severity="fatal"),
        event(EntryType.CASE_STATUS),
    ],
)
def test_what_the_machine_cures_by_itself_pages_nobody(quiet: dict[str, Any]) -> None:
    assert sent(quiet) == []


def test_a_notice_wakes_nobody_and_what_needs_a_person_does() -> None:
    assert [(page.urgency, page.attributes["state"]) for page in sent(QUEUED, ESCALATED)] == [
        (PageUrgency.NOTICE, "triggered"),
        (PageUrgency.NOTICE, "resolved"),
        (PageUrgency.URGENT, "triggered"),
    ]


def test_a_case_has_one_live_key_at_a_time() -> None:
    failed = event(EntryType.NODE_STATUS, 11, **{"from": "validating", "to": "failed", "reason": "VERIFY_FAILED"})
    again = case_event("queued", 30, **{"from": "escalated", "reason": "an operator tries again"})
    live: set[str] = set()
    told: list[str] = []
    for page in sent(OPENED, QUEUED, failed, ESCALATED, again, case_event("resolved", 40, resolution="replaced")):
        (live.add if page.attributes["state"] == "triggered" else live.remove)(page.key)
        assert len(live) <= 1
        told.append(f"{page.key.removeprefix(CASE)} {page.attributes['state']}")
    assert told == [
        ":opened triggered",
        ":opened resolved",
        ":escalated triggered",
        ":escalated resolved",
        ":opened triggered",
        ":opened resolved",
    ]


def test_every_key_that_a_rule_can_trigger_another_one_resolves() -> None:
    by_state = {
        state: {rule.transition for rule in RULES if rule.state == state} for state in ("triggered", "resolved")
    }
    assert by_state["triggered"] == by_state["resolved"]


def test_a_redelivered_event_is_one_page() -> None:
    paging, pager, _ = made()
    assert fates(paging, ESCALATED) == [Fate.SENT]
    assert fates(paging, ESCALATED) == [Fate.REPEATED]
    assert pager.keys == [f"{CASE}:escalated"]


def test_a_case_that_is_escalated_again_pages_again() -> None:
    again = case_event("escalated", 40)
    back = case_event("queued", 30, **{"from": "escalated"})
    urgent = [page for page in sent(ESCALATED, back, again) if page.urgency is PageUrgency.URGENT]
    assert [page.attributes["state"] for page in urgent] == ["triggered", "resolved", "triggered"]


def test_a_trouble_that_is_over_before_its_page_was_out_is_told_to_nobody() -> None:
    assert sent(CLOSED, QUEUED) == []


def test_what_is_said_already_is_not_said_again() -> None:
    half_open = event(EntryType.CLUSTER_SAFETY, 6, None, kind="breaker", to="half_open", reason="tries some")
    paging, pager, _ = made()
    assert [one.fate for given in (BREAKER, half_open) for one in paging(given)] == [Fate.SENT, Fate.KNOWN]
    assert [one.fate for one in paging(BREAKER)] == [Fate.OVERTAKEN]
    assert pager.keys == ["train-a:breaker"]


@pytest.mark.parametrize("kind", ["approval", "isolation"])
def test_a_question_ends_with_its_case(kind: str) -> None:
    begun = event(EntryType.NOTE, 9, kind=kind, stage="begun" if kind == "approval" else "overdue", text="asked")
    assert [page.attributes["state"] for page in sent(begun, CLOSED)] == ["triggered", "resolved"]


def test_a_crash_before_the_end_was_told_tells_it_the_next_time() -> None:
    paging, pager, _ = made()
    paging(QUEUED)
    pager.seam.before = raise_once(("pager.send", KeyboardInterrupt()))  # type: ignore[arg-type]  # a process that dies
    with pytest.raises(KeyboardInterrupt):
        paging(CLOSED)
    paging(CLOSED)
    assert [page.attributes["state"] for page in pager.sent] == ["triggered", "resolved"]


def test_a_crash_after_the_page_repeats_it_under_the_same_key() -> None:
    paging, pager, _ = made()
    pager.seam.after = raise_once(("pager.send", KeyboardInterrupt()))  # type: ignore[arg-type]  # a process that dies
    with pytest.raises(KeyboardInterrupt):
        paging(ESCALATED)
    paging(ESCALATED)
    paging(ESCALATED)
    assert pager.keys == [f"{CASE}:escalated"] * 2


def test_a_pager_that_does_not_answer_is_tried_again() -> None:
    paging, pager, _ = made()
    pager.seam.before = raise_once(("pager.send", Transient("throttled")))
    with pytest.raises(Transient):
        paging(ESCALATED)
    assert fates(paging, ESCALATED) == [Fate.SENT]


def test_without_a_table_at_all_the_page_goes_out_and_says_so() -> None:
    paging, pager, table = made()
    table.seam.before = always(Misconfigured("no such table"))
    delivered = next(one for one in paging(ESCALATED) if one.key.endswith(":escalated"))
    assert (delivered.fate, delivered.noted) == (Fate.SENT, False)
    assert "may repeat" in pager.sent[-1].bodies["default"]


def test_while_the_table_is_away_a_page_goes_out_once_and_its_event_comes_again_until_it_is_noted() -> None:
    paging, pager, table = made()
    table.seam.before = always(Transient("down"))
    for _ in range(3):
        with pytest.raises(Transient):
            paging(ESCALATED)
    assert pager.keys == [f"{CASE}:escalated"]
    assert "may repeat" in pager.sent[-1].bodies["default"]
    table.seam.before = lambda _: None
    assert Fate.SENT in fates(paging, ESCALATED)
    assert (pager.keys, paging.told) == ([f"{CASE}:escalated"], set())
    paging(case_event("resolved", 40, resolution="replaced"))
    assert [(page.key, page.attributes["state"]) for page in pager.sent][-1] == (f"{CASE}:escalated", "resolved")


def test_an_end_waits_for_the_table_which_alone_knows_what_was_told() -> None:
    paging, pager, table = made()
    table.seam.before = always(Transient("down"))
    with pytest.raises(Transient):
        paging(case_event("resolved", 40, resolution="replaced"))
    assert pager.sent == []


def in_a_full_hour() -> tuple[Paging, FakePager, FakeTable]:
    """A pager with room for one page an hour, which another case has taken."""
    clock = ManualClock()
    table, pager = FakeTable(clock), FakePager()
    paging = Paging(table, pager, clock, PagerSettings(max_per_hour=1))
    paging(case_event("escalated", 3, case="c-" + "z" * 26))
    del pager.sent[:], pager.attempted[:]
    return paging, pager, table


def test_what_was_told_without_the_table_is_no_page_of_a_summary_only_and_is_told_its_end() -> None:
    paging, pager, table = in_a_full_hour()
    table.seam.before = raise_once(("table.get_many", Transient("down")))
    with pytest.raises(Transient):
        paging(ESCALATED)
    assert fates(paging, ESCALATED) == [Fate.SENT]
    paging(CLOSED)
    assert [page.attributes["state"] for page in pager.sent] == ["triggered", "resolved"]


def test_what_another_process_may_have_told_before_it_was_cut_short_is_told_its_end() -> None:
    paging, pager, table = in_a_full_hour()
    table.seam.before = raise_once(("table.get_many", Transient("down")))
    with pytest.raises(Transient):
        paging(ESCALATED)
    another = Paging(table, pager, paging.clock, PagerSettings(max_per_hour=1))
    assert fates(another, ESCALATED) == [Fate.WITHHELD]
    another(CLOSED)
    assert [page.attributes["state"] for page in pager.sent] == ["triggered", "resolved"]


@pytest.mark.parametrize("process", ["the same", "another"])
def test_what_was_told_without_the_table_is_told_its_end_though_that_came_first(process: str) -> None:
    paging, pager, table = made()
    table.seam.before = always(Transient("down"))
    with pytest.raises(Transient):
        paging(ESCALATED)
    table.seam.before = lambda _: None
    table.clock.advance(timedelta(minutes=1))  # type: ignore[attr-defined]  # a clock that stands until told otherwise
    paging(CLOSED)
    again = paging if process == "the same" else Paging(table, pager, paging.clock)
    # It asks the table nothing that could make it begin again.
    table.seam.before = always_at("table.get_many", Transient("down"))
    assert fates(again, ESCALATED) == [Fate.SENT]
    table.seam.before = lambda _: None
    assert fates(again, ESCALATED) == [Fate.OVERTAKEN]
    assert fates(Paging(table, pager, paging.clock), ESCALATED) == [Fate.OVERTAKEN]
    told = [page for page in pager.sent if page.key == f"{CASE}:escalated"]
    assert [page.attributes["state"] for page in told] == ["triggered", "resolved"]
    assert "over: " in told[-1].subject


def test_two_pages_that_are_counted_in_one_moment_do_not_fill_the_hour() -> None:
    paging, pager, table = made()
    tally = keys.page_tally("train-a", PageUrgency.URGENT, START)

    def busy(call: Call) -> None:
        if call.name == "table.write" and call.argument.key == tally:
            table.seam.before = lambda _: None
            raise Conflict("another transaction is at it")

    table.seam.before = busy
    assert fates(paging, ESCALATED) == [Fate.SENT]
    assert pager.keys == [f"{CASE}:escalated"]


def test_what_only_a_summary_speaks_for_has_no_end_of_its_own() -> None:
    paging, pager, _ = in_a_full_hour()
    assert fates(paging, ESCALATED) == [Fate.WITHHELD]
    assert Fate.QUIET in fates(paging, CLOSED)
    assert pager.sent == []


def always_at(name: str, error: Exception) -> Any:
    def hook(call: Call) -> None:
        if call.name == name:
            raise error

    return hook


def always(error: Exception) -> Any:
    def hook(_call: object) -> None:
        raise error

    return hook


def test_a_mark_that_cannot_be_finished_does_not_page_twice_by_itself() -> None:
    paging, pager, table = made()
    table.seam.before = raise_once(("table.get", Transient("x")), ("table.write", Transient("x")))
    with pytest.raises(Transient):
        paging(ESCALATED)
    paging(ESCALATED)
    assert pager.keys.count(f"{CASE}:escalated") == 1


def test_two_hands_on_one_event_page_rather_twice_than_never() -> None:
    paging, pager, table = made()
    inside = iter([True])

    def other_hand(call: Any) -> None:
        if call.name == "table.get" and next(inside, False):
            paging(ESCALATED)

    table.seam.after = other_hand
    paging(ESCALATED)
    assert set(pager.keys) == {f"{CASE}:escalated"}


def test_a_trouble_that_ends_while_its_page_is_begun_is_told_to_nobody() -> None:
    paging, pager, table = made()
    mark = keys.page_mark(CASE, "escalated")
    run_after_read(table.seam, mark, lambda: paging(CLOSED))
    assert fates(paging, ESCALATED) == [Fate.OVERTAKEN]
    assert pager.keys == []


def test_a_trouble_that_ends_while_its_page_goes_out_leaves_nothing_that_is_reminded_of() -> None:
    paging, pager, table = made()

    def ends(_call: Call) -> None:
        pager.seam.after = lambda _: None
        paging(CLOSED)

    pager.seam.after = ends
    (delivered,) = (one for one in paging(ESCALATED) if one.key.endswith(":escalated"))
    assert (delivered.fate, delivered.noted) == (Fate.SENT, False)
    assert [page.attributes["state"] for page in pager.sent] == ["triggered", "resolved"]
    assert list(LivePages(table, paging.clock, 100).of("train-a", PageUrgency.URGENT)) == []


def test_a_reminder_that_ended_meanwhile_is_not_live_again() -> None:
    paging, _, table = made()
    paging(ESCALATED)
    live = LivePages(table, paging.clock, 100)
    (one,) = live.of("train-a", PageUrgency.URGENT)
    paging(CLOSED)
    live.told(replace(one, times=2))
    assert list(live.of("train-a", PageUrgency.URGENT)) == []


def test_an_event_older_than_a_fortnight_pages_nobody() -> None:
    paging, pager, _ = made()
    assert isinstance(paging.clock, ManualClock)
    paging.clock.advance(timedelta(days=16, seconds=1))
    assert set(fates(paging, ESCALATED)) == {Fate.TOO_OLD, Fate.TOO_OLD}
    assert pager.sent == []


def test_a_mark_is_forgotten_after_a_month() -> None:
    paging, _, table = made()
    paging(ESCALATED)
    mark = table.get(keys.page_mark(CASE, "escalated"))
    assert mark is not None
    assert (mark["state"], mark["expires_at"]) == ("sent", int((START + timedelta(days=30)).timestamp()))


def test_two_domains_that_are_held_are_two_troubles() -> None:
    held = [
        event(EntryType.CLUSTER_SAFETY, number, None, kind="hold", to="held", domain=domain, reason="incident")
        for number, domain in enumerate(("rack-1", "rack-2"), 1)
    ]
    assert [page.key for page in sent(*held)] == ["train-a:hold:rack-1", "train-a:hold:rack-2"]


def test_a_word_that_an_event_does_not_have_does_not_stop_a_page() -> None:
    bare = event(EntryType.CASE_STATUS, to="escalated")
    (page,) = sent(bare)
    assert "Nothing more happens by itself (?)." in page.bodies["default"]


def entries(world: World) -> Iterator[dict[str, Any]]:
    for record in world.table.stream:
        if record.key.sk.startswith(keys.ENTRY) and record.new is not None:
            yield json.loads(str(record.new["body"]))


def test_the_events_of_a_real_case_become_pages_with_all_that_the_table_knows() -> None:
    world = World()
    key = world.register_node("n-1")
    world.happens(key, fault("xid.79"))
    pager = FakePager()
    paging = Paging(world.table, pager, world.clock)
    for one in entries(world):
        assert not paging(one) or one["metadata"]["event_type"] in EVENT_TYPES
    (page,) = pager.sent
    state = world.append.read(key)
    assert state.live_case is not None
    assert state.live_case.status is CaseStatus.OPEN or state.live_case.status is CaseStatus.QUEUED
    assert state.incarnation is not None
    for known in ("xid.79", "0000:c1:00", "n-1", "train-a", state.live_case.id, state.incarnation.instance_id):
        assert str(known) in page.bodies["email"]


def told_of(case_id: str | None, world: World) -> str:
    """The page of a node that is not isolated yet, whose event says nothing of the cause."""
    overdue = event(EntryType.NOTE, 900, "n-1", kind="isolation", stage="overdue", text="not isolated")
    overdue["metadata"]["case_id"] = case_id
    pager = FakePager()
    Paging(world.table, pager, world.clock)(overdue)
    (page,) = pager.sent
    return page.bodies["email"]


def test_a_page_names_the_cause_of_its_case_and_needs_none() -> None:
    world = World()
    state = world.happens(world.register_node("n-1"), fault("xid.79"))
    assert state.live_case is not None
    assert state.incarnation is not None
    of_a_case, of_none = told_of(state.live_case.id, world), told_of(None, world)
    assert [("xid.79" in text, str(state.incarnation.instance_id) in text) for text in (of_a_case, of_none)] == [
        (True, True),
        (False, True),
    ]


def test_a_runbook_that_a_page_names_is_there() -> None:
    root = Path(__file__).parents[2]
    for rule in RULES:
        assert (root / "docs" / "runbooks" / f"{rule.runbook}.md").is_file(), rule.runbook


@pytest.mark.parametrize("failure", ProviderFailure)
def test_each_reason_for_which_a_repair_stops_has_a_page_to_which_the_page_leads(failure: ProviderFailure) -> None:
    (rule,) = (one for one in RULES if one.transition == "escalated" and one.state is PageState.TRIGGERED)
    name = f"reason-{failure.value.lower().replace('_', '-')}"
    assert runbook_of(rule, {"reason": f"{failure.value}: its words"}) == name
    assert runbook_of(rule, {"reason": "no repair is known to help"}) == rule.runbook
    page = (Path(__file__).parents[2] / "docs" / "runbooks" / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {failure.value}: ")


def test_an_event_of_exactly_a_fortnight_and_two_days_still_pages() -> None:
    paging, pager, _ = made()
    assert isinstance(paging.clock, ManualClock)
    paging.clock.advance_to(from_text(ESCALATED["metadata"]["recorded_at"]) + TOO_OLD)
    assert Fate.TOO_OLD not in fates(paging, ESCALATED)
    assert pager.keys == [f"{CASE}:escalated"]

"""The texts of pages: golden files, lengths, and what a page takes from the stored case and node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, EntryType
from faultbridge.model.storage import keys
from faultbridge.record.ports.messaging import PageFormat, PageMessage
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.rules import EVENT_TYPES
from faultbridge.serve.pager.service_formats import MAX_SMS, MAX_SUBJECT
from tests.builders import fault
from tests.ingest.world import LedgerFixture
from tests.pager.sending import sent
from tests.pages import GPU, PAGES, case_event, event
from tests.sim.fakes import FakePager

GOLDEN = Path(__file__).parent / "golden"


def rendering(page: PageMessage) -> str:
    """Return a page in every format, as in the golden files."""
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
def test_a_page_matches_its_golden_file(name: str) -> None:
    page = sent(*PAGES[name])[-1]
    assert rendering(page) == (GOLDEN / f"page-{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_limits_of_every_protocol(name: str) -> None:
    page = sent(*PAGES[name])[-1]
    assert len(page.subject) <= MAX_SUBJECT
    assert len(page.bodies["sms"]) <= MAX_SMS
    assert (page.subject + page.bodies["sms"]).isascii()
    assert "default" in page.bodies
    assert len(page.attributes) <= 10


def test_a_page_has_no_placeholder_without_a_value() -> None:
    assert [name for name in PAGES if "?" in sent(*PAGES[name])[-1].bodies["default"]] == []


def test_long_and_non_ascii_names_fit_the_limits() -> None:
    long = case_event("escalated", reason="\u00fc" * 300)
    long["metadata"] |= {"cluster": "c" * 100, "node": "n\u00e9" * 120}
    (page,) = sent(long)
    assert len(page.subject) <= MAX_SUBJECT
    assert len(page.bodies["sms"]) <= MAX_SMS
    assert (page.subject + page.bodies["sms"]).isascii()


def test_a_value_that_the_event_does_not_contain_becomes_a_dash() -> None:
    bare = event(EntryType.CASE_STATUS, to="escalated")
    (page,) = sent(bare)
    assert "The repair stopped: -." in page.bodies["default"]


def entries(world: LedgerFixture) -> Iterator[dict[str, Any]]:
    for record in world.table.stream:
        if record.key.sk.startswith(keys.ENTRY) and record.new is not None:
            yield json.loads(str(record.new["body"]))


def test_the_page_of_a_real_case_contains_the_stored_details() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.observe_faults(key, fault("xid.79"))
    pager = FakePager()
    paging = Paging(world.table, pager, world.clock)
    for one in entries(world):
        assert not paging.deliver(one) or one["metadata"]["event_type"] in EVENT_TYPES
    (page,) = pager.sent
    state = world.append.read(key)
    assert state.live_case is not None
    assert state.live_case.status is CaseStatus.OPEN or state.live_case.status is CaseStatus.QUEUED
    assert state.incarnation is not None
    for known in ("xid.79", "0000:c1:00", "n-1", "train-a", state.live_case.id, state.incarnation.instance_id):
        assert str(known) in page.bodies["email"]


def overdue_email(case_id: str | None, world: LedgerFixture) -> str:
    """Return the page of a node that is not isolated yet; its event does not contain the cause."""
    overdue = event(EntryType.NOTE, 900, "n-1", kind="isolation", stage="overdue", text="not isolated")
    overdue["metadata"]["case_id"] = case_id
    pager = FakePager()
    Paging(world.table, pager, world.clock).deliver(overdue)
    (page,) = pager.sent
    return page.bodies["email"]


def test_a_page_contains_the_cause_of_its_case_and_works_without_a_case() -> None:
    world = LedgerFixture()
    state = world.observe_faults(world.register_node("n-1"), fault("xid.79"))
    assert state.live_case is not None
    assert state.incarnation is not None
    with_case, without_case = overdue_email(state.live_case.id, world), overdue_email(None, world)
    assert [("xid.79" in text, str(state.incarnation.instance_id) in text) for text in (with_case, without_case)] == [
        (True, True),
        (False, True),
    ]


def test_text_of_a_record_has_no_effect_in_a_page_and_adds_no_line() -> None:
    hostile = "\x1b[2J\x9b2J\u202e\nAction required:  run this"
    component = {**GPU, "serial": f"1654{hostile}"}
    cause = {"code": "xid.79", "component": component, "message": f"GPU has fallen off the bus.{hostile}"}
    (page,) = sent(case_event("escalated", reason=f"NOT_FOUND: {hostile}", cause=cause))
    shown = rendering(page)
    assert r"GPU has fallen off the bus.\u001b[2J" in page.bodies["email"]
    assert [one for one in ("\x1b", "\x9b", "\u202e") if one in shown] == []
    assert page.bodies["email"].count("\nAction required:") == 1

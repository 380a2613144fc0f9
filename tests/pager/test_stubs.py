"""An event that is too large for the bus sends the same pages as the complete event."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Misconfigured
from faultbridge.model.events.wire import detail_of, stub_of
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.record.ports.messaging import PageMessage
from faultbridge.record.ports.table import Table
from tests.pager.sending import new_paging, sent
from tests.pages import CASE, ESCALATED, PAGES, case_event, event
from tests.sim.fakes import START

MAX_SNS_BYTES = 256 * 1024


def record(table: Table, complete: dict[str, Any]) -> None:
    """Store the entry of an event, as the ledger does before the event is published."""
    metadata = complete["metadata"]
    node = metadata["node"]
    partition = keys.node_partition(NodeKey("train-a", node)) if node else keys.cluster_partition("train-a")
    key = keys.entry(partition, metadata["epoch"], metadata["sequence"])
    body = {"event_id": metadata["event_id"], "body": canonical_json(complete)}
    table.write(Put(items.item(key, START, body)))


def sent_from_stubs(*events: dict[str, Any]) -> list[PageMessage]:
    """Return the pages that events send if the bus receives only their stubs."""
    paging, pager, table = new_paging()
    for one in events:
        record(table, one)
        paging.deliver(json.loads(stub_of(canonical_json(one))))
    return pager.sent


@pytest.mark.parametrize("name", PAGES)
def test_a_stub_sends_the_pages_of_its_complete_event(name: str) -> None:
    pages, complete = sent_from_stubs(*PAGES[name]), sent(*PAGES[name])
    assert [(one.key, one.urgency, one.attributes, one.subject) for one in pages] == [
        (one.key, one.urgency, one.attributes, one.subject) for one in complete
    ]


def test_the_page_of_a_stub_states_that_the_event_is_too_large_and_names_its_case() -> None:
    (page,) = sent_from_stubs(ESCALATED)
    assert "The event is too large for the bus" in page.bodies["email"]
    assert f"faultbridge case show {CASE}" in page.bodies["email"]
    assert "too large" not in sent(ESCALATED)[0].bodies["email"]


def test_the_page_of_an_event_with_huge_texts_fits_into_a_message_of_sns() -> None:
    huge = case_event("escalated", reason="x" * 100_000, cause={"code": "xid.79", "message": "\u00fc" * 100_000})
    paging, pager, table = new_paging()
    record(table, huge)
    stub = json.loads(detail_of(canonical_json(huge), ""))
    assert stub["data"] == {}
    paging.deliver(stub)
    (page,) = pager.sent
    assert len(json.dumps(dict(page.bodies)).encode()) < MAX_SNS_BYTES
    assert max(len(form.body.encode()) for form in page.forms.values()) < MAX_SNS_BYTES


def test_a_stub_of_an_event_that_needs_no_operator_sends_no_page() -> None:
    assert sent_from_stubs(case_event("open"), event(EntryType.NOTE, kind="x", stage="y", text="z")) == []


def test_a_stub_without_an_entry_fails_and_is_delivered_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    paging, pager, _ = new_paging()
    with pytest.raises(Misconfigured, match="no entry in the table for a stub: train-a/ip-10-0-0-7 1/12"):
        paging.deliver(json.loads(stub_of(canonical_json(ESCALATED))))
    assert pager.sent == []
    (line,) = (vars(one) for one in caplog.records if one.message == "stub completed from the table")
    assert (line["case_id"], line["cluster"]) == (CASE, "train-a")


def test_an_entry_of_another_event_at_the_same_position_is_not_used() -> None:
    paging, _, table = new_paging()
    record(table, ESCALATED | {"metadata": ESCALATED["metadata"] | {"event_id": "another"}})
    with pytest.raises(Misconfigured):
        paging.deliver(json.loads(stub_of(canonical_json(ESCALATED))))

"""The page of an incident is postponed while its cluster is under maintenance, as the cases of its nodes are."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from faultbridge.model.enums import CaseStatus, IncidentStatus
from faultbridge.model.errors import Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from faultbridge.repair.registry.registration import Registration
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.open_pages import OpenPages
from faultbridge.serve.pager.remind import Remind
from faultbridge.serve.pager.service_formats import message_of
from tests.races import run_before_write
from tests.scenarios.incidents.incidents import (
    RACK,
    cases,
    incident_changes,
    incidents,
    lose_links,
    restore_links,
    world_of,
)
from tests.scenarios.world import CLUSTER
from tests.sim.fakes import FakePager, raise_once


class PagedRack:
    """A rack in a cluster under maintenance, with the pager on the same table."""

    def __init__(self) -> None:
        self.world = world_of(16)
        self.pager = FakePager(seam=self.world.seam)
        self.paging = Paging(self.world.table, self.pager, self.world.clock)
        self.remind = Remind(self.world.table, self.pager, self.world.clock)
        self._delivered = 0
        self.maintain(self.world.clock.now() + timedelta(hours=8))

    def maintain(self, until: datetime | None) -> None:
        registration = Registration(self.world.table, self.world.append, self.world.clock)
        registration.set_cluster(CLUSTER, {"maintenance_until": until})

    def advance_minutes(self, number: int) -> None:
        """Advance the world minute by minute; deliver its new entries to the pager, and send what is due."""
        for _ in range(number):
            self.world.advance_minutes()
            self.deliver()
            self.remind.remind()

    def deliver(self) -> None:
        new, self._delivered = self.world.table.stream[self._delivered :], len(self.world.table.stream)
        for record in new:
            if record.event == "INSERT" and record.new and record.key.sk.startswith(keys.ENTRY):
                self.paging.deliver(json.loads(str(record.new["body"])))

    def deliver_again(self) -> None:
        """Deliver all entries to the pager, as SQS does after an error."""
        self._delivered = 0
        self.deliver()

    @property
    def urgent(self) -> list[PageMessage]:
        return [page for page in self.pager.sent if page.urgency is PageUrgency.URGENT]

    @property
    def sent(self) -> list[str]:
        """Return key and state of each urgent page, with the kind of page in place of its key."""
        return [f"{page.key.split(':')[1]} {page.attributes['state']}" for page in self.urgent]


def recovered_after_an_interrupted_page() -> PagedRack:
    """Return a rack that recovered after the send of its postponed page was interrupted.

    The pager has not processed the recovery.
    """
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(5)
    rack.maintain(None)
    rack.world.seam.before = raise_once(("pager.send", Transient("throttled")))
    with pytest.raises(Transient):
        rack.remind.remind()
    restore_links(rack.world)
    rack.world.advance_minutes(60)
    return rack


def test_an_incident_that_opens_during_maintenance_sends_no_page_until_the_maintenance_ends():
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(60)
    assert incident_changes(rack.world) == ["opened"]
    assert [incident.status for incident in incidents(rack.world)] == [IncidentStatus.OPEN]
    assert {rack.world.node(node).case for node in RACK} == {None}
    assert rack.pager.sent == []
    rack.maintain(None)
    rack.advance_minutes(5)
    assert cases(rack.world) == {CaseStatus.ABSORBED}
    assert rack.sent == ["incident triggered"]
    assert "As of 2026-02-03T12:00Z; sent after the end of the cluster's maintenance." in rack.urgent[0].bodies["email"]
    restore_links(rack.world)
    rack.advance_minutes(60)
    assert rack.sent == ["incident triggered", "incident resolved"]


def test_an_incident_that_closes_during_maintenance_sends_no_page_at_all():
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(30)
    restore_links(rack.world)
    rack.advance_minutes(9 * 60)
    assert [incident.status for incident in incidents(rack.world)] == [IncidentStatus.CLOSED]
    assert rack.sent == []


def test_an_incident_that_expires_during_maintenance_sends_only_the_page_of_its_expiry_afterwards():
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(7 * 60)
    assert incident_changes(rack.world) == ["opened", "expired"]
    assert rack.pager.sent == []
    rack.advance_minutes(62)
    assert [line for line in rack.sent if line.startswith("incident")] == ["incident-expired triggered"]


def test_a_postponed_page_is_repeated_only_after_it_was_sent():
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(110)
    assert rack.remind.remind().live == 1
    rack.maintain(None)
    assert [rack.remind.remind().sent for _ in range(3)] == [1, 0, 0]
    rack.world.clock.advance(timedelta(hours=5))
    assert (rack.remind.remind().reminders, rack.sent) == (1, ["incident triggered"] * 2)


def test_a_postponed_page_whose_send_was_interrupted_is_sent_again_and_resolved():
    rack = recovered_after_an_interrupted_page()
    rack.deliver()
    assert rack.sent == ["incident resolved"]


def test_an_incident_that_opened_before_the_maintenance_keeps_its_page():
    rack = PagedRack()
    rack.maintain(None)
    lose_links(rack.world)
    rack.advance_minutes(5)
    rack.maintain(rack.world.clock.now() + timedelta(hours=8))
    restore_links(rack.world)
    rack.advance_minutes(60)
    assert rack.sent == ["incident triggered", "incident resolved"]


def test_a_page_that_was_sent_is_followed_by_the_page_of_the_expiry_also_during_maintenance():
    rack = PagedRack()
    rack.maintain(None)
    lose_links(rack.world)
    rack.advance_minutes(60)
    rack.maintain(rack.world.clock.now() + timedelta(hours=48))
    rack.advance_minutes(90)
    assert [line for line in rack.sent if line.startswith("incident")] == [
        "incident triggered",
        "incident resolved",
        "incident-expired triggered",
    ]


def test_a_postponed_page_whose_resolve_was_sent_but_not_recorded_is_not_sent():
    rack = recovered_after_an_interrupted_page()
    rack.world.seam.before = raise_once(("table.transact", Transient("throttled")))
    rack.deliver()
    assert [rack.remind.remind().live for _ in range(2)] == [1, 0]
    assert rack.sent == ["incident resolved"]


def test_a_postponed_page_that_is_sent_while_its_resolve_is_processed_is_resolved_at_the_next_delivery():
    rack = PagedRack()
    lose_links(rack.world)
    rack.advance_minutes(30)
    restore_links(rack.world)
    rack.world.advance_minutes(30)
    assert [incident.status for incident in incidents(rack.world)] == [IncidentStatus.CLOSED]
    pages = OpenPages(rack.world.table, rack.world.clock, 10)

    def send_postponed() -> None:
        """Do what is left of a run of `Remind` that found the page unresolved: mark the page, and send it."""
        ((opened,), _) = pages.read_all(CLUSTER, PageUrgency.URGENT)
        assert pages.update(replace(opened, possibly_sent=True))
        rack.pager.send(message_of(opened.page))

    # The pager has read the page as unsent when the reminder sends it, and then removes the page.
    run_before_write(rack.world.seam, lambda write: isinstance(write, Delete), send_postponed)
    with pytest.raises(Transient):
        rack.deliver_again()
    assert rack.sent == ["incident triggered"]
    rack.deliver_again()
    assert rack.sent == ["incident triggered", "incident resolved"]
    assert rack.remind.remind().live == 0

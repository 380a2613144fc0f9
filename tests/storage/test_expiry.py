"""Expiry: the function that writes an item also writes when the item expires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.adapters.ec2.request_log import RequestLog
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import DomainKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.findings import Finding
from faultbridge.model.nodes import Alias, AliasRow
from faultbridge.model.storage import findings, heartbeats, incidents, items, keys, rejects
from faultbridge.model.storage.wire.message import Message
from faultbridge.model.storage.writes import Item
from tests.builders import KEY, NOON
from tests.sim.fakes import FakeTable, ManualClock

RACK = FailureDomain(DomainKind.RACK, "r-7")


def request() -> Item:
    clock = ManualClock(NOON)
    table = FakeTable(clock)
    RequestLog(table, clock).record("token")
    stored = table.get(keys.request("token"))
    assert stored is not None
    return stored


def former_name() -> Item:
    return items.ended_alias_item(Alias("name", "train-a/old"), AliasRow(KEY, None, NOON), None, NOON)


def heartbeat_batch() -> Item:
    return heartbeats.batch_put(KEY.cluster, {KEY.node: NOON}, NOON).item


def closed_incident() -> Item:
    closed = Incident(
        "in-1", KEY.cluster, Family.NETWORK, RACK, IncidentStatus.CLOSED, NOON, NOON, "net.link_down", closed_at=NOON
    )
    return incidents.incident_item(closed, NOON)


def ended_finding() -> Item:
    ended = Finding("f-1", *KEY, "nvlink-crc", NOON, value=300, median=2, score=900, peers=11, ended_at=NOON)
    return findings.finding_item(ended, NOON)


def rejected_record() -> Item:
    message = Message("r-1", "kernel-log", KEY.cluster, NOON, node=KEY.node, pointer="raw/r-1")
    return rejects.item(rejects.Reject(KEY.cluster, message, "unknown_node", "", NOON))


@pytest.mark.parametrize(
    ("write", "kept"),
    [
        (request, timedelta(days=30)),
        (former_name, timedelta(days=30)),
        (heartbeat_batch, timedelta(hours=3)),
        (closed_incident, timedelta(days=90)),
        (ended_finding, timedelta(days=365)),
        (rejected_record, timedelta(days=30)),
    ],
)
def test_an_item_expires_after_its_time(write: Callable[[], Item], kept: timedelta) -> None:
    assert write()["expires_at"] == int((NOON + kept).timestamp())

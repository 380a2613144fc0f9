"""Entrypoints: what a function answers to the service that called it, and so what that does next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from faultbridge.composition.installation import Installation
from faultbridge.entrypoints.archive import archive
from faultbridge.entrypoints.ingest import ingest
from faultbridge.errors import Conflict, Misconfigured, Transient
from faultbridge.ingest.record_reader import Delivery
from faultbridge.simulation.fakes import Call
from faultbridge.storage import keys
from tests.archive.world import ArchiveWorld
from tests.builders import KEY
from tests.races import writes_of
from tests.world import World


def of_the_queue(delivery: Delivery) -> dict[str, Any]:
    """A delivery as Lambda hands it over."""
    sent = str(int(delivery.received_at.timestamp() * 1000))
    return {"messageId": delivery.id, "body": delivery.text, "attributes": {"SentTimestamp": sent}}


def test_ingest_gives_back_the_messages_that_only_time_can_mend_and_no_other() -> None:
    world = World(nodes=("a", "b"))
    deliveries = [world.message(node=node) for node in ("a", "b")]

    def throttle(call: Call) -> None:
        if any(write.key == keys.node_state(KEY._replace(node="a")) for write in writes_of(call)):
            raise Transient("throttled")

    world.ports.seam.before = throttle
    answer = ingest({"Records": [of_the_queue(one) for one in deliveries]}, world.app)
    assert answer == {"batchItemFailures": [{"itemIdentifier": deliveries[0].id}]}


def test_a_round_of_the_archive_in_which_a_cluster_could_not_be_kept_fails() -> None:
    world = ArchiveWorld()
    world.record_history()

    def refuse(call: Call) -> None:
        if call.name == "vault.put":
            raise Misconfigured("no right to put")

    application = cast("Installation", SimpleNamespace(archive=SimpleNamespace(schedule=world.archive_schedule)))
    world.vault.seam.before = refuse
    with pytest.raises(Misconfigured, match="no right to put"):
        archive({}, application)
    world.vault.seam.before = lambda _: None
    assert archive({}, application)["failures"] == []


def test_a_round_of_the_archive_that_lost_all_its_races_fails_as_what_time_will_mend() -> None:
    world = ArchiveWorld()
    world.record_history()

    def quicker(call: Call) -> None:
        if any(write.key == keys.cluster_state("train-a") for write in writes_of(call)):
            raise Conflict("another writer was quicker")

    application = cast("Installation", SimpleNamespace(archive=SimpleNamespace(schedule=world.archive_schedule)))
    world.table.seam.before = quicker
    with pytest.raises(Transient, match="another writer was quicker"):
        archive({}, application)

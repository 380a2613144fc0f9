"""Builders of pages of incidents that several test modules use."""

from __future__ import annotations

import json

from faultbridge.model.storage import keys
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.page import PagerSettings
from tests.scenarios.world import World
from tests.sim.fakes import FakePager, FakeTable


def pages(world: World, table: FakeTable | None = None) -> list[PageMessage]:
    """Deliver every entry of a world to the pager, in the order of recording, and return what was sent.

    `table` has the registration of the cluster, which pages can name; it is empty by default.
    """
    pager = FakePager()
    paging = Paging(table or FakeTable(world.clock), pager, world.clock, PagerSettings())
    for record in tuple(world.table.stream):
        if record.event == "INSERT" and record.new and record.key.sk.startswith(keys.ENTRY):
            paging.deliver(json.loads(str(record.new["body"])))
    return pager.sent


def urgent(world: World) -> list[str]:
    return [f"{page.key} {page.attributes['state']}" for page in pages(world) if page.urgency is PageUrgency.URGENT]

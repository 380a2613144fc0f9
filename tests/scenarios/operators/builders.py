"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import json
from datetime import timedelta

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.page import PagerSettings
from faultbridge.serve.pager.remind import Remind
from tests.pages import case_event
from tests.sim.fakes import FakePager, FakeTable, ManualClock

CLUSTER = "train-a"

SUMMARY = f"{CLUSTER}:summary:urgent"


class PagerBench:
    """The pager services on fakes, with a clock that advances by minutes."""

    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.table, self.pager = FakeTable(self.clock), FakePager()
        settings_ = PagerSettings(**settings)  # type: ignore[arg-type]  # fields of the settings
        self.paging = Paging(self.table, self.pager, self.clock, settings_)
        self.remind = Remind(self.table, self.pager, self.clock, settings_)
        listed = items.item(keys.cluster_listed(CLUSTER), self.clock.now(), {"cluster": ClusterConfig(CLUSTER).cluster})
        self.table.write(Put(listed))

    def advance_minutes(self, number: int) -> None:
        """Advance the clock minute by minute and send the due summaries and reminders."""
        for _ in range(number):
            self.clock.advance(timedelta(minutes=1))
            self.remind.remind()

    @property
    def sent_states(self) -> list[str]:
        """Return key and state of each sent page."""
        return [f"{page.key} {page.attributes['state']}" for page in self.pager.sent]

    @property
    def live(self) -> set[str]:
        """Return the keys whose last sent state is `triggered`."""
        last = {page.key: page.attributes["state"] for page in self.pager.sent}
        return {key for key, state in last.items() if state == "triggered"}

    def triggered_keys(self) -> set[str]:
        """Return the keys that were triggered by a page of their own or listed in a summary."""
        named = {member["key"] for page in self.pager.sent for member in json.loads(page.bodies["sqs"])["members"]}
        return named | {page.key for page in self.pager.sent if page.attributes["state"] == "triggered"}


def case_change(number: int, sequence: int = 12, to: str = "escalated", **data: object) -> dict[str, object]:
    """Build a status change of the case of one of many nodes: to escalated by default."""
    before = {"escalated": "in_progress"}.get(to, "escalated")
    return case_event(to, sequence, node=f"gpu-{number:04}", case=f"c-{number:026}", **{"from": before, **data})


def page_key(number: int) -> str:
    """Return the key of the page of that case."""
    return f"c-{number:026}:escalated"

"""Much at once: ten thousand records while workers die."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Self

import pytest

from tests.e2e.batches import mixed
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation, eventually
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

RECORDS, NODES, DOUBLED_PERCENT = 10_000, 500, 5


@pytest.fixture
def unwired(tmp_path: Path) -> Iterator[Installation]:
    """A stack of its own, without the wire between functions and emulators: nothing of ours is in the way."""
    with private_stack(tmp_path / "scale") as stack:
        yield listened_to(stack)


class Killer(Thread):
    """Kills a worker of ingest or publish at random while its block lasts, after some hundred records each time.

    By records, not by the clock: on a slow machine a worker would be dead before it had begun, each time.
    """

    def __init__(self, installation: Installation, random: Random) -> None:
        super().__init__(daemon=True)
        self.installation, self.random = installation, random
        self.killed: Counter[str] = Counter()
        self.over = Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        """Let some records be worked, and kill."""
        goal = self._left()
        while not self.over.wait(self.random.uniform(0.1, 1.0)):
            if self._left() > goal:
                continue
            function = self.random.choice(["ingest", "publish"])
            try:
                self.installation.kill(function)
            except (StopIteration, ProcessLookupError, FileNotFoundError):
                continue  # the last one is dead, the next not there yet
            self.killed[function] += 1
            goal = self._left() - self.random.randrange(200, 1000)

    def _left(self) -> int:
        depth = self.installation.depth()
        return depth.waiting + depth.in_flight


def test_ten_thousand_records_lose_and_double_nothing_while_workers_die(unwired: Installation) -> None:
    random = Random(11)
    cluster = unwired.cluster(NODES, acts=False)
    batch = mixed(cluster, records=RECORDS, nodes=NODES, seed=11)
    since, began = datetime.now(UTC), time.monotonic()
    messages = unwired.send(batch.parcels)
    unwired.send_again(random.sample(messages, RECORDS * DOUBLED_PERCENT // 100))
    with Killer(unwired, random) as killer:
        eventually(lambda: unwired.depth().waiting < RECORDS // 100, 400, unwired.depth)
    unwired.settle(cluster, 120)
    seconds = time.monotonic() - began

    account = unwired.as_json("audit", "--since", since.isoformat())
    verified = unwired.as_json("verify", "--cluster", cluster)
    entries = unwired.entries(cluster)
    eventually(lambda: set(unwired.tap.deliveries(cluster)) >= set(entries), 30)
    events = unwired.tap.deliveries(cluster)
    outcomes = unwired.outcomes(since).values()
    tell(
        seconds=round(seconds, 1),
        killed=killer.killed,
        outcomes=account["outcomes"],
        told_again=sum(len(told) > 1 for told in outcomes),
        entries=len(entries),
        published_again=sum(len(seen) > 1 for seen in events.values()),
        load=os.getloadavg(),
    )
    assert min(killer.killed["ingest"], killer.killed["publish"]) > 1
    assert (account["sent"], account["missing"], account["complete"]) == (RECORDS, 0, True)
    assert verified["whole"]
    assert verified["streams"] == NODES + 1
    assert verified["entries"] == len(entries)
    assert set(events) == set(entries)
    for event_id, (first, *others) in events.items():
        assert first["detail"]["metadata"] == entries[event_id]["metadata"]
        assert all(again["detail"] == first["detail"] for again in others)


def tell(**figures: Any) -> None:
    """Print figures past pytest, one JSON document a line."""
    print(json.dumps(figures, default=str), file=sys.__stdout__, flush=True)

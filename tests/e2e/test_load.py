"""Process ten thousand records while workers are killed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Self

import pytest

from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.processes import print_figures
from tests.e2e.harness.records import mixed_batch
from tests.local.stack import private_stack
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

RECORDS, NODES, REPEATED_PERCENT = 10_000, 500, 5


@pytest.fixture
def unproxied(tmp_path: Path) -> Iterator[Installation]:
    """Run a private stack without the proxy, so that the proxy does not slow it down."""
    with private_stack(tmp_path / "scale") as stack:
        yield observe(stack)


class Killer(Thread):
    """Kills workers of ingest and publish at random within the block, after some hundred records each.

    It counts records instead of time, because on a slow machine a worker might be killed before its start.
    """

    def __init__(self, installation: Installation, random: Random) -> None:
        super().__init__(daemon=True)
        self.installation, self.random = installation, random
        self.killed: Counter[str] = Counter()
        self.stopped = Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.join()

    def run(self) -> None:
        """Kill a worker whenever enough records were processed."""
        goal = self._left()
        while not self.stopped.wait(self.random.uniform(0.1, 1.0)):
            if self._left() > goal:
                continue
            function = self.random.choice(["ingest", "publish"])
            try:
                self.installation.kill(function)
            except (StopIteration, ProcessLookupError, FileNotFoundError):
                continue  # the last worker is dead and the next has not started
            self.killed[function] += 1
            goal = self._left() - self.random.randrange(200, 1000)

    def _left(self) -> int:
        depth = self.installation.depth()
        return depth.waiting + depth.in_flight


def test_ten_thousand_records_are_processed_exactly_once_while_workers_are_killed(unproxied: Installation) -> None:
    random = Random(11)
    cluster = unproxied.register_cluster(NODES, act=False)
    batch = mixed_batch(cluster, records=RECORDS, nodes=NODES, seed=11)
    since, started = datetime.now(UTC), time.monotonic()
    messages = unproxied.send(batch.raw_inputs)
    unproxied.send_again(random.sample(messages, RECORDS * REPEATED_PERCENT // 100))
    with Killer(unproxied, random) as killer:
        eventually(lambda: unproxied.depth().waiting < RECORDS // 100, 400, unproxied.depth)
    unproxied.wait_until_idle(cluster, 120)
    seconds = time.monotonic() - started

    account = unproxied.cli_json("account", "--since", since.isoformat())
    verified = unproxied.cli_json("verify", "--cluster", cluster)
    entries = unproxied.entries(cluster)
    eventually(lambda: set(unproxied.events.deliveries(cluster)) >= set(entries), 30)
    events = unproxied.events.deliveries(cluster)
    outcomes = unproxied.outcomes(since).values()
    print_figures(
        seconds=round(seconds, 1),
        killed=killer.killed,
        outcomes=account["outcomes"],
        repeated=sum(len(each) > 1 for each in outcomes),
        entries=len(entries),
        republished=sum(len(received) > 1 for received in events.values()),
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

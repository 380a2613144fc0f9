"""Much at once: ten thousand records while workers die, and a thousand nodes that break in the same second."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Self

import pytest

from faultbridge.services.send import Parcel
from tests.e2e.batches import LOST, mixed
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation, eventually
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(600)]

RECORDS, NODES, DOUBLED_PERCENT = 10_000, 500, 5
BURST = 1_000
BURST_SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")


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

    account = unwired.as_json("account", "--since", since.isoformat())
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


@pytest.mark.parametrize("acts", [False, True], ids=["observed", "repaired"])
def test_a_thousand_nodes_that_break_at_once_are_on_the_bus_within_fifteen_seconds(
    unwired: Installation, acts: bool
) -> None:
    cluster = unwired.cluster(BURST, acts=acts)
    unwired.settle(cluster, 120)
    parcels = [Parcel("kernel-log", cluster, LOST.encode(), node=f"node-{number:03}") for number in range(BURST)]
    before, began = cpu_seconds(unwired), time.monotonic()
    unwired.send(parcels)
    sent = time.monotonic() - began
    arrived = eventually_all(lambda: degraded(unwired, cluster), BURST, 120)
    took = time.monotonic() - began
    spent = {name: round(used - before.get(name, 0), 2) for name, used in cpu_seconds(unwired).items()}
    tell(
        acts=acts,
        seconds_to_send=round(sent, 2),
        seconds_to_the_last=round(took, 2),
        seconds_to_half=round(arrived, 2),
        cpu_seconds={name: used for name, used in spent.items() if used},
        load=os.getloadavg(),
    )
    assert took <= BURST_SECONDS


def eventually_all(look: Callable[[], int], wanted: int, seconds: float) -> float:
    """Wait until so many were seen; returns after how many seconds half of them were."""
    began, half = time.monotonic(), 0.0
    while (seen := look()) < wanted:
        assert time.monotonic() - began < seconds, f"{seen} of {wanted}"
        half = half or (time.monotonic() - began if seen * 2 >= wanted else 0.0)
        time.sleep(0.2)
    return half or time.monotonic() - began


def degraded(installation: Installation, cluster: str) -> int:
    """How many nodes the bus has said to be degraded."""
    return len(
        {
            envelope["detail"]["metadata"]["node"]
            for (envelope, *_) in installation.tap.deliveries(cluster).values()
            if envelope["detail-type"] == "Node Status Change" and envelope["detail"]["data"]["to"] == "degraded"
        }
    )


def cpu_seconds(installation: Installation) -> dict[str, float]:
    """The processor time that each process of the stack used so far, by what it is."""
    pids = {**installation.stack.info.pids, **installation.stack.workers()}
    found = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found[name.removeprefix(f"{installation.stack.info.stack}-")] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def tell(**figures: Any) -> None:
    """Print figures past pytest, one JSON document a line."""
    print(json.dumps(figures, default=str), file=sys.__stdout__, flush=True)

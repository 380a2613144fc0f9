"""A thousand nodes that break in one second: how soon the bus knows, how soon the first cases are decided, who works.

    pytest -m nightly tests/e2e/test_burst.py -s

Prints one JSON document a case: seconds from the first record sent, and the processor time of each process meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.entries import EntryType
from faultbridge.ingest.send import Parcel
from faultbridge.local import environment
from tests.e2e.batches import LOST
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

NODES = 1_000
SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")
PAUSE = 0.5

Event = dict[str, Any]


@contextmanager
def installed(home: Path, minute: int) -> Iterator[Installation]:
    """A stack of its own, without the wire between functions and emulators, whose schedules keep this minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "MINUTE_SECONDS", minute)
        with private_stack(home) as stack:
            yield listened_to(stack)


class Burst:
    """A cluster of which every node breaks at once, and what was heard of it since."""

    def __init__(self, installation: Installation, *, acts: bool) -> None:
        self.installation = installation
        self.cluster = installation.cluster(NODES, acts=acts)
        installation.settle(self.cluster, 300)
        installation.tap.envelopes()  # what the registration said is read before the clock runs
        self.before, self.began = cpu_seconds(installation), time.monotonic()
        lost = LOST.encode()
        nodes = (f"node-{number:03}" for number in range(NODES))
        installation.send([Parcel("kernel-log", self.cluster, lost, node=node) for node in nodes])
        self.sent = self.seconds()

    def seconds(self) -> float:
        """How long ago the first record was sent."""
        return round(time.monotonic() - self.began, 1)

    def wait(self, about: Callable[[Event], bool], seconds: float) -> float:
        """Wait until the bus said such a thing of every node; returns when it had of the last."""
        while len(heard := self._heard(about)) < NODES:
            assert self.seconds() < seconds, f"{len(heard)} of {NODES}"
            time.sleep(PAUSE)
        return self.seconds()

    def spent(self) -> dict[str, float]:
        """The processor time of each process since, by what it is; that of this test among them."""
        now = cpu_seconds(self.installation)
        spent = {name: round(used - self.before.get(name, 0.0), 1) for name, used in now.items()}
        return {name: used for name, used in sorted(spent.items()) if used}

    def _heard(self, about: Callable[[Event], bool]) -> set[str]:
        deliveries = self.installation.tap.deliveries(self.cluster).values()
        return {one["detail"]["metadata"]["node"] for (one, *_) in deliveries if about(one)}


def is_degraded(event: Event) -> bool:
    """Whether the bus says that a node is degraded."""
    return event["detail-type"] == EntryType.NODE_STATUS and event["detail"]["data"]["to"] == NodeStatus.DEGRADED


def is_decided(event: Event) -> bool:
    """Whether the bus says that a case was admitted to its repair, or why it was not."""
    data = event["detail"]["data"]
    admitted = event["detail-type"] == EntryType.CASE_STATUS and data["to"] == CaseStatus.IN_PROGRESS
    return admitted or (event["detail-type"] == EntryType.NOTE and data["kind"] == "refused")


def test_a_thousand_nodes_that_break_at_once_are_on_the_bus_within_fifteen_seconds(tmp_path: Path) -> None:
    with installed(tmp_path, minute=60) as installation:
        burst = Burst(installation, acts=False)
        took = burst.wait(is_degraded, 120)
        tell("observed", sent=burst.sent, last_status_change=took, cpu=burst.spent())
        assert took <= SECONDS


def test_every_case_of_a_burst_is_decided_and_no_more_repairs_begin_than_may(tmp_path: Path) -> None:
    # The dispatcher tells thirty cases at a time what they wait for, so the sweep has to come often.
    with installed(tmp_path, minute=environment.MINUTE_SECONDS) as installation:
        burst = Burst(installation, acts=True)
        changed = burst.wait(is_degraded, 300)
        tell("repaired", sent=burst.sent, last_status_change=changed, cpu=burst.spent())
        decided = burst.wait(is_decided, 600)
        tell("repaired", last_decision=decided, cpu=burst.spent())
        config = installation.application.rulebook.config(burst.cluster)
        assert config is not None
        begun = installation.directory.cases(burst.cluster, (CaseStatus.IN_PROGRESS,))
        assert len(begun) <= installation.application.rulebook.policy(config).limits.concurrent


def cpu_seconds(installation: Installation) -> dict[str, float]:
    """The processor time that each process of the stack used so far, and this one, by what it is."""
    pids = {**installation.stack.info.pids, **installation.stack.workers()}
    found = {"this test": time.process_time()}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found[name.removeprefix(f"{installation.stack.info.stack}-")] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def tell(case: str, **figures: Any) -> None:
    """Print figures past pytest, one JSON document a line."""
    print(json.dumps({"case": case, **figures, "load": os.getloadavg()}), file=sys.__stdout__, flush=True)

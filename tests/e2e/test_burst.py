"""A thousand nodes fail in one second: time until the events are published and every case is decided.

    pytest -m nightly tests/e2e/test_burst.py -s

Prints one JSON document for each case: seconds since the first record was sent, and the CPU time of each process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faultbridge.local import environment
from faultbridge.model.enums import CaseStatus, EntryType, NodeStatus
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.processes import print_figures
from tests.e2e.harness.records import GPU_LOST
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]

NODES = 1_000
SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")
POLL_SECONDS = 0.5

Event = dict[str, Any]


@contextmanager
def installed(home: Path, minute: int) -> Iterator[Installation]:
    """Run a private stack without the proxy, in which a scheduled minute lasts `minute` seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "MINUTE_SECONDS", minute)
        with private_stack(home) as stack:
            yield observe(stack)


class Burst:
    """A cluster in which every node fails at once, and its events since then."""

    def __init__(self, installation: Installation, *, act: bool) -> None:
        self.installation = installation
        self.cluster = installation.register_cluster(NODES, act=act)
        installation.wait_until_idle(self.cluster, 300)
        installation.events.envelopes()  # read the events of the registration before the measurement
        self.before, self.started = cpu_seconds(installation), time.monotonic()
        lost = GPU_LOST.encode()
        nodes = (f"node-{number:03}" for number in range(NODES))
        installation.send([RawInput("kernel-log", self.cluster, lost, node=node) for node in nodes])
        self.sent = self.seconds()

    def seconds(self) -> float:
        """Return the seconds since the first record was sent."""
        return round(time.monotonic() - self.started, 1)

    def wait(self, matches: Callable[[Event], bool], seconds: float) -> float:
        """Wait until every node has a matching event; return the seconds since the first record was sent."""
        while len(found := self._nodes_with(matches)) < NODES:
            assert self.seconds() < seconds, f"{len(found)} of {NODES}"
            time.sleep(POLL_SECONDS)
        return self.seconds()

    def spent(self) -> dict[str, float]:
        """Return the CPU time of each process since the start, including this test."""
        now = cpu_seconds(self.installation)
        spent = {name: round(used - self.before.get(name, 0.0), 1) for name, used in now.items()}
        return {name: used for name, used in sorted(spent.items()) if used}

    def _nodes_with(self, matches: Callable[[Event], bool]) -> set[str]:
        deliveries = self.installation.events.deliveries(self.cluster).values()
        return {one["detail"]["metadata"]["node"] for (one, *_) in deliveries if matches(one)}


def is_degraded(event: Event) -> bool:
    """Return whether the event reports a degraded node."""
    return event["detail-type"] == EntryType.NODE_STATUS and event["detail"]["data"]["to"] == NodeStatus.DEGRADED


def is_decided(event: Event) -> bool:
    """Return whether the event reports that a case was admitted to repair, or why it was not."""
    data = event["detail"]["data"]
    admitted = event["detail-type"] == EntryType.CASE_STATUS and data["to"] == CaseStatus.IN_PROGRESS
    return admitted or (event["detail-type"] == EntryType.NOTE and data["kind"] == "refused")


def test_the_events_of_a_thousand_failed_nodes_are_published_within_fifteen_seconds(tmp_path: Path) -> None:
    with installed(tmp_path, minute=60) as installation:
        burst = Burst(installation, act=False)
        took = burst.wait(is_degraded, 120)
        print_figures(
            case="observed", sent=burst.sent, last_status_change=took, cpu=burst.spent(), load=os.getloadavg()
        )
        assert took <= SECONDS


def test_every_case_of_a_burst_is_decided_and_the_repair_limit_holds(tmp_path: Path) -> None:
    # One run of admission records at most 500 refusals; the sweep must run often to record those that are left.
    with installed(tmp_path, minute=environment.MINUTE_SECONDS) as installation:
        burst = Burst(installation, act=True)
        changed = burst.wait(is_degraded, 300)
        print_figures(
            case="repaired", sent=burst.sent, last_status_change=changed, cpu=burst.spent(), load=os.getloadavg()
        )
        decided = burst.wait(is_decided, 600)
        print_figures(case="repaired", last_decision=decided, cpu=burst.spent(), load=os.getloadavg())
        config = installation.application.rulebook.config(burst.cluster)
        assert config is not None
        running = installation.directory.cases(burst.cluster, (CaseStatus.IN_PROGRESS,))
        assert len(running) <= installation.application.rulebook.policy(config).limits.concurrent


def cpu_seconds(installation: Installation) -> dict[str, float]:
    """Return the CPU time of each process of the stack and of this test, by process name."""
    pids = {**installation.stack.info.pids, **installation.stack.workers()}
    found = {"this test": time.process_time()}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        found[name.removeprefix(f"{installation.stack.info.stack}-")] = (int(fields[11]) + int(fields[12])) / TICKS
    return found

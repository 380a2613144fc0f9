"""The latency of a page from the raw record to a subscribed queue: our share and the emulator's."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from faultbridge.serve.ingest.send import RawInput
from tests.e2e.harness.calls import Call
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.queues import PageQueue
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(1500)]

PAGES = 200
UNKNOWN = "NVRM: Xid (PCI:0000:c1:00): 998, pid=1234, name=python, something that no catalog has"
PATH = (("ingest", "dynamodb:TransactWriteItems"), ("publish", "events:PutEvents"), ("pager", "sns:Publish"))
"""Each function on the path, and the call after which the next function can start."""


@dataclass(frozen=True)
class Latency:
    """The latency of one page in milliseconds: total, in our code, and waiting for answers of services."""

    total: float
    own: float
    answers: float

    @property
    def waiting(self) -> float:
        """The emulator's share: polling of queue and stream, starts of functions, delivery by the topic."""
        return self.total - self.own - self.answers


def segment(calls: list[Call], function: str, last: str) -> tuple[float, float, float]:
    """Return the times of a function's first call and last answer, and the total time of its answers."""
    own_calls = [call for call in calls if call.function == function]
    end = next(call.ended for call in own_calls if call.name == last)
    on_path = [call for call in own_calls if call.ended <= end]
    return on_path[0].started, end, sum(call.ended - call.started for call in on_path)


def latency(calls: list[Call], sent: float, arrived: float) -> Latency:
    """Split the latency of one page, whose calls were sequential."""
    parts = [segment(calls, function, last) for function, last in PATH]
    own = sum(end - start - answers for start, end, answers in parts)
    return Latency(*(1000 * seconds for seconds in (arrived - sent, own, sum(answers for _, _, answers in parts))))


def percentile(values: list[float], percent: int) -> float:
    """Return the percentile of the values."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def pages(inbox: PageQueue) -> Iterator[tuple[str, float]]:
    """Yield the node and the arrival time of each page about an escalated case."""
    for message in inbox.drain():
        page = json.loads(message["Body"])
        if page["dedup_key"].endswith(":escalated"):
            yield page["location"]["node"], int(message["Attributes"]["SentTimestamp"]) / 1000


def test_200_pages_arrive_and_most_of_their_latency_is_the_emulators(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, proxy = installation.register_cluster(PAGES), installation.required_proxy
    topic = installation.stack.outputs["UrgentTopicArn"]
    inbox = PageQueue(
        installation.stack, "latency", topic=topic, filter_policy={"cluster": [cluster], "urgency": ["urgent"]}
    )
    latencies = []
    for number in range(PAGES):
        node, before, started = f"node-{number:03}", len(proxy.calls), time.time()
        installation.send([RawInput("kernel-log", cluster, UNKNOWN.encode(), node=node)])
        arrived = dict(eventually(lambda: list(pages(inbox)), 60))
        assert set(arrived) == {node}
        calls = [call for call in proxy.calls[before:] if node in json.dumps(call.arguments)]
        latencies.append(latency(calls, started, arrived[node]))
    report = {
        name: {
            f"p{percent}": round(percentile([getattr(one, name) for one in latencies], percent)) for percent in (50, 99)
        }
        for name in ("total", "own", "answers", "waiting")
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{PAGES} pages, milliseconds: {json.dumps(report)}\n")
    assert report["own"]["p99"] < report["waiting"]["p50"] + 1000

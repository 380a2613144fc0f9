"""How long a page is on its way, from the raw record to a queue behind a topic: our share, and the emulator's."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from faultbridge.ingest.send import Parcel
from tests.e2e.installation import Installation, eventually
from tests.e2e.listeners import Inbox
from tests.e2e.wire import Call

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(1500)]

PAGES = 200
UNKNOWN = "NVRM: Xid (PCI:0000:c1:00): 998, pid=1234, name=python, something that no catalog has"
WAY = (("ingest", "dynamodb:TransactWriteItems"), ("publish", "events:PutEvents"), ("pager", "sns:Publish"))
"""Each function on the way, and the call after which the next one can begin."""


@dataclass(frozen=True)
class Delay:
    """Milliseconds of one page: all of it, in our own code, waiting for answers, and waiting to be called."""

    total: float
    own: float
    answers: float

    @property
    def waiting(self) -> float:
        """Polls of queue and stream, starts of functions, delivery through the topic: the emulator's own pace."""
        return self.total - self.own - self.answers


def segment(calls: list[Call], function: str, last: str) -> tuple[float, float, float]:
    """When a function made its first call on the way and when its last one was answered, and how long answers took."""
    mine = [call for call in calls if call.function == function]
    end = next(call.ended for call in mine if call.name == last)
    on_the_way = [call for call in mine if call.ended <= end]
    return on_the_way[0].began, end, sum(call.ended - call.began for call in on_the_way)


def delay(calls: list[Call], sent: float, arrived: float) -> Delay:
    """Split the way of one page, of which the calls were made one after the other."""
    parts = [segment(calls, function, last) for function, last in WAY]
    own = sum(end - begin - answers for begin, end, answers in parts)
    return Delay(*(1000 * seconds for seconds in (arrived - sent, own, sum(answers for _, _, answers in parts))))


def percentile(values: list[float], percent: int) -> float:
    """The value that so many of a hundred do not exceed."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def pages(inbox: Inbox) -> Iterator[tuple[str, float]]:
    """The node and the time of arrival of each page about a case, as the queue behind the topic has it."""
    for message in inbox.drain():
        page = json.loads(message["Body"])
        if page["dedup_key"].endswith(":escalated"):
            yield page["place"]["node"], int(message["Attributes"]["SentTimestamp"]) / 1000


def test_200_pages_arrive_and_their_delay_is_mostly_the_emulators(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, wire = installation.cluster(PAGES), installation.wire_in_use
    topic = installation.stack.outputs["UrgentTopicArn"]
    inbox = Inbox(installation.stack, "delay", topic=topic, filter_policy={"cluster": [cluster], "urgency": ["urgent"]})
    delays = []
    for number in range(PAGES):
        node, before, began = f"node-{number:03}", len(wire.calls), time.time()
        installation.send([Parcel("kernel-log", cluster, UNKNOWN.encode(), node=node)])
        arrived = dict(eventually(lambda: list(pages(inbox)), 60))
        assert set(arrived) == {node}
        calls = [call for call in wire.calls[before:] if node in json.dumps(call.arguments)]
        delays.append(delay(calls, began, arrived[node]))
    report = {
        name: {
            f"p{percent}": round(percentile([getattr(one, name) for one in delays], percent)) for percent in (50, 99)
        }
        for name in ("total", "own", "answers", "waiting")
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{PAGES} pages, milliseconds: {json.dumps(report)}\n")
    assert report["own"]["p99"] < report["waiting"]["p50"] + 1000

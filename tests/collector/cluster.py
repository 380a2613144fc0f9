"""A collector on the fake Kubernetes API over HTTP, with a fake queue."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faultbridge.adapters.kubernetes.client import ApiAccess
from faultbridge.adapters.kubernetes.object_watch import KubernetesWatch
from faultbridge.local.kubernetes.api import SERVICE_ACCOUNT_TOKEN
from faultbridge.local.kubernetes.cluster import RunningInstance
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import Message
from faultbridge.node.agent.host import AgentClock
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.collector.collector import Collector, build_collector
from tests.agent.fakes import FakeTransport
from tests.contracts.schedulers import served
from tests.kubernetes import FullCluster
from tests.waiting import eventually

NODE, INSTANCE = "ip-10-0-0-7.ec2.internal", "i-00000000000000007"
EKS = "eks-node-condition"
XID_79 = {
    "type": "AcceleratedHardwareReady",
    "status": "False",
    "reason": "NvidiaXID79Error",
    "message": "GPU has fallen off the bus",
    "lastTransitionTime": "2026-02-03T04:05:06Z",
    "lastHeartbeatTime": "2026-02-03T04:05:06Z",
}


def agent_event(name: str, reason: str = "NvidiaXID79Error", component: str = "eks-node-monitoring-agent") -> Any:
    """An event of a monitoring agent about the node."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "involvedObject": {"kind": "Node", "name": NODE},
        "reason": reason,
        "message": "GPU has fallen off the bus",
        "type": "Warning",
        "source": {"component": component},
        "lastTimestamp": "2026-02-03T04:05:06Z",
    }


class Collected:
    """A fake cluster of one node, and the collectors that read it."""

    def __init__(self, cluster: FullCluster, url: str, folder: Path) -> None:
        self.cluster, self.transport, self.folder = cluster, FakeTransport(), folder
        self.tokens = [SERVICE_ACCOUNT_TOKEN]
        self.watch = KubernetesWatch(lambda: ApiAccess(url, None, self.tokens[-1]))

    def collector(self, clock: AgentClock | None = None, *, jobs: bool = False, **settings: Any) -> Collector:
        """Build a collector; one with the same folder continues with the same spool."""
        made = AgentSettings("train-a", "http://queue", spool=self.folder, **settings)
        return build_collector(made, self.watch, self.transport, clock, jobs=jobs)

    @contextmanager
    def running(self, **settings: Any) -> Iterator[Collector]:
        """Run a collector within the block, then stop it as a signal does."""
        collector = self.collector(**settings)
        for follower in collector.followers:
            follower.wait = lambda _seconds: collector.stopping.wait(0.02)
        thread = threading.Thread(target=collector.run, daemon=True)
        thread.start()
        try:
            for follower in collector.followers:
                assert follower.listed.wait(20)
            yield collector
        finally:
            collector.stop()
            thread.join(20)
        assert not thread.is_alive()

    def messages(self, source: str = "kubernetes-node") -> list[Message]:
        """Return the messages of one source that the queue accepted."""
        found = [decode_message(record.text) for record in self.transport.accepted]
        return [message for message in found if message.source == source]

    def events(self) -> list[Message]:
        """Return the messages of the EKS agent's events that the queue accepted."""
        return [message for message in self.messages(EKS) if b"involvedObject" in (message.body or b"")]

    def until(self, count: int, source: str = "kubernetes-node") -> list[Message]:
        """Wait until the queue has this many messages of a source."""
        return eventually(lambda: found if len(found := self.messages(source)) >= count else None, 20)

    def conditions(self, message: Message) -> dict[str, str]:
        """Return the reason of each condition in a message."""
        body = json.loads(message.body or b"")
        return {one["type"]: one.get("reason", "") for one in body["status"]["conditions"]}


@contextmanager
def collected(folder: Path) -> Iterator[Collected]:
    """Serve a fake cluster with one node."""
    cluster = FullCluster("gpu")
    cluster.join(RunningInstance(INSTANCE, NODE))
    with served(cluster) as url:
        yield Collected(cluster, url, folder)

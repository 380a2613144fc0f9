"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.settings import Settings
from faultbridge.record.ports.messaging import FormattedPage, PageFormat, PageMessage, PageUrgency

EKS, CONFIG = "train", ClusterConfig("train-a", eks_cluster="train")


def node_group(name: str, *, repair: bool | None = None, types: tuple[str, ...] = (), **others: Any) -> dict[str, Any]:
    resources = {"autoScalingGroups": [{"name": f"eks-{name}"}]}
    found = {"nodegroupName": name, "clusterName": EKS, "status": "ACTIVE", "resources": resources, **others}
    found |= {"instanceTypes": list(types)} if types else {}
    return found | ({} if repair is None else {"nodeRepairConfig": {"enabled": repair}})


EVENT = {"event_action": "trigger", "dedup_key": "c-1:escalated", "payload": {"summary": "x"}}

PAGE = PageMessage(
    key="c-1:escalated",
    urgency=PageUrgency.URGENT,
    subject="s",
    bodies={"default": "text"},
    attributes={"cluster": "train-a", "urgency": "urgent"},
    forms={PageFormat.PAGERDUTY: FormattedPage("s", json.dumps(EVENT))},
)


class FakePagerDuty(ThreadingHTTPServer):
    """HTTP server (fake) for PagerDuty: returns one status to every request and records it."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Post)
        self.status = status
        self.bodies: list[Any] = []

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.server_port}/v2/enqueue"


class Post(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: FakePagerDuty

    def do_POST(self) -> None:
        """Record the request and respond."""
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b'{"status": "whatever"}')

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def settings(**variables: str) -> Settings:
    """Settings of a pager."""
    given = {"URGENT_TOPIC": "u", "NOTICE_TOPIC": "n", "BUS": "b", **variables}
    return Settings({f"FAULTBRIDGE_{name}": value for name, value in given.items()})

"""Requests to the intake function in memory: signed posts and CloudWatch Logs batches."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping

from faultbridge.serve.entrypoints.intake import intake
from faultbridge.serve.gateway.webhooks import request_content, sign
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.world import World

SECRET, NEXT_SECRET = "a secret of many characters", "another secret of many characters"
ALERT = json.dumps(
    {
        "kind": "fault",
        "code": "xid.79",
        "component": {"type": "gpu", "pci": "0000:c1:00"},
        "message": "GPU has fallen off the bus.",
        "observed_at": "2026-02-03T11:59:00.000Z",
        "node": KEY.node,
    }
)


def signed_headers(at: str, path: str, body: bytes, secret: str, method: str = "POST") -> dict[str, str]:
    """Return the headers of a signed request."""
    signature = sign(request_content(at, method, path, body), secret.encode())
    return {"X-Faultbridge-Timestamp": at, "X-Faultbridge-Signature": signature}


class IntakeClient:
    """An installation with one webhook sender; sends requests in the format of API Gateway."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.world = World(settings=settings or {})
        self.senders = {"prometheus": {"cluster": KEY.cluster, "sources": ["faultbridge"], "secrets": [SECRET]}}
        self.world.ports.senders = self.senders

    def post(self, body=ALERT, *, sender="prometheus", source="faultbridge", secret=SECRET, ago=0, **others):
        raw = body.encode() if isinstance(body, str) else body
        at = str(int(self.world.now.timestamp()) - ago)
        signed = signed_headers(at, f"/intake/{sender}/{source}", raw, secret)
        authorization = others.get("authorization")
        headers = signed if authorization is None else {"Authorization": authorization}
        event = {
            "version": "2.0",
            "headers": headers | others.get("headers", {}),
            "requestContext": {"http": {"method": others.get("method", "POST")}},
            "pathParameters": {"sender": sender, "source": source},
            "body": base64.b64encode(raw).decode(),
            "isBase64Encoded": True,
        }
        return intake(event, self.world.app)

    def received(self):
        found = []
        while batch := self.world.ports.queue.receive():
            for one in batch:
                found.append(one)
                self.world.ports.queue.delete(one)
        return found

    def outcomes(self):
        deliveries = [Delivery(f"m-{n}", one.body, self.world.now) for n, one in enumerate(self.received())]
        return self.world.outcomes(*deliveries)


HMA = {"HealthMonitoringAgentDetectionEvent": "HealthEvent", "level": "info", "msg": "NPD caught event: {}"} | {
    "details: ": {
        "severity": "warn",
        "timestamp": "2026-02-03T11:59:00Z",
        "reason": "XidHardwareFailure",
        "message": "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus.",
    }
}


def batch(stream: str, *messages: object, **others: object) -> dict:
    events = [{"id": str(n), "timestamp": 1770119940000, "message": json.dumps(one)} for n, one in enumerate(messages)]
    whole = {
        "messageType": "DATA_MESSAGE",
        "logGroup": "/aws/sagemaker/Clusters/hyperpod/abc",
        "logStream": stream,
        "logEvents": events,
    } | others
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(whole).encode())).decode()}}

"""`grafana`: the webhook of Grafana's own alerting.

Grammar: one JSON object with `alerts`, each with its own status, labels and annotations (`alerts`); which label is the
node and which rule names which fault is the mapping `alerts`. Times: `startsAt`, and `endsAt` where resolved, with a
zone; the year 1 is none. Units: none. Errors: `Rejected(no_framing)` without alerts. Source: Grafana's documentation
and captures.
"""

from __future__ import annotations

from faultbridge.decoders.alerts import decode_webhook
from faultbridge.decoders.base import Decoder, Hints
from faultbridge.domain.faults import Observation

SOURCE = "grafana"


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read each alert of each notification."""
    return decode_webhook(SOURCE, body, hints)


def recognize(body: bytes) -> bool:
    """Tell whether it is a notification with the organisation that only Grafana adds."""
    return b'"alerts"' in body and b'"orgId"' in body


DECODER = Decoder(
    name=SOURCE,
    summary="Grafana's alerting webhook; the mapping `alerts` names nodes and faults",
    example='{"version": "1", "orgId": 1, "status": "firing", "state": "alerting", "receiver": "faultbridge", '
    '"alerts": [{"status": "firing", "labels": {"alertname": "GPU Xid", "xid": "48", "instance": "ip-10-0-0-7:9400"}, '
    '"values": null, "startsAt": "2026-02-03T04:05:06Z", "endsAt": "0001-01-01T00:00:00Z"}]}',
    recognize=recognize,
    decode=decode,
)

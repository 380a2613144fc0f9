"""`alertmanager`: the webhook of Prometheus Alertmanager, version 4.

Grammar: one JSON object with `alerts`, each with its own status, labels and annotations (`alerts`); which label is the
node and which rule names which fault is the mapping `alerts`. Times: `startsAt`, and `endsAt` where resolved, with
zone and up to nine digits of a second; the year 1 is none. Units: none. Errors: `Rejected(no_framing)` without alerts.
Source: Alertmanager's webhook format, version 4, and captures.
"""

from __future__ import annotations

from faultbridge.decoders.alerts import decode_webhook
from faultbridge.decoders.base import Decoder, Hints
from faultbridge.domain.faults import Observation

SOURCE = "alertmanager"


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read each alert of each notification."""
    return decode_webhook(SOURCE, body, hints)


def recognize(body: bytes) -> bool:
    """Tell whether it is a notification, and none of Grafana's."""
    return b'"alerts"' in body and b'"groupLabels"' in body and b'"orgId"' not in body


DECODER = Decoder(
    name=SOURCE,
    summary="Alertmanager's webhook, version 4; the mapping `alerts` names nodes and faults",
    example='{"version": "4", "status": "firing", "receiver": "faultbridge", "groupLabels": {}, "alerts": [{"status": '
    '"firing", "labels": {"alertname": "GpuXidError", "xid": "79", "gpu": "3", "node": "ip-10-0-0-7"}, '
    '"annotations": {}, "startsAt": "2026-02-03T04:05:06.789012345Z", "endsAt": "0001-01-01T00:00:00Z"}]}',
    recognize=recognize,
    decode=decode,
)

"""Decodes `alertmanager` and `grafana`: alert webhooks and alert lists of Alertmanager and Grafana.

The mapping `alerts` selects the label that names the node, and the rule that determines the fault code. An alert
without a rule becomes `agent.alert`, which needs no action. An alert that the mapping lists in `about_monitoring` is
about the monitoring itself, and yields nothing.

Grammar: a JSON object with `alerts`; each alert has its own status, labels and annotations. The decoder also reads the
responses of Prometheus' `/api/v1/alerts` (`data.alerts` with `state` and `activeAt`) and of Alertmanager's
`/api/v2/alerts`. In these lists, pending and suppressed alerts are skipped, because they send no notification. Times:
`startsAt`, or `endsAt` of a resolved alert, with a time zone; the year 1 means that the time is not set. Units: none.
Errors: `Rejected(no_framing)` for a body that is neither a notification nor a list of alerts. Source: the webhook
formats of Alertmanager and Grafana, and the HTTP APIs of Prometheus and Alertmanager.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints, fault_of, to_clear
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import digits, members, objects_in, pci_of, text
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Observation
from faultbridge.model.times import to_text

_PORT = re.compile(r"(?:\[([0-9a-fA-F:]{2,39})\]|([^:\s]{1,253}))(?::\d{1,5})?")
_XID_IN_TEXT = re.compile(r"\bXid(?: error)?:? {0,2}(\d{1,5})\b", re.IGNORECASE)
_Labels = Mapping[str, Any]


def _alerts(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    if isinstance(document.get("alerts"), list) and ("groupLabels" in document or "receiver" in document):
        return objects_in(document["alerts"])
    listed = members(document.get("data")).get("alerts")
    if isinstance(listed, list):
        firing = (alert for alert in objects_in(listed) if alert.get("state") == "firing")
        return tuple({**alert, "startsAt": alert.get("activeAt")} for alert in firing)
    state = members(document.get("status")).get("state")
    if "labels" in document and "startsAt" in document and isinstance(state, str):
        # `endsAt` of an alert that still fires is only the time at which Alertmanager would resolve it.
        return () if state == "suppressed" else ({**document, "status": "firing"},)
    return None


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each firing alert and a clear for each resolved alert.

    The status of each alert counts, not the status of its notification: a notification of a firing group may also
    contain resolved alerts. Alerts about the monitoring itself are skipped.
    """
    mapped = mapping("alerts", hints.mappings)
    found = [alerts for _, document in objects(text_of(body)) if (alerts := _alerts(document)) is not None]
    if not found:
        raise Rejected("no_framing", "no notification with `alerts`, and no list of alerts")
    return tuple(observation for alerts in found for alert in alerts for observation in _alert(source, alert, mapped))


def _alert(source: str, alert: Mapping[str, Any], mapped: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    labels, notes = members(alert.get("labels")), members(alert.get("annotations"))
    name = text(labels.get("alertname"), 256) or "unnamed alert"
    if name in mapped["about_monitoring"]:
        return
    rule = next((row for row in mapped["rules"] if _fits(row, name, labels)), None)
    resolved = alert.get("status") == "resolved"
    started, ended = instant(alert.get("startsAt")), instant(alert.get("endsAt"))
    summary = text(notes.get("summary")) or text(notes.get("message")) or text(notes.get("description")) or name
    code, component = _code(rule, labels, (name, summary), mapped), _component(rule, labels, mapped)
    details = {
        "alertname": name,
        "fingerprint": text(alert.get("fingerprint"), 64),
        "severity_label": text(labels.get("severity"), 64),
        "started_at": to_text(started) if started else None,
        "description": text(notes.get("description"), 512),
    }
    message, at = f"{name}: {summary}" if summary != name else name, ended if resolved else started
    raw = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    fault = fault_of(source, code, component, message, raw, at, _node(labels, mapped), **details)
    yield to_clear(fault) if resolved else fault


def _fits(rule: Mapping[str, Any], name: str, labels: _Labels) -> bool:
    wanted = members(rule.get("labels"))
    named = re.fullmatch(rule["alert"], name) if "alert" in rule else True
    return bool(named) and all(re.fullmatch(want, str(labels.get(label, ""))[:256]) for label, want in wanted.items())


def _code(rule: Mapping[str, Any] | None, labels: _Labels, texts: tuple[str, ...], mapped: Mapping[str, Any]) -> str:
    if rule is None:
        return "agent.alert"
    if rule["code"] != "xid":
        return str(rule["code"])
    from_label = next((str(labels[label]) for label in mapped["xid_labels"] if labels.get(label)), "")
    if re.fullmatch(r"\d{1,5}", from_label, re.ASCII):
        return f"xid.{int(from_label)}"
    match = next((match for part in texts if (match := _XID_IN_TEXT.search(part))), None)
    return f"xid.{int(match[1])}" if match else "agent.gpu_unhealthy"


def _component(rule: Mapping[str, Any] | None, labels: _Labels, mapped: Mapping[str, Any]) -> Component:
    kind, names = rule.get("component") if rule else None, mapped["gpu_labels"]
    if kind == "nic":
        return Component(ComponentType.NIC, name=_first(labels, mapped["nic_labels"]))
    if kind != "gpu":
        return NODE_COMPONENT
    pci, uuid, index = (_first(labels, names[name]) for name in ("pci", "uuid", "index"))
    return Component(ComponentType.GPU, pci=pci_of(pci or ""), uuid=uuid, index=digits(index, 3))


def _first(labels: _Labels, names: list[str]) -> str | None:
    return next((value for name in names if (value := text(labels.get(name), 64))), None)


def _node(labels: _Labels, mapped: Mapping[str, Any]) -> str | None:
    for label in mapped["node_labels"]:
        match = _PORT.fullmatch(text(labels.get(label), 256) or "")
        name = (match[1] or match[2]) if match else None
        if name and name not in mapped["no_nodes"]:
            return name
    return None

"""Alerts of Alertmanager and Grafana: which label names the node and which rule names which fault is mapping data.

An alert that no rule names belongs to somebody else: it is noted (`agent.alert`), and no node is judged by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Hints, cut, evidence, over, pci_of
from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, objects_in, text, told
from faultbridge.decoders.instants import instant
from faultbridge.domain.faults import NODE_COMPONENT, Clear, Component, ComponentType, Fault, Observation
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected

_PORT = re.compile(r"(?:\[([0-9a-fA-F:]{2,39})\]|([^:\s]{1,253}))(?::\d{1,5})?")
_XID_IN_TEXT = re.compile(r"\bXid(?: error)?:? {0,2}(\d{1,5})\b", re.IGNORECASE)
_Labels = Mapping[str, Any]


def is_webhook(written: Mapping[str, Any]) -> bool:
    """Tell whether a document is a notification with alerts."""
    return isinstance(written.get("alerts"), list) and ("groupLabels" in written or "receiver" in written)


def decode_webhook(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read each alert by its own status: a group that fires may hold resolved ones."""
    known = mapping("alerts", hints.mappings)
    webhooks = [written for _, written in objects(text_of(body)) if is_webhook(written)]
    if not webhooks:
        raise Rejected("no_framing", "no notification with alerts in it")
    return tuple(
        observation
        for webhook in webhooks
        for alert in objects_in(webhook["alerts"])
        for observation in _alert(source, alert, known)
    )


def _alert(source: str, alert: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Fault | Clear]:
    labels, notes = members(alert.get("labels")), members(alert.get("annotations"))
    name = text(labels.get("alertname"), 256) or "an alert without a name"
    if name in known["about_monitoring"]:
        return
    rule = next((row for row in known["rules"] if _fits(row, name, labels)), None)
    resolved = alert.get("status") == "resolved"
    started, ended = instant(alert.get("startsAt")), instant(alert.get("endsAt"))
    says = text(notes.get("summary")) or text(notes.get("message")) or text(notes.get("description")) or name
    fault = Fault(
        source=source,
        code=_code(rule, labels, (name, says), known),
        component=_component(rule, labels, known),
        message=cut(f"{name}: {says}" if says != name else name),
        observed_at=ended if resolved else started,
        evidence=evidence(", ".join(f"{key}={value}" for key, value in sorted(labels.items()))),
        attributes=told(
            alertname=name,
            fingerprint=text(alert.get("fingerprint"), 64),
            severity_label=text(labels.get("severity"), 64),
            started_at=to_text(started) if started else None,
            description=text(notes.get("description"), 512),
        ),
        node=_node(labels, known),
    )
    yield over(fault) if resolved else fault


def _fits(rule: Mapping[str, Any], name: str, labels: _Labels) -> bool:
    wanted = members(rule.get("labels"))
    named = re.fullmatch(rule["alert"], name) if "alert" in rule else True
    return bool(named) and all(re.fullmatch(want, str(labels.get(label, ""))[:256]) for label, want in wanted.items())


def _code(rule: Mapping[str, Any] | None, labels: _Labels, texts: tuple[str, ...], known: Mapping[str, Any]) -> str:
    if rule is None:
        return "agent.alert"
    if rule["code"] != "xid":
        return str(rule["code"])
    labelled = next((str(labels[label]) for label in known["xid_labels"] if labels.get(label)), "")
    if re.fullmatch(r"\d{1,5}", labelled, re.ASCII):
        return f"xid.{int(labelled)}"
    found = next((found for one in texts if (found := _XID_IN_TEXT.search(one))), None)
    return f"xid.{int(found[1])}" if found else "agent.gpu_unhealthy"


def _component(rule: Mapping[str, Any] | None, labels: _Labels, known: Mapping[str, Any]) -> Component:
    kind = rule.get("component") if rule else None
    if kind == "gpu":
        return _gpu(labels, known["gpu_labels"])
    if kind == "nic":
        return Component(ComponentType.NIC, name=_first(labels, known["nic_labels"]))
    return NODE_COMPONENT


def _gpu(labels: _Labels, names: Mapping[str, list[str]]) -> Component:
    index = _first(labels, names["index"]) or ""
    return Component(
        ComponentType.GPU,
        pci=pci_of(_first(labels, names["pci"]) or ""),
        uuid=_first(labels, names["uuid"]),
        index=int(index) if re.fullmatch(r"\d{1,3}", index, re.ASCII) else None,
    )


def _first(labels: _Labels, names: list[str]) -> str | None:
    return next((found for name in names if (found := text(labels.get(name), 64))), None)


def _node(labels: _Labels, known: Mapping[str, Any]) -> str | None:
    """Return the first label that names a node, without its port; a loopback address names none."""
    for label in known["node_labels"]:
        found = _PORT.fullmatch(text(labels.get(label), 256) or "")
        name = (found[1] or found[2]) if found else None
        if name and name not in known["no_nodes"]:
            return name
    return None

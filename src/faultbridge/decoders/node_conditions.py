"""What the conditions, labels and events of a Kubernetes node say: the mapping `conditions` names the faults."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Hints, cut, evidence
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.families import code_in_family, expanded
from faultbridge.decoders.fields import members, told
from faultbridge.decoders.kubernetes_objects import Condition, NodeEvent, NodeLook, looks
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType, Fault, Observation, Snapshot
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected

KUBERNETES = "kubernetes-node"
_GPU = Component(ComponentType.GPU)
_ON_GPUS = ("xid.", "dcgm.")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the conditions that one source is the author of; `kubernetes-node` reads those of all."""

    source: str
    others: bool = False

    def decode(self, body: bytes, hints: Hints) -> tuple[Observation, ...]:
        """Health snapshot each node of the input; a body without a condition or event of a node is `Rejected`."""
        known = mapping("conditions", hints.mappings)
        found = tuple(looks(text_of(body)))
        if not found:
            raise Rejected("no_framing", "no condition, event or row of a Kubernetes node in it")
        return tuple(
            observation
            for look in found
            for observation in (
                self._events(look, known) if isinstance(look, NodeEvent) else self._snapshot(look, known)
            )
        )

    def _snapshot(self, look: NodeLook, known: Mapping[str, Any]) -> Iterator[Observation]:
        covers: defaultdict[str, list[Component]] = defaultdict(list)
        present: list[Fault] = []
        for condition in look.conditions:
            row = known["types"].get(condition.type)
            if row is None:
                present += self._other(condition, look)
            elif self.source == KUBERNETES or self.source in row["sources"]:
                code = _wrong(condition, row, known)
                present += [_fault(self.source, code, condition, look)] if code else []
                for covered in _covered(condition, row):
                    covers[covered].append(_GPU if covered.startswith(_ON_GPUS) else NODE_COMPONENT)
        if self.source == KUBERNETES:
            self._labels(look, known, covers, present)
        if covers or present:
            once = {code: tuple(dict.fromkeys(components)) for code, components in covers.items()}
            yield Snapshot(self.source, once, tuple(present), node=look.name)

    def _other(self, condition: Condition, look: NodeLook) -> list[Fault]:
        """Judge a condition that nobody has described: of its own source it is a trouble when it is true."""
        wrong = self.others and condition.status == "True" and not condition.type.endswith(("Ready", "Healthy"))
        return [_fault(self.source, "agent.condition", condition, look)] if wrong else []

    def _labels(
        self,
        look: NodeLook,
        known: Mapping[str, Any],
        covers: dict[str, list[Component]],
        present: list[Fault],
    ) -> None:
        for label, words in known["labels"].items():
            word = look.labels.get(label)
            if word not in words:
                continue
            for code in filter(None, words.values()):
                covers[code].append(NODE_COMPONENT)
            if words[word]:
                condition = Condition(label.rpartition("/")[2], str(word))
                present.append(_fault(self.source, words[word], condition, look))

    def _events(self, event: NodeEvent, known: Mapping[str, Any]) -> Iterator[Observation]:
        code = _by_reason(event.reason, known)
        if code is None and not (event.warning and self.others):
            return
        condition = Condition("event", "True", event.reason, event.message, event.at)
        yield _fault(self.source, code or "agent.notice", condition, NodeLook(event.name))


def speaks_of_types(body: bytes, source: str) -> bool:
    """Tell whether a body that is no whole node names a condition type of a source."""
    if b'"kind"' in body and b'"Node"' in body and b'"involvedObject"' not in body:
        return False
    if b"lastTransitionTime" not in body and b"lastHeartbeatTime" not in body:
        return False
    types = members(mapping("conditions", {})["types"])
    return any(source in row["sources"] and re.search(rb"\b%s\b" % name.encode(), body) for name, row in types.items())


def _wrong(condition: Condition, row: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """Return the fault that a condition means, or None where it is well or unknown."""
    if condition.status == row["healthy"]:
        return None
    if condition.status == "Unknown":
        return row.get("unknown")
    code: str = _by_reason(condition.reason, known) or row["code"]
    return code


def _by_reason(reason: str | None, known: Mapping[str, Any]) -> str | None:
    if reason is None:
        return None
    if reason in known["reasons"]:
        return str(known["reasons"][reason])
    for row in known["reason_patterns"]:
        found = re.fullmatch(row["pattern"], reason)
        if found:
            return code_in_family(row["family"], int(found[1]))
    return None


def _covered(condition: Condition, row: Mapping[str, Any]) -> Iterator[str]:
    if condition.status == "Unknown" and "unknown" not in row:
        return
    if "unknown" in row:
        yield row["unknown"]
    if condition.status != "Unknown":
        yield from expanded((row["code"], *row.get("clears", ())))


def _fault(source: str, code: str, condition: Condition, look: NodeLook) -> Fault:
    says = f"{condition.type} is {condition.status}" if condition.type != "event" else str(condition.reason)
    text = ": ".join(part for part in (says, condition.message) if part)
    on_gpu = code.startswith(_ON_GPUS) or code == "agent.gpu_unhealthy"
    return Fault(
        source=source,
        code=code,
        component=_GPU if on_gpu else NODE_COMPONENT,
        message=cut(text),
        observed_at=condition.changed_at,
        evidence=evidence(", ".join(part for part in (says, condition.reason, condition.message) if part)),
        attributes=told(
            condition=condition.type,
            status=condition.status,
            reason=condition.reason,
            since=to_text(condition.changed_at) if condition.changed_at else None,
        ),
        node=look.name,
    )

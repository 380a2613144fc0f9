"""What keeps work off a Kubernetes node: the patches that put it there and take it away again.

A node that is isolated is unschedulable, has our taint, so that nothing but what tolerates it can be bound to it, and
our label, by which people find it. Whoever cordoned a node before us finds it cordoned after us.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import Taint
from lightkube.resources.core_v1 import Node

ISOLATED = "faultbridge/isolated"
"""Key of the taint and of the label; nodes may register with the taint, then a successor gets no work unverified."""

CORDONED_BEFORE = "faultbridge/cordoned-before"
"""Annotation of a node that somebody else had cordoned when it was isolated."""

EFFECT = "NoSchedule"
TRUE = "true"

Patch = dict[str, Any]
"""A JSON merge patch; it names the version that was read, so that it is refused when somebody was faster."""


def isolating(node: Node) -> Patch | None:
    """Return what isolates a node, or None where nothing is missing."""
    labels, taints = _labels(node), _taints(node)
    marked = labels.get(ISOLATED) == TRUE
    if marked and _unschedulable(node) and any(map(_is_ours, taints)):
        return None
    before = _annotations(node).get(CORDONED_BEFORE) if marked else None
    others = TRUE if _unschedulable(node) and not marked else before
    kept = [taint for taint in taints if not _is_ours(taint)]
    return _patch(
        node,
        labels={ISOLATED: TRUE},
        annotations={CORDONED_BEFORE: others},
        spec={"unschedulable": True, "taints": _written([*kept, Taint(key=ISOLATED, value=TRUE, effect=EFFECT)])},
    )


def releasing(node: Node) -> Patch | None:
    """Return what lets work on a node again as far as we kept it off, or None where nothing of ours is left."""
    taints = _taints(node)
    marked = ISOLATED in _labels(node)
    if not marked and not any(map(_is_ours, taints)):
        return None
    spec: dict[str, Any] = {"taints": _written([taint for taint in taints if not _is_ours(taint)]) or None}
    if marked and not _annotations(node).get(CORDONED_BEFORE):
        spec["unschedulable"] = None
    return _patch(node, labels={ISOLATED: None}, annotations={CORDONED_BEFORE: None}, spec=spec)


def stays_cordoned(node: Node) -> bool:
    """Tell whether somebody else keeps work off the node, whatever we do."""
    if ISOLATED in _labels(node):
        return _annotations(node).get(CORDONED_BEFORE) == TRUE
    return _unschedulable(node)


def _patch(node: Node, *, labels: Patch, annotations: Patch, spec: Patch) -> Patch:
    version = node.metadata.resourceVersion if node.metadata else None
    return {"metadata": {"resourceVersion": version, "labels": labels, "annotations": annotations}, "spec": spec}


def _is_ours(taint: Taint) -> bool:
    return taint.key == ISOLATED


def _written(taints: list[Taint]) -> list[Patch]:
    return [taint.to_dict() for taint in taints]


def _unschedulable(node: Node) -> bool:
    return bool(node.spec and node.spec.unschedulable)


def _taints(node: Node) -> list[Taint]:
    return list(node.spec.taints or ()) if node.spec else []


def _labels(node: Node) -> dict[str, str]:
    return dict(node.metadata.labels or {}) if node.metadata else {}


def _annotations(node: Node) -> dict[str, str]:
    return dict(node.metadata.annotations or {}) if node.metadata else {}

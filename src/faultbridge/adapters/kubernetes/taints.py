"""Build the patches that isolate and release a Kubernetes node.

An isolated node is unschedulable, has a taint that keeps pods away, and has a label by which operators find it. A node
that was already cordoned before the isolation stays cordoned after the release.

A node that waits for its isolation has the taint with the effect `PreferNoSchedule`. The isolation replaces this taint,
and the release removes it.
"""

from __future__ import annotations

from typing import Any

from lightkube.models.core_v1 import Taint
from lightkube.resources.core_v1 import Node

ISOLATED = "faultbridge/isolated"
"""Key of the taint and the label; a node that registers with the taint gets no work before verification."""

CORDONED_BEFORE = "faultbridge/cordoned-before"
"""Annotation of a node that was already cordoned when Faultbridge isolated it."""

EFFECT, PREFERENCE = "NoSchedule", "PreferNoSchedule"
TRUE = "true"

Patch = dict[str, Any]
"""A JSON merge patch with the resource version of the node. The API rejects the patch if the node has changed."""


def isolation_patch(node: Node) -> Patch | None:
    """Return the patch that isolates a node, or None if the node is already isolated."""
    labels, taints = _labels(node), _taints(node)
    labeled = labels.get(ISOLATED) == TRUE
    if labeled and _unschedulable(node) and any(map(_isolates, taints)):
        return None
    recorded = _annotations(node).get(CORDONED_BEFORE) if labeled else None
    cordoned_before = TRUE if _unschedulable(node) and not labeled else recorded
    other_taints = [taint for taint in taints if not _is_ours(taint)]
    return _patch(
        node,
        labels={ISOLATED: TRUE},
        annotations={CORDONED_BEFORE: cordoned_before},
        spec={
            "unschedulable": True,
            "taints": _to_json([*other_taints, Taint(key=ISOLATED, value=TRUE, effect=EFFECT)]),
        },
    )


def preference_patch(node: Node) -> Patch | None:
    """Return the patch that adds the taint `PreferNoSchedule`, or None if the node has a taint or label of ours."""
    taints = _taints(node)
    if ISOLATED in _labels(node) or any(map(_is_ours, taints)):
        return None
    soft = Taint(key=ISOLATED, value=TRUE, effect=PREFERENCE)
    return _patch(node, labels={}, annotations={}, spec={"taints": _to_json([*taints, soft])})


def release_patch(node: Node) -> Patch | None:
    """Return the patch that releases an isolated node, or that removes the taint `PreferNoSchedule`.

    The result is None if the node has neither the label nor a taint of ours.
    """
    taints = _taints(node)
    labeled = ISOLATED in _labels(node)
    if not labeled and not any(map(_is_ours, taints)):
        return None
    spec: dict[str, Any] = {"taints": _to_json([taint for taint in taints if not _is_ours(taint)]) or None}
    if labeled and not _annotations(node).get(CORDONED_BEFORE):
        spec["unschedulable"] = None
    return _patch(node, labels={ISOLATED: None}, annotations={CORDONED_BEFORE: None}, spec=spec)


def stays_cordoned(node: Node) -> bool:
    """Return whether the node stays cordoned after its release, because it was cordoned before isolation.

    For a node without the label of the isolation, the result is whether the node is cordoned now.
    """
    if ISOLATED in _labels(node):
        return _annotations(node).get(CORDONED_BEFORE) == TRUE
    return _unschedulable(node)


def _patch(node: Node, *, labels: Patch, annotations: Patch, spec: Patch) -> Patch:
    """Return a merge patch that the API rejects if the node has changed since it was read."""
    version = node.metadata.resourceVersion if node.metadata else None
    return {"metadata": {"resourceVersion": version, "labels": labels, "annotations": annotations}, "spec": spec}


def _isolates(taint: Taint) -> bool:
    return _is_ours(taint) and taint.effect != PREFERENCE


def _is_ours(taint: Taint) -> bool:
    return taint.key == ISOLATED


def _to_json(taints: list[Taint]) -> list[Patch]:
    return [taint.to_dict() for taint in taints]


def _unschedulable(node: Node) -> bool:
    return bool(node.spec and node.spec.unschedulable)


def _taints(node: Node) -> list[Taint]:
    return list(node.spec.taints or ()) if node.spec else []


def _labels(node: Node) -> dict[str, str]:
    return dict(node.metadata.labels or {}) if node.metadata else {}


def _annotations(node: Node) -> dict[str, str]:
    return dict(node.metadata.annotations or {}) if node.metadata else {}

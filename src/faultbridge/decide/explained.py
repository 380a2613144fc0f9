"""Explained conditions: consequences of another active failure, which need no case and no action of their own.

A mode of the catalog names the modes that it `explains`: an uncorrectable memory error also causes Xid 154, 63 and 45.
"""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import Condition, is_another
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import GPU_PARTS, Component
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace

WITHIN = timedelta(seconds=60)
"""A consequence begins at most this long before or after its cause is observed."""


def with_explained(state: NodeState, catalog: Catalog) -> NodeState:
    """Return the node whose conditions name, in `because_of`, the condition that explains them now, or None."""
    causes = [one for one in state.active() if one.mode in catalog.modes and catalog.modes[one.mode].explains]
    if not causes and not any(one.because_of for one in state.conditions.values()):
        return state
    conditions = {}
    for key, one in state.conditions.items():
        found = [cause.key for cause in causes if _explains(cause, one, catalog, state)]
        because_of = min(found, default=None)
        conditions[key] = one if because_of == one.because_of else replace(one, because_of=because_of)
    return replace(state, conditions=conditions)


def _explains(cause: Condition, one: Condition, catalog: Catalog, state: NodeState) -> bool:
    """Return whether a condition explains another one; a claim explains no proven fault."""
    mutual = one.mode in catalog.modes and cause.mode in catalog.modes[one.mode].explains
    if one.mode not in catalog.modes[cause.mode].explains or mutual or not cause.action.opens_case:
        return False
    if (cause.claimed and not one.claimed) or not cause.known_incarnation:
        return False
    in_time = cause.since - WITHIN <= one.since <= cause.last_at + WITHIN
    return in_time and _is_related(cause.component, one.component, state)


def _is_related(cause: Component, one: Component, state: NodeState) -> bool:
    if ComponentType.NODE in {cause.type, one.type}:
        return True
    if cause.type is ComponentType.NVSWITCH and one.type in {ComponentType.NVLINK, ComponentType.NVSWITCH}:
        return True  # links of its switch: a report of a link does not name the switch
    if {cause.type, one.type} <= GPU_PARTS:
        first, second = (replace(part, type=ComponentType.GPU, link=None) for part in (cause, one))
        return not is_another(first, second, state.devices)
    return cause.type is one.type and not is_another(cause, one, state.devices)

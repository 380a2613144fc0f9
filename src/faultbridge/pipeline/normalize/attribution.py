"""Attribution: a word without a code, or without a device, is about the trouble that another reporter names.

HyperPod's event says that a node is to be replaced, its agent that some GPU is unhealthy; the kernel's log names the
Xid and the GPU. These are one condition with three reporters. Which codes a word may stand for is the catalog's
`stands_for`; a code on an unnamed device stands for the same code on a named one. Both must have been heard of within
a quarter of an hour of each other, or the source has used the word for that condition before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.conditions import Condition, Tombstone, component_key
from faultbridge.domain.faults import Component, ComponentType, Fault, Severity

TOGETHER = timedelta(minutes=15)

Conditions = Mapping[str, Condition]


def named(word: str, fault: Fault, at: datetime, among: Conditions, catalog: Catalog) -> str | None:
    """Return the key of the active condition that a fault is a word for: of several the worst, of these the latest."""
    code = catalog.canonical(fault.code)
    found = [
        (one.severity.rank, one.last_at, place)
        for place, one in _active(among)
        if _stands_for(code, fault.component, one, catalog)
        and (_together(one, at) or _used_before(one, fault.source, word))
    ]
    return max(found)[2] if found else None


def vague(condition: Condition, among: Conditions, catalog: Catalog) -> list[str]:
    """Return the keys of the active conditions to which a new one gives their name."""
    return [
        place
        for place, one in _active(among)
        if _stands_for(one.code, one.component, condition, catalog) and _together(one, condition.last_at)
    ]


def settled(fault: Fault, at: datetime, ended: Mapping[str, Tombstone], catalog: Catalog) -> bool:
    """Tell whether a fault is a word for a condition that has ended since: then it is late."""
    word = catalog.canonical(fault.code)
    if not (catalog.row(word).stands_for or _unnamed(fault.component)):
        return False
    for key, tombstone in ended.items():
        code, _, place = key.partition("@")
        begun = min((*tombstone.reporters.values(), tombstone.ended_at)) - TOGETHER
        grave = catalog.row(code).severity.rank >= Severity.ERROR.rank
        if grave and begun <= at <= tombstone.ended_at and _stood_for(word, fault.component, code, place, catalog):
            return True
    return False


def withdrawn(word: str, source: str, among: Conditions) -> str:
    """Return the key of the condition that a source means when it takes a word back: the word's own, if no other."""
    return next((place for place, one in _active(among) if _used_before(one, source, word)), word)


def _active(among: Conditions) -> Iterator[tuple[str, Condition]]:
    return ((place, one) for place, one in among.items() if one.active)


def _used_before(condition: Condition, source: str, word: str) -> bool:
    reporter = condition.reporters.get(source)
    return reporter is not None and reporter.word == word


def _together(condition: Condition, at: datetime) -> bool:
    return condition.since - TOGETHER <= at <= condition.last_at + TOGETHER


def _stands_for(word: str, component: Component, condition: Condition, catalog: Catalog) -> bool:
    grave = condition.severity.rank >= Severity.ERROR.rank
    return grave and _stood_for(word, component, condition.code, component_key(condition.component), catalog)


def _stood_for(word: str, component: Component, code: str, place: str, catalog: Catalog) -> bool:
    mine = component_key(component)
    if word == code:
        return _unnamed(component) and place != mine and place.startswith(f"{component.type.value}/")
    if not (component.type is ComponentType.NODE or _unnamed(component) or place == mine):
        return False
    meant = catalog.row(word).stands_for
    return any(code == one or (one.endswith("*") and code.startswith(one[:-1])) for one in meant)


def _unnamed(component: Component) -> bool:
    return component_key(component) == f"{component.type.value}/any"

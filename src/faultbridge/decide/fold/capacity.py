"""Capacity: how many changes one commit takes, and how many bytes of conditions a node stores.

DynamoDB accepts 100 writes in a transaction and 400 KB in an item. The limits of this module keep a commit at 90 writes
or fewer, and a node at 200 KB of conditions and tombstones or less. Changes above a limit follow in the next commit.
Conditions above a limit are evicted, and the condition `host.condition_overflow` reports this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from json.encoder import encode_basestring

from faultbridge.decide.fold.attribution import keep_end, last_time
from faultbridge.decide.fold.changes import Change, ChangeKind
from faultbridge.model.conditions import Condition, Reporter, Tombstone
from faultbridge.model.faults import Component

MAX_CONDITIONS = 64
MAX_TOMBSTONES = 128
MAX_CHANGES = 40
"""Weight of the changes after which a fold stops. The observation that reaches it may add up to 18 more."""

MAX_OVERRIDES = 8
"""Conditions that one commit changes only because another rule of the policy applies to them."""

MAX_CONDITION_BYTES = 100_000
ALWAYS_FITTING = 6
"""This many conditions always fit, so their bytes need not be counted."""

RESERVED_BYTES = 2_000
"""Free bytes after an eviction, for the overflow condition that reports it."""

MAX_TOMBSTONE_BYTES = 40_000
MAX_REPORTERS = 8
MAX_ATTRIBUTE_BYTES, MAX_EVENT_ATTRIBUTE_BYTES = 1024, 16_000
DROPPED = "attributes_dropped"
"""The attribute that states how many attributes were removed from a condition or an event to limit its size."""

OVERFLOW = "host.condition_overflow"
"""The code of the condition that reports evicted conditions. It is never evicted."""

_CONDITION, _REPORTER, _DIGEST, _HOUR, _TIME, _FIELD = 720, 200, 20, 26, 40, 8


def weight(changes: Iterable[Change]) -> int:
    """Return the table writes of these changes: an entry each, and the index rows of a new device's fault."""
    return sum(1 + (_names_of_device(change) if change.kind is ChangeKind.BEGAN else 0) for change in changes)


def condition_bytes(key: str, condition: Condition) -> int:
    """Return an upper bound of the bytes that a condition takes in the table item of its node."""
    names = (condition.code, condition.mode, condition.rule, condition.because_of, condition.message)
    texts = _bytes(key, *names, *condition.ends_on, *_names(condition.component))
    attributes = sum(_bytes(name, value) + _FIELD for name, value in condition.attributes.items())
    reporters = sum(_reporter_bytes(source, reporter) for source, reporter in condition.reporters.items())
    return _CONDITION + texts + attributes + reporters + len(condition.codes_added) * _TIME


def mildest_condition(conditions: Mapping[str, Condition]) -> str:
    """Return the key of the least severe, longest unobserved condition, never the overflow condition."""
    others = (key for key, condition in conditions.items() if condition.code != OVERFLOW)
    return min(others, key=lambda key: (conditions[key].severity.rank, conditions[key].last_at))


KnownSizes = dict[str, tuple[Condition, int]]
"""The sizes of conditions that were computed before, by the keys of the conditions."""


def condition_sizes(conditions: Mapping[str, Condition], known: KnownSizes) -> dict[str, int]:
    """Return an upper bound of each condition's bytes; only changed ones are computed."""
    for key, condition in conditions.items():
        if key not in known or known[key][0] is not condition:
            known[key] = condition, condition_bytes(key, condition)
    return {key: known[key][1] for key in conditions}


def oversized_conditions(conditions: Mapping[str, Condition], known: KnownSizes | None = None) -> list[str]:
    """Return the mildest, then largest conditions to evict, so that the rest fits the node's item."""
    if len(conditions) <= ALWAYS_FITTING:
        return []
    sizes = condition_sizes(conditions, {} if known is None else known)
    stored = sum(sizes.values())
    if stored <= MAX_CONDITION_BYTES:
        return []
    evictable = sorted(
        (key for key in sizes if conditions[key].code != OVERFLOW),
        key=lambda key: (conditions[key].severity.rank, -sizes[key]),
    )
    evicted: list[str] = []
    for key in evictable:
        if stored <= MAX_CONDITION_BYTES - RESERVED_BYTES:
            break
        evicted.append(key)
        stored -= sizes[key]
    return evicted


def tombstone_bytes(key: str, tombstone: Tombstone) -> int:
    """Return an upper bound of the bytes of a tombstone in its node's table item."""
    return 2 * _TIME + _bytes(key) + sum(_TIME + _bytes(source) for source in tombstone.reporters)


def evict_tombstones(
    tombstones: dict[str, Tombstone], evicted: dict[str, datetime], floor: datetime | None
) -> datetime | None:
    """Remove the oldest tombstones above the limits, store their ends in `evicted`, and return the new floor."""
    stored = sum(tombstone_bytes(*ended) for ended in tombstones.items())
    while len(tombstones) > MAX_TOMBSTONES or stored > MAX_TOMBSTONE_BYTES:
        oldest = min(tombstones, key=lambda ended: tombstones[ended].ended_at)
        tombstone = tombstones.pop(oldest)
        stored -= tombstone_bytes(oldest, tombstone)
        floor = keep_end(oldest.partition("@")[0], last_time(tombstone), evicted, floor)
    return floor


def limit_attributes(attributes: Mapping[str, str], limit: int) -> dict[str, str]:
    """Return the attributes that fit `limit` bytes without the longest, and `attributes_dropped`."""
    sizes = {name: _bytes(name, value) + _FIELD for name, value in attributes.items()}
    if sum(sizes.values()) <= limit:
        return dict(attributes)
    room, kept = limit - 2 * len(DROPPED), set()
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if room < 0:
            break
        kept.add(name)
    fitting = {name: value for name, value in attributes.items() if name in kept}
    return {**fitting, DROPPED: str(len(attributes) - len(kept))}


def limit_reporters(reporters: Mapping[str, Reporter], newest: str | None = None) -> dict[str, Reporter]:
    """Return at most 8 reporters with `newest`; inactive, then oldest ones are removed first."""
    kept = dict(reporters)
    while len(kept) > MAX_REPORTERS:
        others = (source for source in kept if source != newest)
        del kept[min(others, key=lambda source: (kept[source].active, kept[source].last_at))]
    return kept


def _names_of_device(change: Change) -> int:
    component = change.condition.component if change.condition else None
    return 0 if component is None else (component.uuid is not None) + (component.serial is not None)


def _reporter_bytes(source: str, reporter: Reporter) -> int:
    listed = _DIGEST * len(reporter.digests) + _HOUR * len(reporter.hours)
    return _REPORTER + _bytes(source, reporter.unspecific_key) + listed


def _names(component: Component) -> tuple[str | None, ...]:
    return component.pci, component.uuid, component.serial, component.name


def _bytes(*texts: str | None) -> int:
    return sum(_text_bytes(text) for text in texts if text)


def _text_bytes(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text) + 2 + text.count('"') + text.count("\\")
    return len(encode_basestring(text).encode(errors="replace"))

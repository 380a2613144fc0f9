"""Coverage: a passed verification ends only the faults that it covers."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.data import load_catalog
from faultbridge.domain.entries import EntryType
from faultbridge.simulation.fakes.instance_commands import DEFAULT_LEVEL
from faultbridge.simulation.invariants.view import Invariant, SystemView

VERIFIER = "ssm-dcgm"
ONLY_VERIFIED = "verification passed after verify"
"""The reason with which a fault ends that no repair action fixed."""


def _cleared_without_coverage(view: SystemView) -> Iterator[str]:
    catalog = load_catalog()
    for bodies in view.bodies.values():
        for body in bodies:
            meta, data = body["metadata"], body["data"]
            if meta["event_type"] != EntryType.FAULT_CLEARED or data["reason"] != ONLY_VERIFIED:
                continue
            if not catalog.covers(VERIFIER, DEFAULT_LEVEL, data["code"]):
                yield f"{meta['stream']} {meta['sequence']}: {data['code']}"


INVARIANTS = (Invariant("a passed verification ends only the faults that it covers", _cleared_without_coverage),)

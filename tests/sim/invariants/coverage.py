"""Checks that a verification, a reset or a reboot ends only faults that it can check or fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from faultbridge.decode.data import FOLDER, load_catalog
from faultbridge.model.enums import EntryType
from tests.sim.fakes.instance_commands import DEFAULT_LEVEL
from tests.sim.invariants.view import Invariant, SystemView

VERIFIER = "ssm-dcgm"
ONLY_VERIFIED = "verification passed after verify"
"""The reason for the end of a fault if only a verification passed, without a repair."""

BEFORE_REPLACEMENT = frozenset(
    {ONLY_VERIFIED, "reboot", "verification passed after reset_gpu", "verification passed after reboot_node"}
)
"""The reasons for the end of a fault that ends on the same instance without a report of a source."""


@cache
def network_faults_ended_by_reboot() -> frozenset[str]:
    """Return the codes of the network faults that a reboot of the node ends.

    For most of these faults, no source reports that the fault is over.
    """
    return frozenset(json.loads((FOLDER / "coverage.json").read_bytes())["ended_by_reboot"]["codes"])


def _cleared_without_coverage(view: SystemView) -> Iterator[str]:
    catalog, ended_by_reboot = load_catalog(), network_faults_ended_by_reboot()
    for bodies in view.bodies.values():
        for body in bodies:
            meta, data = body["metadata"], body["data"]
            if meta["event_type"] != EntryType.FAULT_CLEARED or data["reason"] not in BEFORE_REPLACEMENT:
                continue
            reason, code = data["reason"], data["code"]
            by_repair = not code.startswith("net.") or ("reboot" in reason and code in ended_by_reboot)
            if reason != ONLY_VERIFIED and by_repair:
                continue
            if not catalog.covers(VERIFIER, DEFAULT_LEVEL, data["code"]):
                yield f"{meta['stream']} {meta['sequence']}: {data['code']}"


INVARIANTS = (Invariant("a verification or reboot ends only the faults that it covers", _cleared_without_coverage),)

"""Checks that a verification, a reset or a reboot ends only faults that it can check or fix."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.decode.data import load_catalog, network_faults_ended_by_reboot
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

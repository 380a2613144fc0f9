"""Baselines: the rules of other repair systems, simplified so that a scenario can be run under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.model.enums import RepairAction
from tests.lab.jobs import MINUTE
from tests.lab.trace import DAY

REPLACE, REBOOT = RepairAction.REPLACE_NODE, RepairAction.REBOOT_NODE


@dataclass(frozen=True, slots=True)
class Baseline:
    """The rules of one other repair system; `approximated` states how they differ from the real system.

    - `wait`: seconds from the report of a fault to its repair. `soft_wait` is used instead for network faults, missing
      heartbeats, and nodes that are not ready or not reachable.
    - `percent`: no repair starts while more than this percentage of the nodes have a reported fault. With `reset`, the
      breaker then stays open until an operator resets it.
    - `action`: the repair action. If it is None, an operator repairs every fault.
    - `by_code`: the repair action is the catalog's action for the fault instead of `action`, or a reboot if the catalog
      names `verify`. If the catalog names no repair action, an operator repairs the fault.
    - `removals`: a host is replaced once it has had this number of reported faults within `window` seconds. Before
      that, its repair action is `action`. 0: not used.
    - `give_up`: a host with more than this number of reported faults within `window` seconds is repaired by an
      operator. 0: not used.
    - `cordons`: a node takes no new work as soon as its fault is reported, and its repair waits until its job ends.
    - `evicts_at_once`: a node stops serving as soon as its fault is reported. Otherwise, a node with a false alarm
      serves until its repair starts.
    """

    name: str
    approximated: str
    action: RepairAction | None = REPLACE
    by_code: bool = False
    wait: float = 0.0
    soft_wait: float = 0.0
    percent: int = 100
    reset: bool = False
    removals: int = 0
    give_up: int = 0
    window: float = 7 * DAY
    cordons: bool = False
    evicts_at_once: bool = False


EKS = "eks-auto-repair"
BASELINES: Mapping[str, Baseline] = {
    one.name: one
    for one in (
        Baseline(
            EKS,
            "as in EKS Auto Mode and with Karpenter, where each action is a replacement: waits 10 min for accelerators"
            " and 30 min for other conditions; stops above 20 % unhealthy nodes; its agent sees every fault here",
            wait=10 * MINUTE,
            soft_wait=30 * MINUTE,
            percent=20,
        ),
        Baseline("fixed-wait", "replaces after 30 min, whatever the fault", wait=30 * MINUTE, soft_wait=30 * MINUTE),
        Baseline(
            "nvsentinel-allow-completion",
            "cordons at once, lets jobs end (drain mode AllowCompletion), and uncordons when the fault ends; takes the"
            " action of Faultbridge's catalog, because NVIDIA's own is close to it, and reboots where that one only"
            " verifies; no verification; an operator resets its breaker, and repairs a node after 5 repairs in 7 days",
            by_code=True,
            percent=50,
            reset=True,
            give_up=5,
            cordons=True,
        ),
        Baseline(
            "restart-then-replace",
            "restarts a host at once, and replaces it at its third fault in 7 days",
            action=REBOOT,
            removals=3,
            evicts_at_once=True,
        ),
        Baseline("replace-at-once", "replaces the host of every reported fault, with no wait, limit or verification",
                 evicts_at_once=True),
        Baseline("never-replace", "an operator repairs each fault in the trace's own time", action=None),
    )
}  # fmt: skip

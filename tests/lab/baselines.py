"""Baselines: the rules of other repair systems, simplified so that a scenario can be run under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.model.enums import RepairAction
from tests.lab.scenario import MINUTE
from tests.lab.trace import DAY

REPLACE, REBOOT = RepairAction.REPLACE_NODE, RepairAction.REBOOT_NODE


@dataclass(frozen=True, slots=True)
class Baseline:
    """The rules of one other repair system; `approximated` states how they differ from the real system.

    - `wait`: seconds from the report of a fault to its repair. `soft_wait` is used instead for network faults, missing
      heartbeats, and nodes that are not ready or not reachable.
    - `percent`, `min_unhealthy`: no repair starts while more than `percent` percent of the nodes have a reported fault,
      if these are also more than `min_unhealthy` nodes.
    - `action`: the repair action. If it is None, an operator repairs every fault.
    - `by_code`: the repair action is the catalog's action for the fault instead of `action`, or a reboot if the catalog
      names `verify`. If the catalog names no repair action, an operator repairs the fault.
    - `removals`: a host is replaced once it has had this number of reported faults within `window` seconds. Before
      that, its repair action is `action`. 0: not used.
    - `half_life`: all reported faults of a host count for `removals`, and the weight of each fault halves after this
      many seconds. 0: not used.
    - `give_up`: a host with more than this number of reported faults within `window` seconds is repaired by an
      operator. 0: not used.
    - `evicts_at_once`: a node stops serving as soon as its fault is reported. If False, a node with a false alarm
      serves until its repair starts.
    """

    name: str
    approximated: str
    action: RepairAction | None = REPLACE
    by_code: bool = False
    wait: float = 0.0
    soft_wait: float = 0.0
    percent: int = 100
    min_unhealthy: int = 5
    removals: float = 0.0
    half_life: float = 0.0
    give_up: int = 0
    window: float = 7 * DAY
    evicts_at_once: bool = False


BASELINES: Mapping[str, Baseline] = {
    one.name: one
    for one in (
        Baseline(
            "never-replace",
            "an operator repairs each fault in the trace's own time",
            action=None,
        ),
        Baseline("replace-at-once", "replaces the host of every reported fault, with no wait, limit or verification"),
        Baseline(
            "eks-auto-repair",
            "replaces; waits 10 min for accelerators and 30 min for other conditions; stops above 20 % unhealthy nodes;"
            " its reboots and its mapping of Xids to conditions are left out",
            wait=10 * MINUTE,
            soft_wait=30 * MINUTE,
            percent=20,
        ),
        Baseline(
            "karpenter-node-repair",
            "as EKS auto repair, but its limit of 20 % has no minimum of five nodes; all nodes form one node pool",
            wait=10 * MINUTE,
            soft_wait=30 * MINUTE,
            percent=20,
            min_unhealthy=0,
        ),
        Baseline(
            "nvsentinel-defaults",
            "cordons at once and takes the catalog's action of Faultbridge, because NVIDIA's own is close to it; no"
            " verification; the breaker at 50 % closes by itself; an operator repairs a node after 5 repairs in 7 days",
            by_code=True,
            percent=50,
            give_up=5,
            evicts_at_once=True,
        ),
        Baseline(
            "airesim-threshold-removal",
            "restarts a host, and removes it at its third fault in 7 days; the name of the rule is AIReSim's, its"
            " parameters were not available",
            action=REBOOT,
            removals=3,
            evicts_at_once=True,
        ),
        Baseline(
            "airesim-scored-removal",
            "as the threshold rule, with a score that halves each 3 days and removes a host at 2; parameters were not"
            " available",
            action=REBOOT,
            removals=2,
            half_life=3 * DAY,
            evicts_at_once=True,
        ),
    )
}

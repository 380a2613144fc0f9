"""Terminates instances that were launched for a case and never backed a node.

`end_for_case` runs when a repair closes its case. `EndUnusedLaunches` finds instances that are left later, for example
because an operator retired the node during a launch, or because EC2 did not answer when the case closed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from faultbridge.dataclass import dataclass
from faultbridge.domain.edges import CaseStatus
from faultbridge.errors import Transient
from faultbridge.log import log_cause
from faultbridge.ports import LaunchedInstance, Launcher
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_tools import StepTools
from faultbridge.repair.spares.pool import read_spares
from faultbridge.repair.successor.launch import case_launches, case_request
from faultbridge.rules.rulebook import rules_of
from faultbridge.storage import items, keys


def end_for_case(context: StepContext) -> None:
    """Terminate the instances that were launched for a closing case and never backed a node.

    If EC2 does not answer, this is only logged, and `EndUnusedLaunches` terminates the instances later.
    """
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None:
        return
    try:
        launched = case_launches(launcher, case_request(context, group))
        _end(context.tools, launcher, context.state.key.cluster, launched)
    except Transient as error:
        # The node is verified, so the case closes anyway; `EndUnusedLaunches` repeats the termination.
        context.log("unused_launch_left", str(error))


@dataclass(frozen=True, slots=True)
class EndUnusedLaunches:
    """Terminates the unused instances of a cluster's closed cases. A repeated call has no further effect.

    A call reads the case of each launched instance. To limit these reads, a call does nothing outside the first minute
    of an hour. It also does nothing for a cluster that Faultbridge does not repair, or whose repairs are paused: after
    a restore, an instance may serve a node although the table says otherwise.
    """

    tools: StepTools

    def __call__(self, cluster: str) -> None:
        """Terminate the launched instances that never backed a node and whose case is closed."""
        config = rules_of(self.tools.rulebook, cluster).config
        launcher = self.tools.compute(config).launchers.get(config.provider)
        if launcher is None or not config.repairs or self.tools.clock.now().minute:
            return
        if items.read_control(cluster, self.tools.table.get(keys.cluster_control(cluster))).paused:
            return
        launched = launcher.launched_in(config)
        # An instance is claimed only while its case is live: after the case was read as closed, no claim can follow.
        cases = self.tools.table.get_many(keys.case(one.case) for one in launched if one.case)
        ended = {key for key, found in cases.items() if not CaseStatus(str(found["status"])).live}
        _end(self.tools, launcher, cluster, [one for one in launched if one.case and keys.case(one.case) in ended])


def _end(tools: StepTools, launcher: Launcher, cluster: str, launched: Iterable[LaunchedInstance]) -> None:
    launched = tuple(launched)
    claims = {keys.claim(one.instance_id): one.instance_id for one in launched}
    aliases = {keys.alias("instance", one.instance_id): one.instance_id for one in launched}  # of registered nodes
    used = {(claims | aliases)[key] for key in tools.table.get_many([*claims, *aliases])}
    unused = [one for one in launched if one.instance_id not in used]
    pooled = {spare.instance_id for spare in read_spares(tools.table, cluster)} if unused else set()
    for one in unused:
        if one.instance_id not in pooled:
            reason = "the case is closed and the instance never backed a node"
            ids = {"cluster": cluster, "instance_id": one.instance_id, "case_id": one.case}
            log_cause("unused_launch_terminated", reason=reason, level=logging.WARNING, **ids)
            launcher.terminate(one.instance_id)

"""Terminates instances that were launched for a case or for the spare pool, and never backed a node."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from faultbridge.model.cluster.state import SPARE, Spare, SpareStatus
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import Transient
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.record.ports import LaunchedInstance, Launcher
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import StepContext, StepTools
from faultbridge.repair.spares.pool import read_spares
from faultbridge.repair.successor.launch import case_launches, case_request


def end_for_case(context: StepContext) -> None:
    """Terminate the unused launches of a closing case; without an answer, the sweep does it later."""
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None:
        return
    try:
        launched = case_launches(launcher, case_request(context, group))
        _end(context.tools, launcher, context.state.key.cluster, launched)
    except Transient as error:
        # The node is verified, so the case closes anyway; `end_unused_launches` repeats the termination.
        context.log("unused_launch_left", str(error))


def end_unused_launches(tools: StepTools, cluster: str) -> None:
    """Terminate the launched instances that never backed a node and that no live case or spare uses.

    A call reads the case of each launched instance. To limit these reads, a call does nothing outside the first minute
    of an hour. It also does nothing for a cluster that Faultbridge does not repair, or whose repairs are paused: after
    a restore, an instance may serve a node although the table says otherwise.
    """
    config = rules_of(tools.rulebook, cluster).config
    launcher = tools.compute(config).launchers.get(config.provider)
    if launcher is None or not config.repairs or tools.clock.now().minute:
        return
    if items.read_control(cluster, tools.table.get(keys.cluster_control(cluster))).paused:
        return
    launched = launcher.launched_in(config)
    # An instance is claimed only while its case is live: after the case was read as closed, no claim can follow.
    cases = tools.table.get_many(keys.case(one.case) for one in launched if one.case)
    ended = {key for key, case in cases.items() if not CaseStatus(str(case["status"])).live}
    of_cases = [one for one in launched if one.case and keys.case(one.case) in ended]
    of_spares = _given_up(launched, read_spares(tools.table, cluster))
    _end(tools, launcher, cluster, [*of_cases, *of_spares])


def _given_up(launched: Iterable[LaunchedInstance], pool: Iterable[Spare]) -> list[LaunchedInstance]:
    """Return the instances with the tag of a spare that the pool neither has nor still launches.

    The pool gets an instance only while the spare of its tag is launching, and a taken spare becomes empty only after
    the claim. `_end` reads the claims after the pool was read, and therefore keeps an instance that backs a node.
    """
    kept = {spare.owner if spare.status is SpareStatus.LAUNCHING else spare.instance_id for spare in pool}
    tagged = [one for one in launched if one.case and one.case.startswith(SPARE)]
    return [one for one in tagged if one.case not in kept and one.instance_id not in kept]


def _end(tools: StepTools, launcher: Launcher, cluster: str, launched: Iterable[LaunchedInstance]) -> None:
    launched = tuple(launched)
    claims = {keys.claim(one.instance_id): one.instance_id for one in launched}
    aliases = {keys.alias("instance", one.instance_id): one.instance_id for one in launched}  # of registered nodes
    used = {(claims | aliases)[key] for key in tools.table.get_many([*claims, *aliases])}
    unused = [one for one in launched if one.instance_id not in used]
    pooled = {spare.instance_id for spare in read_spares(tools.table, cluster)} if unused else set()
    for one in unused:
        if one.instance_id not in pooled:
            reason = "the instance never backed a node, and its case is closed or its spare has ended"
            ids = {"cluster": cluster, "instance_id": one.instance_id, "case_id": one.case}
            log_cause("unused_launch_terminated", reason=reason, level=logging.WARNING, **ids)
            launcher.terminate(one.instance_id)

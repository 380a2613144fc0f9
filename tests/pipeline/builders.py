"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from faultbridge.decide.observe import observe
from faultbridge.model.cluster.state import Control
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, RepairAction, WaitingFor
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Limits, Policy
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.record.append import check_moves
from tests.builders import CATALOG, NOON, condition, node, rules

FAULTY = node(conditions={"xid.1@gpu": condition()})


def observed(*arrivals, state=None, now=NOON, **given) -> Transition:
    before = state or node()
    transition = observe(before, arrivals, rules=rules(**given), catalog=CATALOG, now=now)
    check_moves(before, transition.state, transition.drafts, Actor.INGEST)
    return transition


def queued(number: int = 1, **others) -> QueuedCase:
    given_ = {
        "repair_action": RepairAction.REPLACE_NODE,
        "priority": 0,
        "since": NOON,
        "waiting_for": WaitingFor.BUDGET,
    } | others
    return QueuedCase(NodeKey("train-a", f"node-{number}"), f"c-{number}", **given_)


def control(**others) -> Control:
    return Control("train-a", **others)


def picked(admission) -> list[str]:
    return [pick.case for pick in admission.picks]


ROOM = Policy("p", limits=Limits(concurrent=9, per_hour=9))

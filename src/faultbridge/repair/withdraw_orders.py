"""Withdraws orders to replace or quarantine a node if its case is canceled or the node is returned."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.expire import end_orders


def withdraw_orders(transition: Transition, rules: Rules, now: datetime) -> Transition:
    """End the conditions that operator orders opened on a node, and add their entries to the transition.

    A transition is the next state of a node with the entries that record it. The status of the node does not change
    here; the next sweep updates it.
    """
    ended = end_orders(transition.state, at=now)
    faults = (entry_builder.fault_change(one, ended.state, rules.catalog, rules.policy) for one in ended.changes)
    return replace(transition, state=ended.state, drafts=(*transition.drafts, *faults))

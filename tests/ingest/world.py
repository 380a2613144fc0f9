"""A small stack in memory: two clusters' worth of nodes, and whatever a test lets happen to them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import Actor
from faultbridge.domain.faults import Fault
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.ledger.append import Append, Stack
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.observe import observe
from faultbridge.registry.registration import NewNode, Registration
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.rules.rulebook import Rulebook
from faultbridge.simulation.fakes import FakeTable, ManualClock
from tests.builders import CATALOG, POLICY, STACK_ID, arrival, fault


class World:
    """Services over fakes, and the few things that tests let happen."""

    def __init__(self, *, shards: int = 1, index_lag: timedelta = timedelta(0), page_size: int | None = None) -> None:
        self.clock = ManualClock()
        self.table = FakeTable(self.clock, index_lag=index_lag, page_size=page_size)
        self.stack = Stack(STACK_ID, "faultbridge")
        self.append = Append(self.table, self.clock, self.stack, lambda _: None, Random(7))
        self.registration = Registration(self.table, self.append, self.clock)
        self.rulebook = Rulebook(self.table, STACK_ID, lambda: CATALOG, lambda: POLICY)
        self.rollup = ClusterRollup(self.table, self.clock, self.stack, self.rulebook)
        self.config = self.registration.add_cluster(
            ClusterConfig("train-a", shards=shards, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
        )

    def register_node(self, name: str, **others: Any) -> NodeKey:
        """Register a node."""
        number = len(list(self.registration.table.query("CLUSTERS").items)) + sum(map(ord, name))
        given = {"instance_id": f"i-{number:017x}", "group": "gpu-workers"} | others
        return self.registration.add_node("train-a", NewNode(name, **given)).key

    def pass_time(self, **units: float) -> datetime:
        """Let time pass and return the present."""
        return self.clock.advance(timedelta(**units))

    def note(self, key: NodeKey, text: str, at: datetime | None = None, **others: Any) -> NodeState:
        """Put a note on a node's record."""

        def revise(state: NodeState, now: datetime) -> Transition:
            draft = entry_builder.note(kind="operator", text=text, at=at or now)
            return Transition(state, (replace(draft, **others),))

        return self.append(key, revise, actor=Actor.CLI, config=self.config).state

    def happens(self, key: NodeKey, *faults: Fault) -> NodeState:
        """Let faults of this moment be observed on a node; an Xid 79 unless told otherwise."""

        def revise(state: NodeState, now: datetime) -> Transition:
            arrivals = [arrival(one, now, f"r-{number}") for number, one in enumerate(faults or (fault(),))]
            rules = self.rulebook.rules(self.config)
            passed = observe(state, arrivals, rebooted=False, rules=rules, catalog=CATALOG, now=now)
            return Transition(passed.state, passed.drafts)

        return self.append(key, revise, actor=Actor.INGEST, config=self.config).state

"""A ledger on a fake table, with registration, rules and cluster status of one cluster.

Use it to test services that read what the ledger wrote. For a whole installation with queue and ingest, use
`tests.world.World`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.decide import entry_builder
from faultbridge.decide.observe import observe
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.faults import Fault
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Stack
from faultbridge.record.rulebook import Rulebook
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.builders import CATALOG, POLICY, STACK_ID, arrival, fault
from tests.sim.fakes import FakeTable, ManualClock


class LedgerFixture:
    """Services that write the table, over a fake table and clock, with the cluster `train-a`.

    world = LedgerFixture()
    key = world.register_node("n-1")
    state = world.observe_faults(key)  # an Xid 79
    """

    def __init__(
        self, *, nodes_per_shard: int = 800, index_lag: timedelta = timedelta(0), page_size: int | None = None
    ) -> None:
        self.clock = ManualClock()
        self.table = FakeTable(self.clock, index_lag=index_lag, page_size=page_size)
        self.stack = Stack(STACK_ID, "faultbridge")
        self.append = Append(self.table, self.clock, self.stack, lambda _: None, Random(7))
        self.registration = Registration(self.table, self.append, self.clock)
        self.rulebook = Rulebook(self.table, STACK_ID, lambda: CATALOG, lambda: POLICY)
        self.rollup = ClusterRollup(self.table, self.clock, self.stack, self.rulebook)
        self.config = self.registration.add_cluster(
            ClusterConfig(
                "train-a", nodes_per_shard=nodes_per_shard, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE
            )
        )

    def register_node(self, name: str, **others: Any) -> NodeKey:
        """Register a node with an instance id derived from its name, and return its key."""
        number = len(list(self.registration.table.query("CLUSTERS").items)) + sum(map(ord, name))
        given = {"instance_id": f"i-{number:017x}", "group": "gpu-workers"} | others
        return self.registration.add_node("train-a", NewNode(name, **given)).key

    def pass_time(self, **units: float) -> datetime:
        """Advance the clock, and return the new time."""
        return self.clock.advance(timedelta(**units))

    def note(self, key: NodeKey, text: str, at: datetime | None = None, **others: Any) -> NodeState:
        """Add an operator note to the stream of a node."""

        def revise(state: NodeState, now: datetime) -> Transition:
            draft = entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=at or now)
            return Transition(state, (replace(draft, **others),))

        return self.append(key, revise, actor=Actor.CLI).state

    def observe_faults(self, key: NodeKey, *faults: Fault) -> NodeState:
        """Observe faults on a node at the current time, by default one Xid 79."""

        def revise(state: NodeState, now: datetime) -> Transition:
            arrivals = [arrival(one, now, f"r-{number}") for number, one in enumerate(faults or (fault(),))]
            rules = self.rulebook.rules(self.config)
            observed = observe(state, arrivals, rules=rules, catalog=CATALOG, now=now)
            return Transition(observed.state, observed.drafts)

        return self.append(key, revise, actor=Actor.INGEST).state

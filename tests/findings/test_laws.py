"""Laws of shadow findings: with them and their marks, every node, case, page and repair is as without them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Isolation
from faultbridge.model.findings import Mark
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.repair.findings import compare_peers, judgments
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY
from tests.findings.builders import GRAY, REPLAYS, USUAL
from tests.world import World

NODES = tuple(f"n-{number}" for number in range(10))
QUIET, MARKED_RIGHT, MARKED_WRONG = "quiet", "right", "wrong"


@dataclass(frozen=True)
class Hour:
    """One hour: whether the gray node rises, the node with an Xid, and the mark that an operator gives."""

    gray: bool = True
    faulty: str | None = None
    mark: str = QUIET


HOURS = st.lists(
    st.builds(
        Hour,
        st.sampled_from([True, True, True, False]),
        st.sampled_from([None, None, *NODES[:3]]),
        st.sampled_from([QUIET, MARKED_RIGHT, MARKED_WRONG]),
    ),
    min_size=6,
    max_size=9,
)


@dataclass
class History:
    """A cluster that lives through hours; its first node is gray if `gray` is set."""

    gray: bool
    world: World = field(default_factory=lambda: World(nodes=NODES))
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NODES, 0))
    found: set[str] = field(default_factory=set)
    outcomes: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.ports.clock.advance(timedelta(hours=1))

    def run(self, hours: list[Hour]) -> History:
        for hour in hours:
            for node in NODES:
                self.totals[node] += GRAY if self.gray and hour.gray and node == NODES[0] else USUAL
                text = REPLAYS.format(node, self.totals[node])
                self._ingest(self.world.message(text, source="dcgm-metrics", node=node))
            if hour.faulty:
                self._ingest(self.world.message(node=hour.faulty))
            wire_react(self.world.app).run([(KEY.cluster, node) for node in NODES])
            assert wire_sweep(self.world.app).run().failures == []
            self._mark(hour.mark)
            self.outcomes.append(self._outcome())
            self.world.ports.clock.advance(timedelta(hours=1))
        return self

    def _ingest(self, message: Any) -> None:
        assert not wire_ingest(self.world.app).ingest([message]).reasons

    def _mark(self, mark: str) -> None:
        app = self.world.app
        known = Judgments(app.append)
        for finding in known.list([KEY.cluster]):
            self.found.add(finding.id)
            if mark != QUIET:
                known.mark(finding.id, Mark(mark), "an-operator")

    def _outcome(self) -> dict[str, Any]:
        """Return what the cluster did so far, without ids, which depend on the number of entries."""
        states = [self.world.node(NodeKey(KEY.cluster, node)) for node in NODES]
        ports = self.world.ports
        calls = [
            call.name for call in ports.seam.calls if call.name.split(".")[0] in {"provider", "workflow", "verifier"}
        ]
        return {
            "nodes": [(one.status, one.isolation, sorted(one.conditions)) for one in states],
            "cases": [
                one.case and (one.case.status, one.case.opened_at, one.case.repair_action, one.case.attempts)
                for one in states
            ],
            "calls": calls,
            "pages": len(ports.pager.sent),
        }


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(HOURS)
def test_findings_and_their_marks_change_no_node_no_case_no_page_and_no_repair(hours: list[Hour]) -> None:
    assert History(gray=True).run(hours).outcomes == History(gray=False).run(hours).outcomes


FIVE_HOURS = [Hour() for _ in range(6)]


def test_the_histories_contain_findings_that_are_marked() -> None:
    history = History(gray=True).run([*FIVE_HOURS, Hour(mark=MARKED_RIGHT)])
    assert len(history.found) == 1
    assert History(gray=False).run(FIVE_HOURS).found == set()


@pytest.mark.parametrize("module", [compare_peers, judgments], ids=["finding", "mark"])
def test_the_law_detects_a_finding_or_a_mark_with_an_effect(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    def isolating(state: NodeState, *others: Any) -> Transition:
        return Transition(replace(state, isolation=Isolation.REQUESTED), *others)

    monkeypatch.setattr(module, "Transition", isolating)
    hours = [*FIVE_HOURS, Hour(mark=MARKED_WRONG)]
    assert History(gray=True).run(hours).outcomes != History(gray=False).run(hours).outcomes

"""One small history with something to show in every view: a replaced node, a failed job, and an open incident."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from faultbridge.model.enums import CaseStatus
from faultbridge.serve.console.pages import Pages
from faultbridge.serve.entrypoints.console import wire_console
from tests.console.sites import Site
from tests.presentation.builders import JOB, explain, ran
from tests.presentation.histories import facts_of
from tests.scenarios.incidents.incidents import NETWORK_WAITS, lose_links, world_of
from tests.scenarios.world import CLUSTER, World

NODES = 16


class EveryView(Site):
    """Serves the pages of a scenario; `paths` holds the path of every view below the base."""

    def __init__(self, scenario: World | None = None) -> None:
        self.scenario = scenario or history()
        self.pages = Pages(facts_of(self.scenario))
        console: Any = SimpleNamespace(app=SimpleNamespace(services={wire_console: self.pages}))
        super().__init__(console)
        (incident,) = self.pages.facts.views.incidents(CLUSTER)
        cluster = f"/clusters/{CLUSTER}"
        self.paths = {
            "fleet": "",
            "cluster": cluster,
            "node": f"{cluster}/nodes/node-2",
            "case": f"{cluster}/cases/{self.scenario.case(2).id}",
            "job": f"{cluster}/jobs?id={JOB}",
            "incident": f"{cluster}/incidents/{incident.incident.id}",
        }


def history() -> World:
    """Return the history: node 2 was replaced and its job explained, then the second rack lost its links."""
    world = ran(world_of(NODES, rules=(NETWORK_WAITS,)))
    explain(world)
    world.until(world.case_is(CaseStatus.RESOLVED, 2))
    lose_links(world, range(9, 17))
    world.advance_minutes(3)
    return world

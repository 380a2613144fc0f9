"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.findings import Finding
from faultbridge.model.records import SentValues
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY
from tests.world import World

NODES = (KEY.node, *(f"n-{number}" for number in range(11)))

BAD = "n-3"

GRAY, USUAL = 300, 2

SERIES = '{{gpu="0",UUID="GPU-{0}",pci_bus_id="00000000:C1:00.0",hostname="{0}"}} {1}\n'

PCIE_REPLAYS = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"

REPLAYS = PCIE_REPLAYS + SERIES


class Fleet:
    """Twelve nodes that report a counter each hour, if not named their PCIe replays; one of them reports more."""

    field = PCIE_REPLAYS

    def __init__(self, world: World) -> None:
        self.world, self.totals, self.usual, self.stated = world, dict.fromkeys(NODES, 0), USUAL, False
        for node in NODES[1:]:
            world.register_node(node)
        world.ports.clock.advance(timedelta(hours=1))

    def pass_hours(self, hours: int, rise: int = GRAY) -> None:
        for _ in range(hours):
            for node in NODES:
                self.totals[node] += rise if node == BAD else self.usual
                text = self.field + SERIES.format(node, self.totals[node])
                values = SentValues(f"{self.totals[node]:016x}") if self.stated else None
                record = self.world.message(text, source="dcgm-metrics", node=node, values=values)
                found = wire_ingest(self.world.app).ingest([record])
                assert not found.reasons
            assert wire_sweep(self.world.app).run().failures == []
            self.world.ports.clock.advance(timedelta(hours=1))

    def findings(self, **others: Any) -> list[Finding]:
        app = self.world.app
        return list(Judgments(app.append).list([KEY.cluster], **others))

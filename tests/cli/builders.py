"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from faultbridge.cli.commands.embedded.demo import DemoResult
from faultbridge.cli.stack import locate
from faultbridge.local import StackInfo
from faultbridge.model.enums import CaseStatus, Resolution
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from faultbridge.record.verify import Verified
from faultbridge.repair.registry.views import CaseView
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.ingest.send import DeliveryAudit
from tests.builders import KEY, NOON, node
from tests.cli.desk import Desk
from tests.world import World

CARD = """<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:C1:00.0"><serial>1653</serial>
<uuid>GPU-5b1f2c3d-0000-0000-0000-000000001653</uuid><minor_number>0</minor_number></gpu></nvidia_smi_log>"""

UUID = "GPU-5b1f2c3d-0000-0000-0000-000000001653"

PACKAGED = """
breakers: [{scope: cluster, nodes: 5, percent: 20}, {scope: domain, nodes: 4, percent: 50}]
rules:
- {name: waits, match: {codes: ["net.*", host.silent]}, wait_seconds: 90, release_without_capacity: true}
- {name: all, release_without_capacity: true}
"""


class Terminal(io.TextIOWrapper):
    """Standard input that is a terminal, with the lines that a user types."""

    def __init__(self, typed: str = "") -> None:
        super().__init__(io.BytesIO(typed.encode()))

    def isatty(self) -> bool:
        return True


INFO = StackInfo(
    stack="faultbridge",
    region="us-east-1",
    endpoint="http://127.0.0.1:4566",
    compute_endpoint="http://127.0.0.1:5000",
    outputs={"EventBusName": "faultbridge", "RawRecordsQueueUrl": "http://127.0.0.1:4566/queue"},
    environment={},
    pids={"event-plane": 1},
    logs={"event-plane": "event-plane.log"},
)

OUTPUTS = {output: f"the {output}" for output in locate.OUTPUTS}


@dataclass(frozen=True)
class Embedded:
    """Represents the information of `faultbridge.local` about a running stack."""

    endpoint: str = "http://127.0.0.1:4566"
    outputs: dict[str, str] = field(default_factory=lambda: dict(OUTPUTS))
    environment: dict[str, str] = field(
        default_factory=lambda: {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566", "AWS_ACCESS_KEY_ID": "test"}
    )


CLUSTER, NODE = KEY


def start(desk: Desk) -> None:
    assert desk("job", "start", "88213", "--cluster", CLUSTER, "--node", NODE, "--name", "llama").code == 0


def explain(desk: Desk, *files: Path) -> Any:
    return desk.json("explain", "--job", "88213", "--cluster", CLUSTER, *map(str, files))


PYTHON_ERROR = """\
2026-02-05T10:59:30Z [rank0]: Traceback (most recent call last):
2026-02-05T10:59:30Z [rank0]:   File "train.py", line 12, in <module>
2026-02-05T10:59:30Z [rank0]: KeyError: 'labels'
"""

RACK = tuple(f"gpu-{number:02}" for number in range(1, 9))

LINK_DOWN = '{"kind": "fault", "code": "net.link_down", "component": {"type": "nic", "name": "ib0"}, "message": "down"}'


def rack_incident(desk: Desk) -> str:
    """Let eight nodes of a declared rack lose their links, and return the id of their incident."""
    for name in (*RACK, *(f"other-{number}" for number in range(24))):
        desk.world.register_node(name)
    desk.json("cluster", "set", KEY.cluster, "--domain", "rack/r-7=gpu-[01-08]")
    deliveries = [desk.world.message(LINK_DOWN, source="faultbridge", node=name) for name in RACK]
    wire_ingest(desk.world.app).ingest(deliveries)
    wire_react(desk.world.app).run([(KEY.cluster, name) for name in RACK])
    (incident,) = desk.json("incident", "list")
    return str(incident["incident_id"])


def successful_result() -> DemoResult:
    """The result of a demo in which every check passes."""
    world = World()
    world.outcomes(world.message())
    case = world.node().live_case
    assert case is not None
    closed = replace(
        case, status=CaseStatus.RESOLVED, resolution=Resolution.REPLACED, closed_at=NOON + timedelta(seconds=9)
    )
    event = {"metadata": {"event_id": "e-1"}}
    return DemoResult(
        cluster="demo",
        records=1,
        audit=DeliveryAudit(NOON, 1, {outcome: int(outcome is Outcome.RECORDED) for outcome in Outcome}),
        verified=Verified(streams=2, entries=1),
        events=[event, event],
        pages=[
            {"occurred_at": "2", "state": "resolved", "subject": "over"},
            {"occurred_at": "1", "state": "triggered", "subject": "on"},
        ],
        cases=[CaseView(closed, KEY)],
        nodes=[node(former_instances=("i-old",))],
        repaired_in=8.5,
        ran_for=11.0,
        console="http://127.0.0.1:4566/console",
    )

"""A demo history behind the HTTP API, and the steps of the break-fix provider on it.

`python -m tests.breakfix.demo FOLDER` writes the document of each step, for a run of the validation suite itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from faultbridge.model.enums import NodeStatus
from faultbridge.model.storage.wire.message import Message, encode_message
from faultbridge.model.times import to_text
from faultbridge.repair.registry.views import Views
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.installation import Installation
from tests.api.gateway import Gateway
from tests.sim.history import build_system, draw_actions, play_on
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

EXAMPLE = Path(__file__).parents[2] / "examples" / "breakfix" / "bfx.py"
SEEDS = (8, 41, *range(40))
HEALTHY = 2
"""Number of healthy nodes that the demo needs at its end."""

GPUS = 8


def cards() -> bytes:
    """Return what nvidia-smi reports about the GPUs of a healthy node."""
    gpus = "".join(
        f'<gpu id="00000000:{0x10 + number:02X}:00.0"><serial>16530{number}</serial>'
        f"<uuid>GPU-5b1f2c3d-0000-0000-0000-00000016530{number}</uuid><minor_number>{number}</minor_number></gpu>"
        for number in range(GPUS)
    )
    return f"<nvidia_smi_log><attached_gpus>{GPUS}</attached_gpus>{gpus}</nvidia_smi_log>".encode()


@dataclass(frozen=True)
class _World:
    app: Installation


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do nothing."""


def load_provider() -> ModuleType:
    """Return the module of the provider."""
    spec = importlib.util.spec_from_file_location("bfx", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_history() -> SimulatedSystem:
    """Return the first simulated history with a completed GPU reset; the faults that are injected into calls end."""
    for seed in SEEDS:
        system = build_system(seed)
        play_on(system, seed, draw_actions(seed))
        bodies = [str(item["body"]) for item in system.ports.table.items() if "body" in item]
        has_reset = any('"outcome":"back"' in body and '"repair_action":"reset_gpu"' in body for body in bodies)
        healthy = [one for one in Views(system.ports.table).nodes(REPAIRED) if one.status is NodeStatus.HEALTHY]
        if has_reset and len(healthy) >= HEALTHY and not system.racks:
            system.injector.enabled = False
            return system
    raise AssertionError("no seed has a completed GPU reset and two healthy nodes")


def retirement(instance: str, at: str) -> bytes:
    """Return what EC2 reports about an instance that AWS retires."""
    event = {"Code": "instance-retirement", "Description": "The instance is scheduled for retirement", "NotBefore": at}
    status = {
        "InstanceId": instance,
        "InstanceState": {"Name": "running"},
        "SystemStatus": {"Status": "ok"},
        "InstanceStatus": {"Status": "ok"},
        "Events": [{"InstanceEventId": "instance-event-1", **event}],
    }
    return json.dumps({"InstanceStatuses": [status]}).encode()


class Demo:
    """The history, its API on a port, and the environment of the provider."""

    def __init__(self, system: SimulatedSystem, provider: ModuleType, port: int) -> None:
        self.system, self.provider = system, provider
        self.environment = {"FAULTBRIDGE_API": f"http://127.0.0.1:{port}", "FAULTBRIDGE_CLUSTER": REPAIRED}
        self.api = provider.Api(self.environment)

    def add_reports(self) -> None:
        """Let a node report its card, a job start, and EC2 schedule a retirement."""
        other, node, *_ = (one for one in self.api.items("nodes") if one["status"] == "healthy")
        later = to_text(self.system.ports.clock.now() + timedelta(days=14))
        self.report("nvidia-smi-xml", cards(), node)
        self.report("ec2-status", retirement(other["instance_id"], later), other)
        self.pass_time(600)
        self.api.order("jobs", change="start", job_id="88213", nodes=[node["node"]])
        self.pass_time(60)
        for one in self.api.items("nodes"):
            at = to_text(self.system.ports.clock.now())
            self.report("heartbeat", json.dumps({"heartbeat": 1, "at": at}).encode(), one)

    def report(self, source: str, body: bytes, node: dict[str, Any]) -> None:
        """Ingest a raw record about a node."""
        now = self.system.ports.clock.now()
        message = Message(f"demo-{source}-{node['node']}", source, REPAIRED, now, body=body, node=node["node"])
        delivery = Delivery(source, encode_message(message), now)
        self.system.workers.operate(lambda app: wire_ingest(app).ingest([delivery]))

    def pass_time(self, seconds: float) -> None:
        """Let the installation work for this time."""
        self.system.deliver_changes()
        self.system.pass_time(timedelta(seconds=seconds))
        self.system.deliver_changes()

    @property
    def node(self) -> str:
        """The node with the job."""
        return str(next(self.api.items("jobs"))["nodes"][0])

    def run(self, step: str, node: str = "") -> Any:
        """Return the document of a step."""
        given = argparse.Namespace(step=step, region="us-east-1", machine_id=node, rack_id="")
        return json.loads(json.dumps(self.provider.document(given, self.environment)))


@contextmanager
def demo() -> Iterator[Demo]:
    """Serve the history; the pauses of the provider pass simulated time."""
    system, provider, apps = build_history(), load_provider(), []
    system.workers.operate(apps.append)
    gateway = Gateway(_World(apps[0]))  # type: ignore[arg-type]  # it needs the installation only
    server = make_server("127.0.0.1", 0, gateway.wsgi, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found = Demo(system, provider, server.server_port)
    provider.time = argparse.Namespace(monotonic=lambda: system.ports.clock.now().timestamp(), sleep=found.pass_time)  # type: ignore[attr-defined]
    try:
        found.add_reports()
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main(folder: str) -> None:
    """Write the document of each step, those that change something last."""
    import os

    os.environ["FAULTBRIDGE_BREAKFIX_MUTATE"] = "1"
    with demo() as one:
        changing = ["cordon_node", "return_node_maintenance", "request_host_replacement"]
        for step in sorted(one.provider.STEPS, key=lambda name: (name in changing, name)):
            Path(folder, f"{step}.json").write_text(json.dumps(one.run(step, one.node if step in changing else "")))


if __name__ == "__main__":
    main(sys.argv[1])

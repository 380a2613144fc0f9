"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from pathlib import Path

from faultbridge.node.agent.agent import Agent, build_agent
from faultbridge.node.agent.child_processes import Outcome, ProbeResult
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.settings import AgentSettings
from tests.agent.fakes import ManualClock


def agent_with_records(folder, transport, clock, count) -> Agent:
    """An agent that reads nothing, with records of an earlier run on its disk."""
    settings = AgentSettings(
        "train-a", "https://queue", node="gpu-1", spool=folder, kmsg=folder / "kmsg", journal_units={}, smi_seconds=0,
        health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
    )  # fmt: skip
    agent = build_agent(settings, transport, clock)
    for number in range(count):
        assert agent.outbox.store(OutgoingRecord(f"r-{number}", "g", '{"v":1}'))
    return agent


class KernelRing:
    """A file in the format of /dev/kmsg; a reader that opens it starts at the first record."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path, self.clock = path, clock
        self.next = 0
        path.write_bytes(b"")

    def append(self, text: str) -> None:
        with self.path.open("ab") as file:
            file.write(f"3,{self.next},{int(self.clock.uptime * 1_000_000)},-;{text}\n".encode())
        self.next += 1

    def boot(self) -> None:
        self.path.write_bytes(b"")
        self.next = 0


class ScriptedProbe:
    """A probe with given results; None is a run that never ends."""

    def __init__(self, *results: ProbeResult | None, killable: bool = True) -> None:
        self.results = list(results)
        self.killable = killable
        self.starts = 0

    def start(self) -> ScriptedProbe:
        self.starts += 1
        self.result = self.results.pop(0) if self.results else ProbeResult(Outcome.DONE, b"<ok/>")
        return self

    def poll(self) -> ProbeResult | None:
        return self.result

    def kill(self) -> bool:
        return self.killable

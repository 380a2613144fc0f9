"""Ten cases that ended or wait in ten different ways, in one console, for the reading test of the case page.

`python -m tests.console.ten_cases` serves them on 127.0.0.1 until Ctrl-C, and prints the address of each case.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from faultbridge.cli.commands.records.servers import LoopbackServer
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.fault_enums import Action, ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.policy import Match, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.record.timeline import Timeline
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.views import Views
from faultbridge.serve.console.facts import Facts
from faultbridge.serve.console.pages import Pages
from faultbridge.serve.entrypoints.console import wire_console
from faultbridge.serve.pager.deliver import Paging
from tests.builders import NOON
from tests.ledger.bulk import BulkTable
from tests.scenarios import world as scenario
from tests.sim.fakes import FakePager, ManualClock

END = NOON + timedelta(hours=36)
OFF_THE_BUS = "NVRM: Xid (PCI:0000:c1:00): 79, pid=4127, name=python, GPU has fallen off the bus."
DOUBLE_BIT = "NVRM: Xid (PCI:0000:c1:00): 48, pid=4127, name=python, DBE (Double Bit Error) ECC Error"
ADA, LIN = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "lin"))
ASK = Rule("ask-before-replacement", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
REBOOT = Rule("reboot-first", Match(codes=("xid.79",)), action=Action.REBOOT_NODE, release_without_capacity=True)
KEEP = Rule("keep-without-capacity", Match(codes=("xid.*",)), release_without_capacity=False)
NETWORK = Rule("network-waits", Match(codes=("net.*",)), wait_seconds=90, release_without_capacity=True)
FULL = Capacity(CapacityEvidence.RESERVATION, free=False, reason="the capacity reservation cr-0f3 is in use")
BAD = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")


class PagedWorld(scenario.World):
    """A world whose entries also reach the pager."""

    _paged = 0

    def react_to_entries(self) -> None:
        super().react_to_entries()
        paging, new = Paging(self.table, FakePager(), self.clock), self.table.stream[self._paged :]
        self._paged = len(self.table.stream)
        for record in new:
            if record.new and record.event == "INSERT" and "body" in record.new:
                paging.deliver(scenario.json.loads(str(record.new["body"])))


def world_of(*rules: Rule, **others: Any) -> PagedWorld:
    """Return a cluster of 16 nodes in two racks, after a quiet quarter of an hour."""
    others = {"nodes": 16, "domain": lambda number: f"rack-{(number - 1) // 8 + 1}"} | others
    world = PagedWorld(rules=rules, limits=scenario.limits(concurrent=4), **others)
    world.policy = replace(world.policy, version="prod-7")
    world.advance_minutes(15)
    return world


def failed(world: PagedWorld, node: int, code: str = "xid.79", message: str = OFF_THE_BUS) -> PagedWorld:
    """Report a fatal fault of a node, and let two minutes pass."""
    world.fault_and_react(node, code, message=message, minutes=2)
    return world


def repaired(world: PagedWorld, node: int) -> PagedWorld:
    """Let the repair of a node end, and twenty minutes pass."""
    world.until(world.case_is(CaseStatus.RESOLVED, node))
    world.advance_minutes(20)
    return world


def replaced() -> tuple[PagedWorld, int]:
    return repaired(failed(world_of(), 4), 4), 4


def refused_by_breaker() -> tuple[PagedWorld, int]:
    world = world_of(breakers=(BreakerLimit(nodes=5, percent=20),))
    for node in (2, 5, 9, 12, 15):
        world.fault(node, message=OFF_THE_BUS)
    world.process_entries(minutes=7)
    return world, 9


def waits_for_approval() -> tuple[PagedWorld, int]:
    world = failed(world_of(ASK), 7)
    world.advance_minutes(18)
    return world, 7


def denied() -> tuple[PagedWorld, int]:
    world = failed(world_of(ASK), 3)
    world.advance_minutes(11)
    world.orders.deny(world.case(3).id, OperatorOrder(ADA, "the job on its neighbors ends at 18:00"))
    world.process_entries(minutes=35)
    return world, 3


def held_by_incident() -> tuple[PagedWorld, int]:
    world = world_of(NETWORK)
    for node in range(1, 9):
        port = Component(ComponentType.NIC, name="eth3")
        world.fault(node, "net.link_down", source="link-state", component=port, message="eth3: link is down")
    world.process_entries(minutes=22)
    return world, 6


def quarantined_by_operator() -> tuple[PagedWorld, int]:
    world = world_of()
    world.node_orders.quarantine(world.key(11), OperatorOrder(LIN, "loss spikes only when this node takes part"))
    world.process_entries(minutes=40)
    return world, 11


def second_fault_in_a_day() -> tuple[PagedWorld, int]:
    world = repaired(failed(world_of(), 8), 8)
    world.advance_minutes(90)
    failed(world, 8)
    world.advance_minutes(30)
    return world, 8


def no_capacity() -> tuple[PagedWorld, int]:
    world = world_of(KEEP)
    world.provider.known_capacity = FULL
    failed(world, 13, "xid.48", DOUBLE_BIT)
    world.advance_minutes(47)
    return world, 13


def bad_successor() -> tuple[PagedWorld, int]:
    world = world_of()
    world.verifier.results[f"i-{17:017x}"] = BAD
    return repaired(failed(world, 10), 10), 10


def rebooted() -> tuple[PagedWorld, int]:
    return repaired(failed(world_of(REBOOT), 14), 14), 14


HISTORIES: tuple[Callable[[], tuple[PagedWorld, int]], ...] = (
    no_capacity,
    replaced,
    held_by_incident,
    denied,
    rebooted,
    second_fault_in_a_day,
    refused_by_breaker,
    bad_successor,
    waits_for_approval,
    quarantined_by_operator,
)


@dataclass(frozen=True)
class TenCases:
    """The pages over all ten cases, and the address of each below the base, by the name of its history."""

    pages: Pages
    paths: dict[str, str]


def ten_cases() -> TenCases:
    """Return the ten cases, each in a cluster of its own; all of them end at the same time."""
    rows: list[Any] = []
    paths, policies = {}, {}
    for letter, history in zip("abcdefghij", HISTORIES, strict=True):
        cluster = f"train-{letter}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scenario, "CLUSTER", cluster)
            length = history()[0].clock.now() - NOON
            patch.setattr(scenario, "NOON", END - length)
            world, node = history()
            paths[history.__name__] = f"/clusters/{cluster}/cases/{world.case(node).id}"
        rows += world.table.items()
        policies[cluster] = world.policy
    table: Any = BulkTable(rows)
    facts = Facts(Views(table), Timeline(table), ManualClock(END), lambda config: policies[config.cluster])
    return TenCases(Pages(facts), paths)


def main(arguments: Iterable[str] | None = None) -> None:
    """Serve the ten cases until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    made = ten_cases()
    installation: Any = SimpleNamespace(services={wire_console: made.pages})
    server = LoopbackServer(parser.parse_args(arguments).port, installation)
    for number, path in enumerate(made.paths.values(), 1):
        sys.stdout.write(f"{number:2} {server.address}{path}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()

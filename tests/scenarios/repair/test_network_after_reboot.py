"""After a reboot, a lost network is over only if its own source, or a verification that covers it, says so."""

from __future__ import annotations

import pytest

from faultbridge.decode.data import load_catalog, network_faults_ended_by_reboot
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.catalog import Catalog, Scope
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from tests.scenarios import world as scenario
from tests.scenarios.world import World

CATALOG = load_catalog()
NIC = Component(ComponentType.NIC, name="rdma0")
NETWORK = sorted(code for code in CATALOG.rows if code.startswith("net."))
STATES = [code for code in NETWORK if code not in network_faults_ended_by_reboot()]


@pytest.fixture(autouse=True)
def packaged_catalog(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setattr(scenario, "CATALOG", CATALOG)
    return CATALOG


@pytest.mark.parametrize("code", STATES)
def test_a_state_of_the_network_lasts_after_a_reboot_and_a_passed_verification(code: str) -> None:
    world = World(rules=default_policy().rules)
    world.fault(1, "xid.62", action=None)
    world.fault_and_react(1, code, source="link-state", component=NIC, action=None, minutes=50)
    assert code in {condition.code for condition in world.node().active()}


def test_the_data_names_every_network_event_and_no_state() -> None:
    ended = network_faults_ended_by_reboot()
    assert ended < set(NETWORK)
    assert {code for code in NETWORK if CATALOG.row(code).scope is Scope.DEVICE} == set(STATES)
    assert all("reboot_node" not in CATALOG.row(code).ends_on for code in STATES)


@pytest.mark.parametrize("code", ["net.link_absent", "net.efa_error", "net.loopback_missing"])
def test_a_network_fault_that_the_catalog_reboots_is_not_cleared_by_the_reboot(code: str) -> None:
    world = World(rules=default_policy().rules)
    world.fault_and_react(1, code, source="link-state", component=NIC, action=None, minutes=50)
    cleared = [body["data"]["reason"] for body in world.bodies() if "Cleared" in body["metadata"]["event_type"]]
    assert cleared == []

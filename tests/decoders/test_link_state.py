"""`link-state`: ports in use without a link."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.decoders import registry
from faultbridge.domain.faults import CounterSample, Snapshot
from faultbridge.errors import Rejected
from tests.decoders.captures import decoded


def link(name: str, *flags: str, state: str = "UP", **others: Any) -> dict[str, Any]:
    return {"ifname": name, "flags": list(flags), "operstate": state, "link_type": "ether"} | others


def look(*links: dict[str, Any], **around: Any) -> Snapshot:
    body = {"interfaces": links, **around} if around else list(links)
    snapshot = registry.decode("link-state", json.dumps(body).encode())[0]
    assert isinstance(snapshot, Snapshot)
    return snapshot


def found(snapshot: Snapshot) -> list[tuple[str, str | None]]:
    return [(fault.code, fault.component.name) for fault in snapshot.present]


GLOBAL = [{"family": "inet", "scope": "global"}]


def test_an_unused_port_may_be_down() -> None:
    snapshot = look(link("ens7", "NO-CARRIER", "UP", state="DOWN"), link("ens8", state="DOWN", addr_info=GLOBAL))
    assert found(snapshot) == []
    assert snapshot.covers == {}


@pytest.mark.parametrize(
    "port",
    [
        link("ens6", "NO-CARRIER", "UP", state="DOWN", master="bond0"),
        link("ens6", "NO-CARRIER", "UP", state="DOWN", addr_info=GLOBAL),
        link("ens6", "UP", state="LOWERLAYERDOWN", addr_info=GLOBAL),
    ],
)
def test_a_port_with_a_bond_or_an_address_must_be_up(port: dict[str, Any]) -> None:
    assert found(look(port)) == [("net.link_down", "ens6")]


def test_a_configured_port_that_is_not_listed_is_absent() -> None:
    snapshot = look(link("ens5", "UP", "LOWER_UP"), configured=["ens5", "ens6"])
    assert found(snapshot) == [("net.link_absent", "ens6")]
    assert [one.name for one in snapshot.covers["net.link_absent"]] == ["ens5", "ens6"]
    assert [one.name for one in snapshot.covers["net.link_down"]] == ["ens5"]


@pytest.mark.parametrize("name", ["docker0", "veth12ab", "cali197eca83dfc", "br-5f4dcc3b", "virbr0"])
def test_ports_of_containers_are_ignored(name: str) -> None:
    assert found(look(link(name, "NO-CARRIER", "UP", state="DOWN", addr_info=GLOBAL))) == []


def test_every_physical_port_has_a_counter_sample() -> None:
    samples = [one for one in decoded("link-state", "link-state.json") if isinstance(one, CounterSample)]
    assert {one.component.name: one.values["carrier"] for one in samples} == {
        "ens5": 1,
        "ens6": 0,
        "bond0": 1,
        "ens7": 0,
    }


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"interfaces": 3}', "wrong_shape"),
        (b'[{"name": "eth0"}]', "wrong_shape"),
        (b"3", "wrong_shape"),
        (b"2: eth0: <BROADCAST> mtu 1500", "malformed_json"),
        (b'[{"ifname": "eth0", "operstate"', "malformed_json"),
    ],
)
def test_input_that_is_not_a_list_of_interfaces_is_rejected(body: bytes, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode("link-state", body)
    assert rejected.value.reason == reason

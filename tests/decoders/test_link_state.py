"""States and counters of links, in one file or beside each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.decide.normalize.compare import compare, differences
from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, Fault, Snapshot
from tests.decoders.captures import decoded, faults_and_clears


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


@pytest.mark.parametrize(
    "name", ["docker0", "podman0", "lxdbr0", "veth12ab", "cali197eca83dfc", "br-5f4dcc3b", "virbr0"]
)
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


IP = """1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000
    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
    inet 127.0.0.1/8 scope host lo
2: ens5: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9001 qdisc mq state UP group default qlen 1000
    link/ether 0a:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff
    inet 10.0.0.7/20 metric 100 brd 10.0.15.255 scope global dynamic ens5
3: ens6: <{flags}> mtu 9001 qdisc mq {master}state {state} group default qlen 1000
    link/ether 0a:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff
    inet6 fe80::800:ff:fe00:2/64 scope {scope}
4: veth1a2b@if3: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN group default
    link/ether 0a:00:00:00:00:03 brd ff:ff:ff:ff:ff:ff link-netnsid 0
"""


@pytest.mark.parametrize(
    ("flags", "master", "state", "scope", "expected"),
    [
        ("BROADCAST,UP,LOWER_UP", "", "UP", "global", []),
        ("BROADCAST,UP,LOWER_UP", "master bond0 ", "UP", "link", []),
        ("NO-CARRIER,BROADCAST,UP", "", "DOWN", "link", []),
        ("NO-CARRIER,BROADCAST,UP", "", "DOWN", "global", [("net.link_down", "ens6")]),
        ("NO-CARRIER,BROADCAST,UP", "master bond0 ", "DOWN", "link", [("net.link_down", "ens6")]),
    ],
)
def test_the_text_of_ip_is_judged_as_its_json(
    flags: str, master: str, state: str, scope: str, expected: list[tuple[str, str]]
) -> None:
    body = IP.format(flags=flags, master=master, state=state, scope=scope).encode()
    assert registry.recognize(body) == "link-state"
    snapshot, *samples = registry.decode("link-state", body)
    assert isinstance(snapshot, Snapshot)
    assert found(snapshot) == expected
    assert Component(ComponentType.NIC, name="ens5") in snapshot.covers["net.link_down"]
    carriers = {one.component.name: one.values["carrier"] for one in samples if isinstance(one, CounterSample)}
    assert carriers == {"ens5": 1, "ens6": int("LOWER_UP" in flags)}


def settings(speed: str, detected: str) -> bytes:
    text = f"Settings for ens6:\n\tSupported ports: [ FIBRE ]\n\tSpeed: {speed}\n\tDuplex: Full\n"
    return f"{text}\tLink detected: {detected}\nSettings for docker0:\n\tLink detected: no\n".encode()


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (("200000Mb/s", "yes"), ("200000Mb/s", "yes"), []),
        (("100000Mb/s", "yes"), ("200000Mb/s", "yes"), []),
        (("Unknown!", "yes"), ("100000Mb/s", "yes"), []),
        (("Unknown!", "no"), ("Unknown!", "no"), []),
        (("200000Mb/s", "yes"), ("100000Mb/s", "yes"), ["net.ib_rate_reduced"]),
        (("200000Mb/s", "yes"), ("Unknown!", "no"), ["net.link_down"]),
    ],
)
def test_the_settings_of_ethtool_are_compared(
    before: tuple[str, str], now: tuple[str, str], expected: list[str]
) -> None:
    (previous,), (sample,) = (registry.decode("link-state", settings(*one)) for one in (before, now))
    assert isinstance(previous, CounterSample)
    assert isinstance(sample, CounterSample)
    assert sample.component.name == "ens6"
    assert [fault.code for fault in compare(previous, sample)] == expected


PORT = "/sys/class/infiniband/mlx5_0/ports/1"
TREE = f"{PORT}/state: {{state}}: X\n{PORT}/phys_state: 5: LinkUp\n{PORT}/counters/link_downed: {{downed}}\n"
LABEL = '{{device="mlx5_0",port="1"}}'
SCRAPE = (
    f"node_infiniband_state_id{LABEL} {{state}}\nnode_infiniband_physical_state_id{LABEL} 5\n"
    f"node_infiniband_link_downed_total{LABEL} {{downed}}\n"
)


@pytest.mark.parametrize("form", [TREE, SCRAPE])
@pytest.mark.parametrize(("state", "expected"), [(2, ["net.ib_port_stuck"]), (4, [])])
def test_a_port_that_does_not_become_active_is_found_beside_its_counters(
    form: str, state: int, expected: list[str]
) -> None:
    body = form.format(state=state, downed=0).encode()
    assert registry.recognize(body) == "rdma-counters"
    found = registry.decode("rdma-counters", body)
    assert [one.code for one in faults_and_clears(found)] == expected
    # The end of the fault is known from the source of its snapshot.
    assert {one.source for one in found if isinstance(one, Snapshot)} == {"infiniband-state"}
    assert [one.values for one in found if isinstance(one, CounterSample) and one.source == "rdma-counters"] == [
        {"link_downed": 0}
    ]


@pytest.mark.parametrize("form", [TREE, SCRAPE])
def test_counters_beside_states_are_still_compared(form: str) -> None:
    samples = [registry.decode("rdma-counters", form.format(state=4, downed=count).encode()) for count in (0, 1)]
    found = differences([one for sample in samples for one in sample])
    assert [one.code for one in found if isinstance(one, Fault)] == ["net.port_link_downed"]


def test_a_tree_without_states_has_counters_only() -> None:
    found = registry.decode("rdma-counters", f"{PORT}/counters/link_downed: 0\n".encode())
    assert [type(one) for one in found] == [CounterSample]

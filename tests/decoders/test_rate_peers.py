"""Rates of ports: a port below the rate that most ports of its kind have is slower than its peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from faultbridge.decode import registry
from faultbridge.model.faults import Snapshot
from tests.decoders.captures import faults_and_clears

IB, ETHERNET = "InfiniBand", "Ethernet"
Row = tuple[int, str, str, str, str]
"""The rate, link layer, model, subnet manager and state of a port."""
Printer = Callable[[Sequence[Row]], str]


def port(rate: int, layer: str = IB, model: str = "MT4129", sm: str = "1", state: str = "Active") -> Row:
    return rate, layer, model, sm, state


def ibstat(ports: Sequence[Row]) -> str:
    return "".join(
        f"CA 'mlx5_{n}'\n\tCA type: {model}\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: LinkUp\n"
        f"\t\tRate: {rate}\n\t\tSM lid: {sm}\n\t\tLink layer: {layer}\n"
        for n, (rate, layer, model, sm, state) in enumerate(ports)
    )


def ibstatus(ports: Sequence[Row]) -> str:
    return "".join(
        f"Infiniband device 'mlx5_{n}' port 1 status:\n\tsm lid:\t\t 0x{sm}\n\tstate:\t\t 4: {state.upper()}\n"
        f"\tphys state:\t 5: LinkUp\n\trate:\t\t {rate} Gb/sec (4X NDR)\n\tlink_layer:\t {layer}\n\n"
        for n, (rate, layer, _, sm, state) in enumerate(ports)
    )


def sysfs(ports: Sequence[Row]) -> str:
    lines = []
    for n, (rate, layer, model, sm, state) in enumerate(ports):
        root = f"/sys/class/infiniband/mlx5_{n}"
        lines += [f"{root}/board_id: {model}", f"{root}/ports/1/state: 4: {state.upper()}"]
        lines += [f"{root}/ports/1/phys_state: 5: LinkUp", f"{root}/ports/1/rate: {rate} Gb/sec (4X NDR)"]
        lines += [f"{root}/ports/1/link_layer: {layer}", f"{root}/ports/1/sm_lid: 0x{sm}"]
    return "\n".join(lines) + "\n"


def metrics(ports: Sequence[Row]) -> str:
    lines = []
    for n, (rate, _, model, _, _) in enumerate(ports):
        label = f'device="mlx5_{n}",port="1"'
        lines += [f'node_infiniband_info{{board_id="{model}",device="mlx5_{n}"}} 1']
        lines += [f"node_infiniband_state_id{{{label}}} 4", f"node_infiniband_physical_state_id{{{label}}} 5"]
        lines += [f"node_infiniband_rate_bytes_per_second{{{label}}} {rate * 125_000_000}"]
    return "\n".join(lines) + "\n"


def slower(body: str, source: str = "infiniband-state") -> list[tuple[str | None, str, str]]:
    assert registry.recognize(body.encode()) == source
    found = faults_and_clears(registry.decode(source, body.encode()))
    rows = [(one.component.name, one.attributes["rate"], one.attributes["rate_of_peers"]) for one in found]
    assert {one.code for one in faults_and_clears(registry.decode(source, body.encode()))} <= {"net.rate_below_peers"}
    return rows


@pytest.mark.parametrize("print_ports", [ibstat, ibstatus, sysfs, metrics])
@pytest.mark.parametrize("rate", [200, 100, 10])
def test_one_port_below_the_rate_of_seven_others_is_slower(print_ports: Printer, rate: int) -> None:
    ports = [port(400)] * 3 + [port(rate)] + [port(400)] * 4
    assert slower(print_ports(ports)) == [("mlx5_3", str(rate), "400")]
    assert slower(print_ports([port(400)] * 8)) == []


@pytest.mark.parametrize(
    "other",
    [
        port(25, layer=ETHERNET, model="MT4127"),
        port(100, model="MT4123"),
        port(200, sm="12"),
        port(10, state="Down"),
        port(800),
    ],
)
def test_ports_of_another_kind_are_not_compared(other: Row) -> None:
    assert slower(ibstat([port(400)] * 8 + [other])) == []


def test_ethernet_ports_without_a_model_are_not_compared() -> None:
    assert slower(ibstatus([port(400, layer=ETHERNET)] * 8 + [port(25, layer=ETHERNET)])) == []


def test_no_rate_is_usual_if_half_of_the_ports_have_another_one() -> None:
    assert slower(ibstat([port(400), port(200)])) == []
    assert slower(ibstat([port(200)] * 8)) == []


def test_the_health_snapshot_covers_the_ports_that_were_compared() -> None:
    ports = [*[port(400)] * 2, port(25, layer=ETHERNET, model="MT4127")]
    found = registry.decode("infiniband-state", ibstat(ports).encode())
    covered = [
        one.covers["net.rate_below_peers"] for one in found if isinstance(one, Snapshot) and len(one.covers) == 1
    ]
    assert [[component.name for component in components] for components in covered] == [["mlx5_0", "mlx5_1"]]


def settings(name: str, modes: str, speed: int, detected: str = "yes") -> str:
    return (
        f"Settings for {name}:\n\tSupported ports: [ FIBRE ]\n\tSupported link modes:   {modes}\n"
        f"\t                        100000baseCR4/Full\n\tSupported pause frame use: Symmetric\n"
        f"\tSpeed: {speed}Mb/s\n\tPort: FIBRE\n\tLink detected: {detected}\n"
    )


def test_an_interface_slower_than_those_with_the_same_modes_is_slower() -> None:
    fast = "".join(settings(f"ens{n}np0", "400000baseCR8/Full", 400_000) for n in range(7))
    management = settings("eno1", "25000baseCR/Full", 25_000)
    without_link = settings("ens9np0", "400000baseCR8/Full", 100_000, "no")
    slow = settings("ens8np0", "400000baseCR8/Full", 100_000)
    assert slower(fast + management + without_link, "link-state") == []
    assert slower(fast + management + slow, "link-state") == [("ens8np0", "100", "400")]

"""`rdma-counters` from perfquery and mlxlink: counters with the names of sysfs, by the device that a heading names."""

from __future__ import annotations

import json

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.counters import counters_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import CounterSample, Fault

SOURCE = "rdma-counters"
PERFQUERY = """# Port extended counters: Lid 1719 port {port} (CapMask: 0x5300 CapMask2: 0x0000002)
PortSelect:......................{port}
CounterSelect:...................0x0000
PortXmitData:....................36298026860928
SymbolErrorCounter:..............{symbols}
LinkErrorRecoveryCounter:........0
LinkDownedCounter:...............{downed}
PortRcvErrors:...................0
PortRcvRemotePhysicalErrors:.....0
PortRcvSwitchRelayErrors:........0
PortXmitDiscards:................0
LocalLinkIntegrityErrors:........0
ExcessiveBufferOverrunErrors:....0
PortXmitWait:....................22730501
"""
DETAILS = """# PortRcvErrorDetails counters: Lid 1432 port 1
PortSelect:......................1
PortLocalPhysicalErrors:.........0
"""
MLXLINK = """
Operational Info
----------------
State                              : Active
Physical state                     : LinkUp
Speed                              : IB-NDR

Module Info
-----------
Identifier                         : OSFP
Module FW Fault                    : {fault}
DataPath FW Fault                  : 0
Tx Fault [per lane]                : {lanes}

Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]        : 25074.8
Symbol Errors                      : 0
Effective Physical BER             : \x1b[32m15E-255\x1b[0m
Raw Physical Errors Per Lane       : 39464,51203,76921,30262
Link Down Counter                  : {downed}
Link Error Recovery Counter        : 7
"""


def mlxlink(fault: str = "0", lanes: str = "0,0,0,0", downed: object = 3) -> str:
    return MLXLINK.format(fault=fault, lanes=lanes, downed=downed)


def mlxlink_json(lanes: list[str]) -> str:
    output = {
        "Operational Info": {"State": "Active"},
        "Module Info": {"Module FW Fault": "0", "Tx Fault [per lane]": {"values": lanes}},
        "Physical Counters and BER Info": {"Link Down Counter": "3", "Symbol Errors": "N/A"},
    }
    return json.dumps({"result": {"output": output}, "status": {"code": 0, "message": "success"}}, indent=2)


def samples(body: str) -> dict[str | None, dict[str, int | str]]:
    found = registry.decode(SOURCE, body.encode())
    return {one.component.name: dict(one.values) for one in found if isinstance(one, CounterSample)}


def faults(body: str) -> list[tuple[str, str | None, str]]:
    found = registry.decode(SOURCE, body.encode())
    return [(one.code, one.component.name, one.attributes["error"]) for one in found if isinstance(one, Fault)]


def test_the_ports_of_perfquery_are_named_by_their_lid_and_keep_the_counters_that_have_a_threshold() -> None:
    body = PERFQUERY.format(port=1, symbols=1542, downed=1) + PERFQUERY.format(port=2, symbols=0, downed=0)
    found = samples(body)
    assert list(found) == ["lid1719", "lid1719/2"]
    assert (found["lid1719"]["symbol_error"], found["lid1719"]["link_downed"]) == (1542, 1)
    assert set(found["lid1719"]) < counters_of(SOURCE)
    assert registry.recognize(body.encode()) == SOURCE


@pytest.mark.parametrize("text", [PERFQUERY.format(port=1, symbols=0, downed=3), mlxlink(), mlxlink_json(["0", "0"])])
def test_a_heading_names_the_device_of_the_output_that_follows_it(text: str) -> None:
    body = f"# mlx5_0/1\n{text}\n# mlx5_7/2\n{text}"
    found = samples(body)
    assert list(found) == ["mlx5_0", "mlx5_7/2"]
    assert {values["link_downed"] for values in found.values()} == {3}
    assert faults(body) == []
    assert registry.recognize(body.encode()) == SOURCE


@pytest.mark.parametrize("text", [mlxlink(), mlxlink_json(["0"])])
def test_an_output_of_mlxlink_without_a_device_is_rejected_because_ports_cannot_be_distinguished(text: str) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode(SOURCE, text.encode())
    assert "# DEVICE/PORT" in rejected.value.detail


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (mlxlink(fault="1"), "Module FW Fault"),
        (mlxlink(lanes="0,0,1,0"), "Tx Fault [per lane]"),
        (mlxlink_json(["0", "1"]), "Tx Fault [per lane]"),
    ],
)
def test_a_fault_that_the_module_reports_is_a_fault_of_its_port(text: str, error: str) -> None:
    assert faults(f"# mlx5_0/1\n{text}") == [("net.port_module_error", "mlx5_0", error)]
    assert load_catalog().row("net.port_module_error").conflict is False


def test_a_value_that_is_not_available_is_absent() -> None:
    assert samples(f"# mlx5_0/1\n{mlxlink(fault='N/A', lanes='N/A', downed='N/A')}") == {
        "mlx5_0": {"symbol_error": 0, "link_error_recovery": 7}
    }
    assert "symbol_error" not in samples(f"# mlx5_0/1\n{mlxlink_json(['0'])}")["mlx5_0"]


def test_an_output_without_a_counter_that_has_a_threshold_is_counted_as_not_understood() -> None:
    decoded = registry.read(SOURCE, DETAILS.encode())
    assert (decoded.observations, decoded.unparsed) == ((), 1)


def test_json_that_was_cut_off_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode(SOURCE, f"# mlx5_0/1\n{mlxlink_json(['0'])[:-40]}".encode())
    assert rejected.value.reason == "malformed_json"


TREE = "/sys/class/infiniband/mlx5_{port}/ports/1/counters/link_downed: {value}\n"
SCRAPE = 'node_infiniband_link_downed_total{{device="mlx5_{port}",port="1"}} {value}\n'


def _later(template: str, first: int, last: int) -> str:
    return "".join(template.format(port=port, value=value) for value in (first, last) for port in (0, 1))


@pytest.mark.parametrize(
    "body",
    [
        _later(TREE, 0, 3),
        _later(SCRAPE, 0, 3),
        _later(
            "# mlx5_{port}/1\n# Port counters: Lid 5 port 1\nPortSelect:......1\nLinkDownedCounter:......{value}\n",
            0,
            3,
        ),
        "".join(f"# mlx5_{port}/1\n{mlxlink(downed=value)}\n" for value in (0, 3) for port in (0, 1)),
    ],
)
def test_two_samples_on_one_input_are_two_samples_of_each_port(body: str) -> None:
    found = [one for one in registry.decode(SOURCE, body.encode()) if isinstance(one, CounterSample)]
    read = [(one.component.name, one.values["link_downed"]) for one in found]
    assert read == [("mlx5_0", 0), ("mlx5_1", 0), ("mlx5_0", 3), ("mlx5_1", 3)]


def test_two_scrapes_of_an_interfaces_metrics_are_two_samples() -> None:
    series = 'node_ethtool_tx_timeout{{device="ens5"}} {}\n'
    found = registry.decode("ethtool-stats", (series.format(0) + series.format(4)).encode())
    assert [one.values["tx_timeout"] for one in found if isinstance(one, CounterSample)] == [0, 4]

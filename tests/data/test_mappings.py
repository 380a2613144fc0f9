"""Mappings and thresholds: every fault code has a row and every pattern is fast."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.counters import counters_of, thresholds, thresholds_with
from faultbridge.decode.data.mapping import NAMES, mapping, packaged, parse_extensions
from faultbridge.decode.data.patterns import bounded_pattern, patterns_of
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Misconfigured
from faultbridge.model.faults import Fault
from tests.decoders.captures import faults_and_clears

CODE = re.compile(r"(?:agent|cloud|dcgm|host|net|smi|sxid|train|xid)\.[a-z0-9_]+")


def texts(value: Any) -> list[str]:
    """Return every string in a JSON value, without member names."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def patterns(value: Any) -> list[str]:
    """Return every pattern in a JSON value."""
    if isinstance(value, dict):
        own = [one for name, one in value.items() if name in {"pattern", "alert"}]
        return own + [found for one in value.values() for found in patterns(one)]
    return [found for one in value for found in patterns(one)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", NAMES)
def test_every_code_in_a_mapping_has_a_row(name: str) -> None:
    named = {text for text in texts(packaged(name)) if CODE.fullmatch(text)}
    assert named
    assert named <= load_catalog().rows.keys()


def test_every_code_in_a_threshold_has_a_row_and_a_source() -> None:
    assert {one.code for one in thresholds().values()} <= load_catalog().rows.keys()
    assert all(one.says for one in thresholds().values())


def test_traffic_shaping_and_gauges_have_no_threshold() -> None:
    for counter in counters_of("ethtool-stats") | counters_of("rdma-counters"):
        assert "allowance" not in counter
        assert counter not in {"port_xmit_wait", "lifespan"}


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_matches_a_long_line_fast(name: str) -> None:
    for pattern in patterns(packaged(name)):
        compiled = re.compile(pattern)
        for filler in (" ", "a", "9", "xid", " iteration 1/ 2 | ", "iteration: 0 | ", '"1":true,'):
            line = (filler * 512)[:512]
            start = time.process_time()
            compiled.match(line)
            compiled.fullmatch(line)
            assert time.process_time() - start < 0.1


@pytest.mark.parametrize("pattern", ["(a+)+b", "a*", "(?:a{1,9})+x", "a{3,}", "("])
def test_a_pattern_without_a_bound_is_rejected(pattern: str) -> None:
    with pytest.raises(Misconfigured):
        patterns_of([{"contains": "a", "pattern": pattern, "code": "train.stalled"}])


@pytest.mark.parametrize("name", NAMES)
def test_every_packaged_pattern_is_bounded_like_a_customers_pattern(name: str) -> None:
    assert all(bounded_pattern(pattern) for pattern in patterns(packaged(name)))


@pytest.mark.parametrize(
    "words",
    [
        '{"alerts": {"rules": [{"alert": "(a+)+", "code": "host.clock"}]}}',
        '{"alerts": {"rules": [{"alert": "A", "labels": {"x": ".*"}, "code": "host.clock"}]}}',
        '{"slurm": {"reasons": [{"pattern": ".{0,99}.{0,99}.{0,99}x", "code": "host.clock"}]}}',
        '{"alerts": {"rules": [{"alert": "(", "code": "host.clock"}]}}',
        '{"alerts": {"rules": [{"alert": "A", "code": "gpu.los"}]}}',
        '{"conditions": {"reasons": {"GpuBad": "nvlink.bad"}}}',
        '{"nothing": {}}',
        '{"thresholds": []}',
        '{"thresholds": {"kernel-log": {"symbol_error": {"limit": 1}}}}',
        '{"thresholds": {"rdma-counters": {"nothing": {"limit": 1}}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": 20}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": {"limit": "20"}}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": {"limit": -1}}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": {"limit": null}}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": {"seconds": 0}}}}',
        '{"thresholds": {"rdma-counters": {"symbol_error": {"code": "net.link_down"}}}}',
        '{"alerts": []}',
        "[]",
        "{",
    ],
)
def test_invalid_extensions_are_rejected(words: str) -> None:
    with pytest.raises(Misconfigured):
        parse_extensions(words)


def test_a_customers_rule_precedes_the_packaged_rules() -> None:
    own = parse_extensions('{"alerts": {"rules": [{"alert": "LowDiskBandwidth", "code": "host.storage_unhealthy"}]}}')
    merged = mapping("alerts", own)
    assert merged["rules"][0]["alert"] == "LowDiskBandwidth"
    assert merged["rules"][1:] == packaged("alerts")["rules"]
    assert merged["node_labels"] == packaged("alerts")["node_labels"]


def test_a_customers_rule_can_name_a_failure_mode_that_then_decides() -> None:
    own = parse_extensions('{"alerts": {"rules": [{"alert": "RackGpuGone", "code": "gpu.lost"}]}}')
    alert = {"status": "firing", "labels": {"alertname": "RackGpuGone", "node": "n1"}, "startsAt": None}
    body = json.dumps({"receiver": "x", "alerts": [alert]}).encode()
    (fault,) = faults_and_clears(registry.decode("alertmanager", body, Hints(mappings=own)))
    assert isinstance(fault, Fault)
    row, mode = load_catalog().row_of(fault), load_catalog().modes["gpu.lost"]
    assert (row.code, row.mode, row.severity, row.action) == ("gpu.lost", "gpu.lost", mode.severity, mode.action)
    assert load_catalog().covers("ssm-dcgm", 2, fault.code)


def test_a_name_that_is_no_failure_mode_is_rejected_with_the_closest_one() -> None:
    with pytest.raises(Misconfigured, match=r"unknown failure mode: 'gpu.los'; did you mean gpu.lost\?"):
        parse_extensions('{"alerts": {"rules": [{"alert": "A", "code": "gpu.los"}]}}')


def test_a_customers_limits_replace_those_of_one_counter_only() -> None:
    own = parse_extensions('{"thresholds": {"rdma-counters": {"symbol_error": {"limit": 20, "seconds": null}}}}')
    changed, before = thresholds_with(own), thresholds()
    one = changed["rdma-counters", "symbol_error"]
    assert (one.limit, one.seconds, one.code) == (20, None, "net.symbol_errors")
    assert {key for key in before if changed[key] != before[key]} == {("rdma-counters", "symbol_error")}
    assert thresholds_with({}) == before


def test_a_customers_rule_decides_the_fault_of_an_alert() -> None:
    alert = {"status": "firing", "labels": {"alertname": "LowDiskBandwidth", "rack_host": "n1"}, "startsAt": None}
    body = json.dumps({"receiver": "x", "alerts": [alert]}).encode()
    rule = {"alert": "LowDisk.{0,32}", "code": "host.storage_unhealthy"}
    hints = Hints(mappings={"alerts": {"rules": [rule], "node_labels": ["rack_host"]}})
    (fault,) = faults_and_clears(registry.decode("alertmanager", body, hints))
    assert (fault.code, fault.node) == ("host.storage_unhealthy", "n1")


@pytest.mark.parametrize(
    "text",
    ["no json", "[]", '{"alert": {}}', '{"alerts": []}', '{"alerts": {"rules": {}}}', '{"slurm": {"states": 3}}'],
)
def test_mappings_with_wrong_types_are_rejected(text: str) -> None:
    with pytest.raises(Misconfigured):
        parse_extensions(text)


@pytest.mark.parametrize("rates", [[], {"p5.48xlarge": 0}, {"p5.48xlarge": "200"}, {"p5.48xlarge": True}])
def test_an_expected_rate_that_is_no_number_of_gigabits_is_rejected(rates: object) -> None:
    with pytest.raises(Misconfigured, match="efa_rates"):
        parse_extensions(json.dumps({"efa_rates": rates}))


def test_the_expected_rates_of_a_customer_are_accepted() -> None:
    own = {"efa_rates": {"p6-b200.48xlarge": 400, "p5en.48xlarge": None}}
    assert parse_extensions(json.dumps(own)) == own

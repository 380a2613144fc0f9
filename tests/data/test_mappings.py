"""Mappings and thresholds: every fault that they name is described, and every pattern ends soon."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from faultbridge.data import catalogue
from faultbridge.data.counters import counters_of, thresholds
from faultbridge.data.mapping import NAMES, mapping, packaged, read_own
from faultbridge.data.patterns import bounded_pattern
from faultbridge.decoders import registry
from faultbridge.decoders.base import Hints, judgements
from faultbridge.decoders.training_patterns import patterns_of
from faultbridge.errors import Misconfigured

CODE = re.compile(r"(?:agent|cloud|dcgm|host|net|smi|sxid|train|xid)\.[a-z0-9_]+")


def texts(value: Any) -> list[str]:
    """Every text in JSON, members' names left out."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def patterns(value: Any) -> list[str]:
    """Every pattern in JSON."""
    if isinstance(value, dict):
        own = [one for name, one in value.items() if name in {"pattern", "alert"}]
        return own + [found for one in value.values() for found in patterns(one)]
    return [found for one in value for found in patterns(one)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", NAMES)
def test_every_code_that_a_mapping_names_has_a_row(name: str) -> None:
    named = {text for text in texts(packaged(name)) if CODE.fullmatch(text)}
    assert named
    assert named <= catalogue().rows.keys()


def test_every_code_that_a_threshold_names_has_a_row_and_a_source() -> None:
    assert {one.code for one in thresholds().values()} <= catalogue().rows.keys()
    assert all(one.says for one in thresholds().values())


def test_shaping_and_gauges_have_no_threshold() -> None:
    for counter in counters_of("ethtool-stats") | counters_of("rdma-counters"):
        assert "allowance" not in counter
        assert counter not in {"port_xmit_wait", "lifespan"}


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_answers_a_long_line_soon(name: str) -> None:
    for pattern in patterns(packaged(name)):
        compiled = re.compile(pattern)
        for filler in (" ", "a", "9", "xid", " iteration 1/ 2 | ", "iteration: 0 | ", '"1":true,'):
            line = (filler * 512)[:512]
            start = time.process_time()
            compiled.match(line)
            compiled.fullmatch(line)
            assert time.process_time() - start < 0.1


@pytest.mark.parametrize("pattern", ["(a+)+b", "a*", "(?:a{1,9})+x", "a{3,}", "("])
def test_a_pattern_without_a_bound_is_refused(pattern: str) -> None:
    with pytest.raises(Misconfigured):
        patterns_of([{"contains": "a", "pattern": pattern, "code": "train.stalled"}])


@pytest.mark.parametrize("name", NAMES)
def test_every_packaged_pattern_has_the_bound_that_a_customers_must_have(name: str) -> None:
    assert all(bounded_pattern(pattern) for pattern in patterns(packaged(name)))


@pytest.mark.parametrize(
    "words",
    [
        '{"alerts": {"rules": [{"alert": "(a+)+", "code": "host.clock"}]}}',
        '{"alerts": {"rules": [{"alert": "A", "labels": {"x": ".*"}, "code": "host.clock"}]}}',
        '{"slurm": {"reasons": [{"pattern": ".{0,99}.{0,99}.{0,99}x", "code": "host.clock"}]}}',
        '{"alerts": {"rules": [{"alert": "(", "code": "host.clock"}]}}',
        '{"nothing": {}}',
        '{"alerts": []}',
        "[]",
        "{",
    ],
)
def test_words_that_no_mapping_could_be_extended_by_are_refused(words: str) -> None:
    with pytest.raises(Misconfigured):
        read_own(words)


def test_a_customers_rule_goes_before_ours_and_keeps_the_rest() -> None:
    own = read_own('{"alerts": {"rules": [{"alert": "LowDiskBandwidth", "code": "host.storage_unhealthy"}]}}')
    merged = mapping("alerts", own)
    assert merged["rules"][0]["alert"] == "LowDiskBandwidth"
    assert merged["rules"][1:] == packaged("alerts")["rules"]
    assert merged["node_labels"] == packaged("alerts")["node_labels"]


def test_a_customers_rule_names_the_fault_of_an_alert() -> None:
    alert = {"status": "firing", "labels": {"alertname": "LowDiskBandwidth", "rack_host": "n1"}, "startsAt": None}
    body = json.dumps({"receiver": "x", "alerts": [alert]}).encode()
    rule = {"alert": "LowDisk.{0,32}", "code": "host.storage_unhealthy"}
    hints = Hints(mappings={"alerts": {"rules": [rule], "node_labels": ["rack_host"]}})
    (told,) = judgements(registry.decode("alertmanager", body, hints))
    assert (told.code, told.node) == ("host.storage_unhealthy", "n1")


@pytest.mark.parametrize(
    "text",
    ["no json", "[]", '{"alert": {}}', '{"alerts": []}', '{"alerts": {"rules": {}}}', '{"slurm": {"states": 3}}'],
)
def test_mappings_of_another_shape_are_refused(text: str) -> None:
    with pytest.raises(Misconfigured):
        read_own(text)

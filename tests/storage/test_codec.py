"""Codec: a stored state is loaded unchanged, also one of an older or newer release."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.decide.observe import observe
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.counter_samples import LastSample
from tests.builders import CATALOG, GPU, NOON, arrival, config, fault, node, rules


def busy_state() -> NodeState:
    return observe(
        node(),
        [arrival(fault()), arrival(fault("xid.31"))],
        rules=rules(),
        catalog=CATALOG,
        now=NOON,
    ).state


def test_a_stored_state_is_loaded_unchanged() -> None:
    state = busy_state()
    assert load(NodeState, json.loads(json.dumps(dump(state)))) == state


def test_an_empty_mapping_is_not_stored() -> None:
    assert "conditions" not in dump(node())


def test_attributes_of_a_newer_writer_are_ignored() -> None:
    assert load(NodeState, {**dump(busy_state()), "from_the_future": 1}) == busy_state()


def test_a_missing_attribute_of_an_older_writer_gets_its_default() -> None:
    written = dump(config())
    del written["verifier"]
    assert load(ClusterConfig, written) == config()


def test_the_durations_of_a_policy_are_loaded_unchanged() -> None:
    policy = Policy("v", (Rule("r", Match(codes=("xid.*",)), wait_seconds=5),))
    read = load(Policy, json.loads(json.dumps(dump(policy))))
    assert read == policy
    assert read.limits.act_within == timedelta(hours=1)


@pytest.mark.parametrize("value", [1.5, b"bytes", {1, 2}])
def test_an_unsupported_type_is_refused(value) -> None:
    with pytest.raises(TypeError):
        dump({"value": value})


def test_a_value_of_type_text_or_number_keeps_its_type() -> None:
    last = LastSample(NOON, GPU, {"operstate": "UP", "carrier": 1})
    assert load(LastSample, json.loads(json.dumps(dump(last)))) == last

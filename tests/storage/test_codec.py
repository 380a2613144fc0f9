"""Codec: a stored state is loaded unchanged, also one of an older or newer release."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.observe import observe
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.storage.codec import dump, load, pack, unpack
from faultbridge.model.storage.counter_samples import LastSample
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, arrival, config, fault, node, rules

OF_CLASSES = {"key", "type", "component", "last_at", "instance_id", "status"}
"""Names of attributes of which every class that is stored in the state of a node has one."""


def busy_state() -> NodeState:
    return observe(
        node(),
        [arrival(fault()), arrival(fault("xid.31")), arrival(fault("net.link_flapping"))],
        rules=rules(),
        catalog=CATALOG,
        now=NOON,
    ).state


def test_a_stored_state_is_loaded_unchanged() -> None:
    state = busy_state()
    assert load(NodeState, json.loads(json.dumps(dump(state)))) == state


def test_an_empty_mapping_is_not_stored() -> None:
    assert "conditions" not in dump(node())


def with_later_attributes(document: Any) -> Any:
    """Return a stored document to which a later release added an attribute in every value of a class."""
    if isinstance(document, list):
        return [with_later_attributes(one) for one in document]
    if not isinstance(document, dict):
        return document
    added = {"from_the_future": {"nested": [1]}} if document.keys() & OF_CLASSES else {}
    return {name: with_later_attributes(one) for name, one in document.items()} | added


def test_attributes_of_a_later_release_are_written_back_where_they_were() -> None:
    state = busy_state()
    later = with_later_attributes(dump(state))
    assert later["conditions"]["xid.79@gpu/pci=0000:c1:00"]["component"]["from_the_future"] == {"nested": [1]}
    read = load(NodeState, later)
    assert dump(read) == later
    assert dump(unpack(NodeState, pack(read))) == later
    assert dump(replace(read, shard=3)) == later | {"shard": 3}


def test_a_value_without_later_attributes_equals_one_that_was_never_stored() -> None:
    state = busy_state()
    read = load(NodeState, dump(state) | {"from_the_future": 1})
    assert replace(read, unknown_attributes=None) == state


def test_a_value_keeps_the_attributes_of_a_later_release_when_another_one_ends() -> None:
    read = load(NodeState, with_later_attributes(dump(busy_state())))
    assert len(read.conditions) == 2
    kept = dict(list(read.conditions.items())[1:])
    written = dump(replace(read, conditions=kept))["conditions"]
    assert [one["from_the_future"] for one in written.values()] == [{"nested": [1]}]


def test_an_attribute_of_a_fault_may_have_the_name_of_the_kept_attributes() -> None:
    seen = arrival(fault(attributes={"unknown_attributes": "{"}))
    state = observe(node(), [seen], rules=rules(), catalog=CATALOG, now=NOON).state
    assert load(NodeState, dump(state)) == state


def test_a_missing_attribute_of_an_older_writer_gets_its_default() -> None:
    written = dump(replace(config(), verifier="ssm-dcgm"))
    assert load(ClusterConfig, {name: one for name, one in written.items() if name != "verifier"}) == config()


def test_the_durations_of_a_policy_are_loaded_unchanged() -> None:
    policy = Policy("v", (Rule("r", Match(codes=("xid.*",)), wait_seconds=5),))
    read = load(Policy, json.loads(json.dumps(dump(policy))))
    assert read == policy
    assert read.limits.act_within == timedelta(hours=1)


def test_an_unsupported_type_is_refused() -> None:
    with pytest.raises(TypeError, match="unsupported type in an item: object"):
        dump({"value": object()})


def test_a_value_of_type_text_or_number_keeps_its_type() -> None:
    last = LastSample(NOON, GPU, {"operstate": "UP", "carrier": 1})
    assert load(LastSample, json.loads(json.dumps(dump(last)))) == last

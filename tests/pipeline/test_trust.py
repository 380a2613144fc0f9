"""Trust: a node speaks of itself, a collector of its cluster, and nobody of a neighbour."""

from __future__ import annotations

import pytest

from faultbridge.domain.aliases import AliasRow
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.records import RawRecord
from faultbridge.pipeline.normalize.trust import EVENT_BUS, Trust, instance_of
from tests.builders import KEY, NOON, config

OWN, OTHER = "i-0aaaaaaaaaaaaaaa1", "i-0bbbbbbbbbbbbbbb2"
NODE = f"AROANODEROLE:{OWN}"
COLLECTOR = "AROACOLLECTOR:dcgm-exporter"
STRICT = Trust(required=True, own=frozenset({"AROASWEEP"}))
ROW = AliasRow(KEY, OWN, NOON)
NEIGHBOUR = AliasRow(NodeKey("train-a", "ip-10-0-0-8"), OTHER, NOON)


def record(sender: str | None, instance_id: str | None = None) -> RawRecord:
    return RawRecord("r-1", "kernel-log", "train-a", None, b"", NOON, NOON, instance_id=instance_id, sender=sender)


def objection(sender, *, claims=None, row=ROW, others=(), trusted=(), trust=STRICT):
    proven = trust.proven(record(sender, claims))
    return trust.objection(proven, config(trusted_senders=trusted), row, others)


def test_an_instance_speaks_of_itself_and_need_not_say_so():
    assert objection(NODE) is None
    assert objection(NODE, claims=OWN) is None
    assert STRICT.proven(record(NODE)).instance_id == OWN


def test_an_instance_does_not_speak_of_a_neighbour_by_any_name():
    assert objection(NODE, claims=OTHER, row=NEIGHBOUR) == f"{OWN} speaks of {OTHER}"
    assert objection(NODE, others=[ROW, NEIGHBOUR]) == f"{OWN} speaks of train-a/ip-10-0-0-8"


@pytest.mark.parametrize(
    "sender", [None, "", "123456789012", "AIDAUSER", COLLECTOR, "AROASWEEPX:faultbridge-sweep", ":"]
)
def test_whoever_is_neither_a_node_nor_listed_is_not_believed(sender):
    assert objection(sender) is not None


@pytest.mark.parametrize("listed", [COLLECTOR, "AROACOLLECTOR:*"])
def test_a_listed_collector_speaks_of_every_node_of_its_cluster(listed):
    assert objection(COLLECTOR, claims=OTHER, row=NEIGHBOUR, trusted=(listed,)) is None


def test_a_list_means_what_it_says_and_nothing_that_looks_like_it():
    assert objection("AROACOLLECTOR:dcgm", trusted=(COLLECTOR,)) is not None
    assert objection("AROACOLLECTOR2:x", trusted=("AROACOLLECTOR:*",)) is not None
    assert objection("AIDAUSER", trusted=("*", "AIDAUSER:*")) is not None


def test_a_user_or_a_federated_session_named_as_an_instance_is_no_instance():
    assert instance_of(f"AIDAUSER:{OWN}") is None
    assert instance_of(f"AROAROLE:x{OWN}") is None


def test_the_event_bus_is_believed_and_so_is_what_our_own_functions_send_again_for_whom_they_say():
    assert objection(EVENT_BUS) is None
    assert STRICT.sender("AROASWEEP:faultbridge-sweep", NODE) == NODE
    assert STRICT.sender(f"AROANODEROLE:{OTHER}", NODE) == f"AROANODEROLE:{OTHER}"
    assert STRICT.sender(f"AROANODEROLE:{OTHER}", EVENT_BUS) == f"AROANODEROLE:{OTHER}"


def test_where_no_proof_is_asked_for_nothing_is_checked_or_filled_in():
    off = Trust()
    assert objection(None, claims=OTHER, row=NEIGHBOUR, trust=off) is None
    assert off.proven(record(NODE)).instance_id is None

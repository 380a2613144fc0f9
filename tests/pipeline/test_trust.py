"""Trust: an instance reports only about itself, a listed collector about its cluster."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.normalize.trust import EVENT_BUS, Trust, instance_of
from faultbridge.model.nodes import AliasRow, NodeKey
from faultbridge.model.records import RawRecord
from faultbridge.model.values import replace
from tests.builders import KEY, NOON, after, config

OWN, OTHER = "i-0aaaaaaaaaaaaaaa1", "i-0bbbbbbbbbbbbbbb2"
NODE = f"AROANODEROLE:{OWN}"
COLLECTOR = "AROACOLLECTOR:dcgm-exporter"
STRICT = Trust(required=True, own=frozenset({"AROASWEEP"}))
ROW = AliasRow(KEY, OWN, NOON)
OTHER_ROW = AliasRow(NodeKey("train-a", "ip-10-0-0-8"), OTHER, NOON)


def record(sender: str | None, instance_id: str | None = None) -> RawRecord:
    return RawRecord("r-1", "kernel-log", "train-a", None, b"", NOON, NOON, instance_id=instance_id, sender=sender)


def refusal(sender, *, claims=None, row=ROW, others=(), trusted=(), roles=(), trust=STRICT):
    sent = trust.with_sender_instance(record(sender, claims))
    return trust.refusal(sent, config(trusted_senders=trusted, node_roles=roles), row, others)


def test_an_instance_may_report_about_itself_without_naming_itself():
    assert refusal(NODE) is None
    assert refusal(NODE, claims=OWN) is None
    assert STRICT.with_sender_instance(record(NODE)).instance_id == OWN


def test_an_instance_may_not_report_about_another_node_by_any_name():
    assert refusal(NODE, claims=OTHER, row=OTHER_ROW) == f"{OWN} may report only about itself, not about {OTHER}"
    assert (
        refusal(NODE, others=[ROW, OTHER_ROW]) == f"{OWN} may report only about itself, not about train-a/ip-10-0-0-8"
    )


@pytest.mark.parametrize(
    "sender", [None, "", "123456789012", "AIDAUSER", COLLECTOR, "AROASWEEPX:faultbridge-sweep", ":"]
)
def test_a_sender_that_is_neither_an_instance_nor_listed_is_refused(sender):
    assert refusal(sender) is not None


@pytest.mark.parametrize("listed", [COLLECTOR, "AROACOLLECTOR:*"])
def test_a_listed_collector_may_report_about_every_node_of_its_cluster(listed):
    assert refusal(COLLECTOR, claims=OTHER, row=OTHER_ROW, trusted=(listed,)) is None


def test_a_listed_sender_must_match_exactly():
    assert refusal("AROACOLLECTOR:dcgm", trusted=(COLLECTOR,)) is not None
    assert refusal("AROACOLLECTOR2:x", trusted=("AROACOLLECTOR:*",)) is not None
    assert refusal("AIDAUSER", trusted=("*", "AIDAUSER:*")) is not None


@pytest.mark.parametrize("roles", [(), ("AROANODEROLE",)])
def test_a_sender_of_webhooks_may_report_about_every_node_and_all_it_reports_is_a_claim(roles):
    sender = STRICT.sender("AROASWEEP:faultbridge-intake", "webhook:grafana")
    cluster = config(node_roles=roles)
    assert refusal(sender, claims=OTHER, row=OTHER_ROW, roles=roles) is None
    assert STRICT.is_claim(record(sender, OWN), cluster, ROW, ())
    assert not STRICT.is_claim(record("AROASWEEP:faultbridge-intake", OWN), cluster, ROW, ())


def test_only_our_own_function_may_name_a_sender_of_webhooks():
    assert STRICT.sender(NODE, "webhook:grafana") == NODE


def test_no_session_proves_a_hyperpod_instance_unless_an_operator_named_its_role():
    hyperpod = config(provider="hyperpod", verifier="hyperpod", restarter="hyperpod")
    for sender in (NODE, "AROASAGEMAKER:SageMaker"):
        assert STRICT.refusal(record(sender, OWN), hyperpod, ROW, ()) is not None
        assert STRICT.refusal_of_sender(sender, OWN, hyperpod) is not None
    listed = replace(hyperpod, trusted_senders=("AROASAGEMAKER:SageMaker",))
    assert STRICT.refusal(record("AROASAGEMAKER:SageMaker", OWN), listed, ROW, ()) is None
    assert STRICT.is_claim(record("AROASAGEMAKER:SageMaker", OWN), listed, ROW, ())
    assert STRICT.refusal(record(NODE, OWN), listed, ROW, ()) is not None
    assert STRICT.refusal(record(NODE, OWN), replace(hyperpod, node_roles=("AROANODEROLE",)), ROW, ()) is None


def test_a_session_of_another_role_that_is_named_like_the_instance_is_refused():
    assert refusal(NODE, roles=("AROANODEROLE",)) is None
    assert "not a role of the nodes" in refusal(f"AROAFORGED:{OWN}", roles=("AROANODEROLE",))
    assert refusal(COLLECTOR, trusted=(COLLECTOR,), roles=("AROANODEROLE",)) is None


def test_a_user_or_session_named_like_an_instance_is_no_instance():
    assert instance_of(f"AIDAUSER:{OWN}") is None
    assert instance_of(f"AROAROLE:x{OWN}") is None


def test_the_event_bus_and_records_sent_again_by_our_own_functions_are_accepted():
    assert refusal(EVENT_BUS) is None
    assert STRICT.sender("AROASWEEP:faultbridge-sweep", NODE) == NODE
    assert STRICT.sender(f"AROANODEROLE:{OTHER}", NODE) == f"AROANODEROLE:{OTHER}"
    assert STRICT.sender(f"AROANODEROLE:{OTHER}", EVENT_BUS) == f"AROANODEROLE:{OTHER}"


def test_without_required_checks_nothing_is_refused_or_filled_in():
    off = Trust()
    assert refusal(None, claims=OTHER, row=OTHER_ROW, trust=off) is None
    assert off.with_sender_instance(record(NODE)).instance_id is None


@pytest.mark.parametrize(
    ("sender", "trust", "accepted"),
    [
        ("AROASWEEP:faultbridge-sweep", STRICT, True),
        ("AROASWEEP:", STRICT, False),
        ("AROASWEEP", STRICT, False),
        (COLLECTOR, STRICT, False),
        (None, STRICT, False),
        (None, Trust(), True),
    ],
)
def test_only_a_function_of_the_installation_may_send_canaries(
    sender: str | None, trust: Trust, accepted: bool
) -> None:
    assert (trust.refusal_of_canary(sender) is None) is accepted


@pytest.mark.parametrize(
    ("sender", "accepted"),
    [("AROASWEEP:faultbridge-sweep", True), (EVENT_BUS, True), (COLLECTOR, True), (NODE, False), (None, False)],
)
def test_an_instance_may_not_report_a_job(sender: str | None, accepted: bool) -> None:
    listed = config(trusted_senders=(COLLECTOR,))
    assert (STRICT.refusal_of_report(sender, listed) is None) is accepted
    assert Trust().refusal_of_report(sender, listed) is None


@pytest.mark.parametrize(
    ("about", "roles", "trusted", "claim"),
    [
        (ROW, ("AROANODEROLE",), (), False),
        (ROW, ("AROANODEROLE",), (NODE,), False),
        (OTHER_ROW, ("AROANODEROLE",), (NODE,), True),
        (ROW, ("AROAOTHERROLE",), (NODE,), True),
        (ROW, (), (NODE,), True),
        (ROW, (), (), False),
    ],
)
def test_a_listed_instance_proves_only_what_it_reports_about_itself_in_a_node_role(
    about: AliasRow, roles: tuple[str, ...], trusted: tuple[str, ...], claim: bool
) -> None:
    cluster = config(node_roles=roles, trusted_senders=trusted)
    assert STRICT.is_claim(record(NODE, about.instance_id), cluster, about, ()) is claim


@pytest.mark.parametrize("source", ["ec2-event", "ec2-status", "health-event", "hyperpod-event"])
def test_what_only_aws_reports_is_a_claim_unless_the_event_bus_or_the_installation_sent_it(source: str) -> None:
    cluster = config(node_roles=("AROANODEROLE",))
    claims = {
        sender: STRICT.is_claim(replace(record(sender, OWN), source=source), cluster, ROW, ())
        for sender in (NODE, EVENT_BUS, "AROASWEEP:faultbridge-sweep")
    }
    assert claims == {NODE: True, EVENT_BUS: False, "AROASWEEP:faultbridge-sweep": False}


@pytest.mark.parametrize("sender", [NODE, COLLECTOR, "webhook:grafana"])
def test_nothing_is_a_claim_without_required_checks_or_from_the_event_bus(sender: str) -> None:
    cluster = config(trusted_senders=(sender, EVENT_BUS))
    assert not Trust().is_claim(record(sender, OWN), cluster, ROW, ())
    assert not STRICT.is_claim(record(EVENT_BUS, OWN), cluster, ROW, ())


EARLIER, LATER = after(hours=-1), after(hours=1)


@pytest.mark.parametrize(
    ("trust", "sender", "claimed", "received"),
    [
        (STRICT, "AROASWEEP:faultbridge-sweep", EARLIER, EARLIER),
        (STRICT, "AROASWEEP:faultbridge-sweep", LATER, NOON),
        (STRICT, "AROASWEEP:faultbridge-sweep", None, NOON),
        (STRICT, NODE, EARLIER, NOON),
        (Trust(), NODE, EARLIER, EARLIER),
        (Trust(), NODE, None, NOON),
    ],
)
def test_a_record_that_is_sent_again_keeps_its_first_receipt_unless_an_instance_states_it(
    trust: Trust, sender: str, claimed: datetime | None, received: datetime
) -> None:
    assert trust.received_at(sender, claimed, NOON) == received

"""`faultbridge doctor` names what is missing with the command against it, and is silent when nothing is."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from faultbridge.cli.commands.install.connect import scheduler_findings
from faultbridge.install.connect import Installation
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeKey
from faultbridge.serve.wiring.services import wire_heartbeat_log
from tests.cli.desk import Desk
from tests.install.fakes import GROUP, FakeAccount, FakeEks

CLUSTER = "train-b"


def beat(desk: Desk) -> None:
    """Record a heartbeat of every node of the cluster."""
    now = desk.world.ports.clock.now()
    nodes = desk.json("node", "list", "--cluster", CLUSTER)
    wire_heartbeat_log(desk.world.app).record({NodeKey(CLUSTER, one["node"]): now for one in nodes})


def findings(desk: Desk) -> dict[str, list[dict[str, Any]]]:
    """Return the findings about the cluster and the stack, by check."""
    ran = desk("doctor", "--cluster", CLUSTER, "--json")
    by_check: dict[str, list[dict[str, Any]]] = {}
    for one in ran.document:
        by_check.setdefault(one["check"], []).append(one)
    assert ran.code == (1 if by_check else 0), ran.err
    return by_check


@pytest.fixture
def well(connected: Desk, account: FakeAccount) -> Desk:
    """A connected cluster whose nodes report, and whose pages an operator reads."""
    connected.json("connect", "asg", GROUP, "--cluster", CLUSTER, "--yes")
    account.subscriptions = ["arn:aws:sns:us-east-1:123456789012:urgent:1"]
    beat(connected)
    return connected


def test_nothing_is_found_where_nothing_is_missing(well: Desk) -> None:
    assert findings(well) == {}
    assert "nothing is missing" in well("doctor", "--cluster", CLUSTER).err


def test_a_topic_without_a_confirmed_subscriber_is_named(well: Desk, account: FakeAccount) -> None:
    account.subscriptions = ["PendingConfirmation"]
    urgent, notice = findings(well)["topics"]
    assert urgent["command"].startswith("aws sns subscribe --topic-arn arn:aws:sns:us-east-1:123456789012:urgent ")
    assert notice["of"] == "notices"


def test_nodes_without_heartbeats_are_counted_and_named(well: Desk) -> None:
    well.world.ports.clock.advance(timedelta(minutes=11))
    (late,) = findings(well)["heartbeat"]
    assert late["finding"].startswith("2 of 2 nodes sent none for 10 minutes")


def test_nodes_that_never_reported_are_named(connected: Desk) -> None:
    connected.json("connect", "asg", GROUP, "--cluster", CLUSTER, "--yes")
    (missing,) = findings(connected)["heartbeat"]
    assert missing["finding"].startswith("2 of 2 nodes never sent a heartbeat")
    assert missing["command"].startswith("systemctl status")


@pytest.mark.parametrize(
    ("config", "finding", "command"),
    [
        ({"provider": "hyperpod", "hyperpod_cluster": "h"}, "no scheduler is drained", "--orchestrator slurm"),
        (
            {"provider": "parallelcluster", "slurm_rest": "https://s:1"},
            "no node can be rebooted",
            "--slurm-head-node ID",
        ),
        ({"orchestrator": "slurm", "slurm_rest": "https://s:1"}, "no token of slurmrestd", "--set SlurmTokens=ARN"),
    ],
    ids=["hyperpod", "parallelcluster", "token"],
)
def test_what_a_scheduler_lacks_is_named_with_the_command_against_it(
    config: dict[str, Any], finding: str, command: str
) -> None:
    stack = Installation("tag", {})
    found = list(scheduler_findings(stack, ClusterConfig(CLUSTER, **config)))
    assert any(finding in one.finding and command in one.command for one in found)
    assert not list(scheduler_findings(stack, ClusterConfig(CLUSTER)))


def test_a_missing_tag_and_a_missing_permission_lead_to_connect(well: Desk, account: FakeAccount) -> None:
    account.tags.clear()
    account.attached.clear()
    found = findings(well)["tag and role"]
    assert len(found) == 3
    assert {one["command"] for one in found} == {f"faultbridge connect asg {GROUP} --cluster {CLUSTER}"}


def test_a_private_endpoint_and_missing_access_entries_are_named(connected: Desk, aws: SimpleNamespace) -> None:
    connected.json("connect", "eks", "gpu", "--cluster", CLUSTER, "--yes")
    aws.eks = FakeEks(public=False)
    endpoint, *entries = findings(connected)["endpoint"]
    assert "VpcSubnets" in endpoint["command"]
    assert {one["command"] for one in entries} == {f"faultbridge connect eks gpu --cluster {CLUSTER}"}


def test_dead_letters_lead_to_redrive(well: Desk, account: FakeAccount) -> None:
    account.dead_letters = 3
    (found,) = findings(well)["queue"]
    assert (found["finding"], found["command"]) == ("3 records failed repeatedly", "faultbridge redrive")


def test_a_provider_that_repairs_nodes_itself_is_named(well: Desk) -> None:
    well.world.ports.inventories["ec2-auto-scaling"].provider_repairs = True
    (found,) = findings(well)["rival"]
    assert "repairs nodes" in found["finding"]


def test_a_cluster_without_nodes_is_named(connected: Desk) -> None:
    connected.json("cluster", "add", CLUSTER)
    assert findings(connected)["nodes"][0]["command"] == f"faultbridge node import --cluster {CLUSTER} --group GROUP"


def test_a_check_that_fails_is_a_finding_and_the_others_run(
    well: Desk, account: FakeAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListSubscriptionsByTopic")

    monkeypatch.setattr(account, "list_subscriptions_by_topic", denied)
    account.dead_letters = 1
    found = findings(well)
    assert found["topics"][0]["finding"].startswith("not checked: ")
    assert found["queue"]


def test_ready_shows_what_would_have_been_repaired_and_the_command_to_act(well: Desk) -> None:
    node = well.json("node", "list", "--cluster", CLUSTER)[0]["node"]
    fault = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    well.json("send", "--cluster", CLUSTER, "--node", node, "--source", "kernel-log", given=fault)
    well.run_ingest()
    well.world.ports.clock.advance(timedelta(hours=1))
    (ready,) = well.json("doctor", "--ready", "--cluster", CLUSTER)
    assert (ready["mode"], ready["cases"]) == ("observe", 1)
    assert ready["actions"]["replace_node"] == 1
    assert ready["command"] == f"faultbridge cluster set {CLUSTER} --mode act --repair-owner faultbridge"

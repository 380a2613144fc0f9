"""`faultbridge connect` plans, asks once, makes what is missing, and finds what it made before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from faultbridge.install import connect
from faultbridge.model.cluster.config import Mode
from faultbridge.model.errors import Misconfigured
from tests.cli.desk import Desk
from tests.install.fakes import GROUP, HEAD, OUTPUTS, ROLE, STACK, TAG, FakeAccount, FakeEks


def results(rows: list[dict[str, str]]) -> list[str]:
    return [row["result"] for row in rows]


def test_a_plan_lists_every_change_and_makes_none(connected: Desk, account: FakeAccount) -> None:
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--plan")
    assert set(results(rows)) == {"to do"}
    assert {row["target"] for row in rows} == {GROUP, f"role {ROLE}", "cluster train-b", f"group {GROUP}"}
    assert (account.tags, account.attached) == ({}, set())
    assert "train-b" not in [one["cluster"] for one in connected.json("cluster", "list")]


def test_without_an_answer_nothing_is_changed(connected: Desk, account: FakeAccount) -> None:
    ran = connected("connect", "asg", GROUP)
    assert ran.code == 2
    assert "changes in the account" in ran.err
    assert (account.tags, account.attached) == ({}, set())


def test_a_group_is_tagged_its_role_permitted_and_its_nodes_are_watched(connected: Desk, account: FakeAccount) -> None:
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    assert set(results(rows)) == {"made"}
    assert account.tags == {(GROUP, TAG): "faultbridge"}
    assert account.attached == {OUTPUTS["NodePolicyArn"], "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"}
    assert account.inline == {"faultbridge-verify": connect.verify_policy("aws", "faultbridge-rawbucket")}
    shown = connected.json("cluster", "show", "train-b")
    assert shown["mode"] == Mode.OBSERVE
    assert len(connected.json("node", "list", "--cluster", "train-b")) == 2


def test_a_repeated_command_finds_what_was_made(connected: Desk) -> None:
    connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    rows = connected.json("connect", "asg", GROUP, "--cluster", "train-b", "--yes")
    assert set(results(rows[:-1])) == {"made before"}


def test_an_eks_cluster_gets_its_access_entries_and_only_its_gpu_groups(connected: Desk, aws: SimpleNamespace) -> None:
    rows = connected.json("connect", "eks", "gpu", "--yes")
    assert aws.eks.entries == {
        "arn:aws:iam::123456789012:role/react": ["faultbridge"],
        "arn:aws:iam::123456789012:role/sweep": ["faultbridge"],
        "arn:aws:iam::123456789012:role/inventory": ["faultbridge-inventory"],
    }
    assert "system" not in {row["target"] for row in rows}
    shown = connected.json("cluster", "show", "gpu")
    assert (shown["mode"], shown["orchestrator"], shown["eks_cluster"]) == (Mode.OBSERVE, "eks", "gpu")


def test_an_access_entry_of_another_purpose_keeps_its_groups(aws: SimpleNamespace) -> None:
    arn = OUTPUTS["KubernetesInventoryRoleArn"]
    aws.eks.entries[arn] = ["viewers"]
    for change in connect.access_entries(aws, "gpu", STACK):
        change.make()
    assert aws.eks.entries[arn] == ["viewers", "faultbridge-inventory"]


def test_the_values_of_the_chart_are_printed(connected: Desk) -> None:
    printed = connected("connect", "eks", "gpu", "--yes").out
    assert f"queueUrl: {OUTPUTS['RawRecordsQueueUrl']}" in printed
    assert "cluster: gpu" in printed


def test_a_slurm_cluster_gets_the_tag_of_its_head_node(connected: Desk, account: FakeAccount) -> None:
    connected.json("connect", "slurm", "train-s", "--head-node", HEAD, "--group", GROUP, "--yes")
    assert account.tags == {(HEAD, TAG): "faultbridge", (GROUP, TAG): "faultbridge"}
    assert connected.json("cluster", "show", "train-s")["slurm_head_node"] == HEAD


@pytest.mark.parametrize(
    ("fake", "name", "said"),
    [
        (FakeEks(), "other", "EKS cluster not found: 'other'"),
        (FakeEks("CONFIG_MAP"), "gpu", "authenticationMode=API_AND_CONFIG_MAP"),
    ],
)
def test_an_eks_cluster_that_cannot_be_connected_says_why(
    aws: SimpleNamespace, fake: FakeEks, name: str, said: str
) -> None:
    aws.eks = fake
    with pytest.raises(Misconfigured, match=said):
        connect.read_eks(aws, name, gpu_types=["p5.48xlarge"], in_subnets=False)


def test_a_private_endpoint_is_reachable_only_from_subnets(aws: SimpleNamespace) -> None:
    aws.eks = FakeEks(public=False)
    assert not connect.read_eks(aws, "gpu", gpu_types=[], in_subnets=False).reachable
    assert connect.read_eks(aws, "gpu", gpu_types=[], in_subnets=True).reachable


def test_an_unknown_group_is_named(aws: SimpleNamespace) -> None:
    with pytest.raises(Misconfigured, match="'nowhere'"):
        connect.tag_group(aws, "nowhere", "faultbridge")

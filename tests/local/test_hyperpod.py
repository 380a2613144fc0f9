"""The fake HyperPod in moto: the patched calls answer through boto3."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest

from faultbridge.local.gaps import hyperpod_clusters
from faultbridge.local.hyperpod import FakeHyperPod, Group
from faultbridge.local.servers import compute_plane

CALLS = """
import json, os
os.environ |= {name: "testing" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
import boto3
from moto import mock_aws
from faultbridge.local.gaps import hyperpod_clusters
published = []
hyperpod_clusters.publish = published.append
for gap in hyperpod_clusters.GAPS:
    gap.apply()
with mock_aws():
    sagemaker = boto3.client("sagemaker")
    group = {
        "InstanceGroupName": "gpu", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 2,
        "LifeCycleConfig": {"SourceS3Uri": "s3://b/", "OnCreate": "on_create.sh"},
        "ExecutionRole": "arn:aws:iam::000000000000:role/hp", "ThreadsPerCore": 1,
    }
    sagemaker.create_cluster(ClusterName="hp", InstanceGroups=[group], NodeRecovery="None")
    nodes = sagemaker.list_cluster_nodes(ClusterName="hp", IncludeNodeLogicalIds=True)["ClusterNodeSummaries"]
    first = nodes[0]["InstanceId"]
    answer = sagemaker.batch_replace_cluster_nodes(ClusterName="hp", NodeIds=[first, "i-0123456789abcdef0"])
    status = sagemaker.describe_cluster_node(ClusterName="hp", NodeId=first)["NodeDetails"]["InstanceStatus"]["Status"]
    try:
        sagemaker.describe_cluster(ClusterName="other")
        code = ""
    except sagemaker.exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
    recovery = sagemaker.describe_cluster(ClusterName="hp")["NodeRecovery"]
    failed = [one["ErrorCode"] for one in answer["Failed"]]
    print("FOUND" + json.dumps({
        "nodes": len(nodes), "replaced": answer["Successful"] == [first], "failed": failed, "status": status,
        "code": code, "recovery": recovery, "events": [one["Description"].split()[0] for one in published],
    }))
"""


def test_nodes_are_listed_replaced_and_described_and_a_batch_fails_in_part() -> None:
    ran = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.partition("FOUND")[2]) == {
        "nodes": 2,
        "replaced": True,
        "failed": ["InstanceIdNotFound"],
        "status": "ShuttingDown",
        "code": "ResourceNotFound",
        "recovery": "None",
        "events": ["Starting"],
    }


def call_compute_plane(route: str, body: dict[str, Any]) -> None:
    """Post to a route of the compute plane's own; raises if the answer is no success."""
    sent = json.dumps(body).encode()
    environ = {
        "PATH_INFO": f"/faultbridge/{route}",
        "REQUEST_METHOD": "POST",
        "CONTENT_LENGTH": str(len(sent)),
        "wsgi.input": BytesIO(sent),
    }
    statuses: list[str] = []
    serve = compute_plane.with_own_routes(lambda _environ, _start: [])
    list(serve(environ, lambda status, _headers: statuses.append(status)))  # type: ignore[arg-type, return-value]
    assert statuses == ["200 OK"]


def test_a_reset_of_the_compute_plane_removes_the_faults_and_settings_of_a_cluster_and_keeps_its_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeHyperPod("hp", {"gpu": Group("gpu", "ml.p5.48xlarge")}, node_recovery="None")
    node = cluster.launch("gpu")
    monkeypatch.setattr(hyperpod_clusters.SAGEMAKER, "clusters", {"hp": cluster})
    settings = {"faulty": [node.instance_id], "capacity": False, "node_recovery": "Automatic"}
    call_compute_plane("hyperpod-cluster", {"cluster": "hp", **settings})
    assert (cluster.faulty, cluster.capacity, cluster.node_recovery) == ({node.instance_id}, False, "Automatic")
    call_compute_plane("reset", {})
    assert (cluster.faulty, cluster.capacity, cluster.node_recovery) == (set(), True, "None")
    assert cluster.current() == [node]

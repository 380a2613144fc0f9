"""The fake HyperPod in moto: the patched calls answer through boto3."""

from __future__ import annotations

import json
import subprocess
import sys

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

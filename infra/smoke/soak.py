"""A day with a small fleet: 40 nodes run the agent, and CloudWatch shows what the bill of a fleet assumes.

It settles what is inferred (docs/decisions/0017-aws-under-stress.md): how many messages a batch of `ingest` has, how
many a receive returns, and what the polls of an idle queue cost. No emulator has Lambda's pollers, so this runs only on
AWS.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from faultbridge.adapters.aws.stack import stack_outputs
from infra.smoke.plan import SOAK_NODES as NODES
from infra.smoke.run import Smoke, SmokeFailed

CHECK_SECONDS = 600
WHEEL = "agent.whl"
FOLDER = "/opt/faultbridge-agent"
PERIOD = 3600
_REPORT = {"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}
HEALTH = f"[ \"$1\" = health ] && exec echo '{json.dumps(_REPORT)}'"
"""What the scripted `dcgmi` answers to the probe of the agent."""

LATE = timedelta(minutes=5)
"""The time within which CloudWatch has the metrics of a minute."""


def agent_setup(smoke: Smoke, outputs: Mapping[str, str], bucket: str) -> list[Any]:
    """Return the commands of cloud-init that install and start the agent from its wheel in the artifacts bucket.

    Amazon Linux has `aws` and the package `python3.11`; the agent needs only the standard library.
    """
    settings = {
        "CLUSTER": smoke.group,
        "QUEUE_URL": outputs["RawRecordsQueueUrl"],
        "BUCKET": outputs["RawBucketName"],
    }
    given = " ".join(f"--setenv=FAULTBRIDGE_AGENT_{name}={value}" for name, value in settings.items())
    run = f"systemd-run --unit=faultbridge-agent --property=Restart=always --property=RestartSec=10 {given}"
    return [
        ["dnf", "install", "--assumeyes", "--quiet", "python3.11"],
        ["aws", "s3", "cp", f"s3://{bucket}/{WHEEL}", f"/opt/{WHEEL}", "--region", smoke.region],
        ["python3.11", "-m", "zipfile", "-e", f"/opt/{WHEEL}", FOLDER],
        f"{run} --setenv=AWS_REGION={smoke.region} --setenv=PYTHONPATH={FOLDER} "
        "--property=StateDirectory=faultbridge/agent python3.11 -m faultbridge.node.agent",
    ]


def soak(smoke: Smoke) -> str:
    """Wait for the hours of the run while all nodes report; a silent node ends it."""
    started = datetime.now(UTC)
    smoke.found["soak_started"] = started.isoformat()
    while datetime.now(UTC) < started + timedelta(hours=smoke.hours):
        time.sleep(CHECK_SECONDS)
        silent = silent_nodes(smoke.faultbridge("node", "list", "--cluster", smoke.group))
        if silent:
            raise SmokeFailed(f"nodes without a healthy status: {', '.join(silent)}")
    return f"{smoke.hours:g} hours, {NODES} nodes"


def silent_nodes(nodes: list[Mapping[str, Any]]) -> list[str]:
    """Return the nodes that are not healthy."""
    return sorted(str(one["node"]) for one in nodes if one["status"] != "healthy")


def measure(smoke: Smoke) -> str:
    """Return what CloudWatch counted during the hours of the run."""
    outputs = stack_outputs(smoke.clients, smoke.name)
    until = datetime.now(UTC) - LATE
    since = datetime.fromisoformat(smoke.found["soak_started"])
    return json.dumps(figures(counted(smoke, outputs, since, until), (until - since) / timedelta(hours=1)))


def counted(smoke: Smoke, outputs: Mapping[str, str], since: datetime, until: datetime) -> dict[str, float]:
    """Return the sums of the metrics of the raw queue, of `ingest` and of the table."""
    queue = {"QueueName": outputs["RawRecordsQueueUrl"].rpartition("/")[2]}
    function = {"FunctionName": outputs["IngestLogGroup"].rpartition("/")[2]}
    table = {"TableName": outputs["TableName"]}
    wanted = {
        "sent": ("AWS/SQS", "NumberOfMessagesSent", queue),
        "received": ("AWS/SQS", "NumberOfMessagesReceived", queue),
        "empty receives": ("AWS/SQS", "NumberOfEmptyReceives", queue),
        "invocations": ("AWS/Lambda", "Invocations", function),
        "milliseconds": ("AWS/Lambda", "Duration", function),
        "read units": ("AWS/DynamoDB", "ConsumedReadCapacityUnits", table),
        "write units": ("AWS/DynamoDB", "ConsumedWriteCapacityUnits", table),
    }
    return {name: _sum(smoke, since, until, *metric) for name, metric in wanted.items()}


def _sum(
    smoke: Smoke, since: datetime, until: datetime, namespace: str, metric: str, dimensions: dict[str, str]
) -> float:
    answer = smoke.clients.cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName=metric,
        Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
        StartTime=since,
        EndTime=until,
        Period=PERIOD,
        Statistics=["Sum"],
    )
    return float(sum(point["Sum"] for point in answer["Datapoints"]))


def figures(sums: Mapping[str, float], hours: float) -> dict[str, float]:
    """Return what the cost of a fleet assumes: messages of a batch, and units of a node in a minute.

    `tests.bench.fleet_cost` prints the same units of its model (`by unit` in build/bench).
    """
    if not sums["invocations"] or not sums["received"]:
        raise SmokeFailed(f"no messages arrived: {dict(sums)}")
    node_minutes = NODES * hours * 60
    return {
        "messages a batch": round(sums["received"] / sums["invocations"], 2),
        "messages a node-minute": round(sums["sent"] / node_minutes, 4),
        "empty receives an hour": round(sums["empty receives"] / hours, 1),
        "milliseconds an invocation": round(sums["milliseconds"] / sums["invocations"], 1),
        "read units a node-minute": round(sums["read units"] / node_minutes, 4),
        "write units a node-minute": round(sums["write units"] / node_minutes, 4),
    }

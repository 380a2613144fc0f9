"""How long the oldest message of a queue has waited, as CloudWatch knows it; the queue itself does not tell."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients

LOOKS_BACK = timedelta(minutes=10)


def queue_age(clients: Clients, queue: str, now: datetime) -> timedelta | None:
    """Return the newest value of the metric, at most ten minutes old; None where there is none, as on an emulator."""
    with translated(f"reading the age of {queue}"):
        answer = clients.cloudwatch.get_metric_statistics(
            Namespace="AWS/SQS",
            MetricName="ApproximateAgeOfOldestMessage",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
            StartTime=now - LOOKS_BACK,
            EndTime=now,
            Period=60,
            Statistics=["Maximum"],
        )
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return timedelta(seconds=points[-1]["Maximum"]) if points else None

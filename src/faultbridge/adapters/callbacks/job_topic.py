"""Notify an SNS topic of the customer that a job may resume."""

from __future__ import annotations

from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.call_results import result_of
from faultbridge.errors import Misconfigured
from faultbridge.ports import CallResult, JobNotice

FIFO = ".fifo"


class JobTopic:
    """A JobCallback that publishes the event of each notice to an SNS topic.

    The event states that a job may resume. A FIFO topic keeps the order of the events of a cluster, and drops an event
    that is repeated within five minutes. A standard topic does neither.
    """

    def __init__(self, clients: Clients, topic: str) -> None:
        self._clients, self._topic = clients, topic

    @property
    def ordered(self) -> bool:
        """Return True: events of a cluster are published in order, so that a FIFO topic can keep the order."""
        return True

    def deliver(self, notice: JobNotice) -> CallResult:
        """Publish the event to the topic; message attributes contain the event id, the cluster and the job id.

        The result is TIMEOUT after a temporary error. The result is PERMISSION_DENIED if no topic is configured, or if
        SNS refuses the event.
        """
        return result_of(lambda: self._publish(notice))

    def _publish(self, notice: JobNotice) -> CallResult:
        if not self._topic:
            raise Misconfigured("no topic is configured; set the parameter JobTopicArn")
        names = {"event_id": notice.event_id, "cluster": notice.cluster.cluster, "job_id": notice.job_id}
        attributes: dict[str, Any] = {
            name: {"DataType": "String", "StringValue": value} for name, value in names.items()
        }
        order = {"MessageGroupId": notice.cluster.cluster, "MessageDeduplicationId": notice.event_id}
        with translated(f"publishing to {self._topic}"):
            self._clients.sns.publish(
                TopicArn=self._topic,
                Message=notice.event,
                MessageAttributes=attributes,
                **(order if self._topic.endswith(FIFO) else {}),
            )
        return CallResult(reason="the topic accepted the event")

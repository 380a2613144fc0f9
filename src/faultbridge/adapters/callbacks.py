"""Callbacks: notify the owner or the scheduler of a job that may resume, or that must save a checkpoint."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.call_results import errors_become_results
from faultbridge.adapters.http_post import post_json
from faultbridge.adapters.kubernetes.orchestrator import connections, failure_of
from faultbridge.adapters.slurm.access import HeadNode, Scontrol, SlurmOperations
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.jobs import SIGNALS
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.callbacks import JobNotice
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.table import Clock

FIFO = ".fifo"


class JobTopic:
    """A JobCallback that publishes the event of each notice to an SNS topic.

    The event states that a job may resume. A FIFO topic keeps the order of the events of a cluster, and drops an event
    that is repeated within five minutes. A standard topic does neither.
    """

    ordered = True

    def __init__(self, clients: Clients, topic: str) -> None:
        self._clients, self._topic = clients, topic

    @errors_become_results()
    def deliver(self, notice: JobNotice) -> CallResult:
        """Publish the event, with its id, its cluster and the job id as message attributes."""
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


MIN_SECRET = 16
ANY_CLUSTER = "*"


class JobWebhook:
    """A JobCallback that posts the event of each notice to the webhook of the job's cluster.

    `read_document` returns `{"CLUSTER": {"url": URL, "secret": TEXT}}`; `*` is the entry of all other clusters. The
    signature covers the time, the method and the path with its query, each followed by a newline, and then the body, as
    Faultbridge's own webhook accepts it.
    """

    ordered = True

    def __init__(self, read_document: Callable[[], bytes], clock: Clock) -> None:
        self._read_document, self._clock = read_document, clock

    @errors_become_results()
    def deliver(self, notice: JobNotice) -> CallResult:
        """Post the event; HTTP 429, 5xx and no response give TIMEOUT, any other failure PERMISSION_DENIED."""
        url, secret = self._address(notice.cluster.cluster)
        body = notice.event.encode()
        headers = self._headers(url, secret, body) | {"X-Faultbridge-Event-Id": notice.event_id}
        post_json("the webhook", url, body, page=notice.event_id, headers=headers)
        return CallResult(reason="the webhook accepted the event")

    def _headers(self, url: str, secret: str, body: bytes) -> dict[str, str]:
        parts, timestamp = urlsplit(url), str(int(self._clock.now().timestamp()))
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        signed = "".join(f"{line}\n" for line in (timestamp, "POST", path)).encode() + body
        signature = hmac.new(secret.encode(), signed, "sha256").hexdigest()
        return {"X-Faultbridge-Timestamp": timestamp, "X-Faultbridge-Signature": f"v1={signature}"}

    def _address(self, cluster: str) -> tuple[str, str]:
        try:
            document = json.loads(self._read_document())
            given = document.get(cluster) or document.get(ANY_CLUSTER)
            url, secret = (str(given["url"]), str(given["secret"])) if given else ("", "")
        except (ValueError, AttributeError, KeyError, TypeError):
            raise Misconfigured("the job callbacks cannot be read; correct the JSON in the secret") from None
        if not url:
            raise Misconfigured(f"no webhook is configured for {cluster}; add it to the secret of JobCallbacks")
        if not url.startswith(("https://", "http://127.0.0.1:")):
            raise Misconfigured(f"the webhook of {cluster} is not an https URL; correct it in the secret")
        if len(secret) < MIN_SECRET:
            raise Misconfigured(f"the webhook secret of {cluster} is shorter than {MIN_SECRET} characters; replace it")
        return url, secret


ANNOTATION = "faultbridge/resumable"
"""The value of the annotation is the id of the event, so that a repeated notice changes nothing."""

_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?"
JOB_ID = re.compile(rf"({_NAME})/({_NAME})")


CHECKPOINT = "faultbridge/checkpoint"
"""The value of the annotation is the request as JSON, which a downward-API volume shows in a file of the pod."""

JOB_NAME = "batch.kubernetes.io/job-name"


class JobAnnotation:
    """A JobCallback that only annotates Kubernetes Jobs (`batch/v1`) and their pods; the job id is `NAMESPACE/NAME`."""

    ordered = False

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    @errors_become_results(failure_of)
    def deliver(self, notice: JobNotice) -> CallResult:
        """Set `faultbridge/resumable` of the Job to the event's id; NOT_FOUND without such a Job.

        A request for a checkpoint sets `faultbridge/checkpoint` of its pods instead.
        """
        named = JOB_ID.fullmatch(notice.job_id)
        if named is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"not NAMESPACE/NAME of a Job: {notice.job_id}")
        from faultbridge.adapters.kubernetes.client import annotate_job, annotate_pods

        if notice.is_checkpoint:
            data = json.loads(notice.event)["data"]
            value = json.dumps({"id": data["checkpoint_id"], "deadline": data["deadline"]})
            pods = annotate_pods(self._connect(notice.cluster), named[1], {JOB_NAME: named[2]}, {CHECKPOINT: value})
            failure = None if pods else ProviderFailure.NOT_FOUND
            return CallResult(failure, f"{pods} pods of Job {notice.job_id} are annotated with {CHECKPOINT}")
        annotate_job(self._connect(notice.cluster), named[1], named[2], {ANNOTATION: notice.event_id})
        return CallResult(reason=f"Job {notice.job_id} is annotated with {ANNOTATION}")


SIGNAL_COMMENT = re.compile(r"faultbridge:checkpoint=(?:SIG)?([A-Z0-9]{2,6})\b")


class SlurmSignal:
    """A JobCallback that sends the steps of a Slurm job the signal that the job named, and no other job any signal.

    The job named it at its start, or with the comment `faultbridge:checkpoint=USR1`. A signal without a handler would
    end the job.
    """

    ordered = False

    def __init__(self, connect: Callable[[ClusterConfig], SlurmOperations]) -> None:
        self._connect = connect

    @errors_become_results()
    def deliver(self, notice: JobNotice) -> CallResult:
        """Signal the job; a success that changes nothing if it named no signal, or not one that a job may name."""
        if not notice.is_checkpoint or not SLURM_JOB_ID.fullmatch(notice.job_id):
            return CallResult(ProviderFailure.NOT_FOUND, f"not a job id of Slurm: {notice.job_id}")
        slurm = self._connect(notice.cluster)
        found = SIGNAL_COMMENT.search(slurm.comment(notice.job_id)) if notice.signal is None else None
        signal = found[1] if found else notice.signal
        if signal not in SIGNALS:
            return CallResult(reason=f"job {notice.job_id} named no signal and is not signaled")
        slurm.signal(notice.job_id, signal)
        return CallResult(reason=f"the steps of job {notice.job_id} were sent {signal}")


SLURM_JOB_ID = re.compile(r"[0-9]{1,10}(_[0-9]{1,10})?")
FAILED = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED"})
ENDING = frozenset({"COMPLETING", "STOPPED", "SUSPENDED"})
HELD_AFTER_FAILURE = "job_requeued_in_held_state"
"""Slurm's reason for RequeueExitHold and `requeuehold`. A job that a user holds has another reason."""


class SlurmRequeue:
    """A JobCallback that requeues failed jobs, and releases jobs that Slurm requeued and holds; no others."""

    ordered = False

    def __init__(self, connect: Callable[[ClusterConfig], HeadNode]) -> None:
        self._connect = connect

    @errors_become_results()
    def deliver(self, notice: JobNotice) -> CallResult:
        """Requeue a job that failed, timed out or was preempted; release a job held after its failure.

        The result is TIMEOUT while the job is ending or suspended, or without a usable answer, NOT_FOUND without the
        job, and PERMISSION_DENIED if Slurm does not requeue it. A job in any other state is a success, and does not
        change.
        """
        if not SLURM_JOB_ID.fullmatch(notice.job_id):
            return CallResult(ProviderFailure.NOT_FOUND, f"not a job id of Slurm: {notice.job_id}")
        return self._resume(Scontrol(self._connect(notice.cluster)), notice.job_id)

    def _resume(self, scontrol: Scontrol, job_id: str) -> CallResult:
        found = scontrol.job(job_id)
        if found is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"Slurm has no job {job_id} any longer; raise MinJobAge")
        if found.reason == HELD_AFTER_FAILURE:
            scontrol.release(job_id)
            return CallResult(reason=f"job {job_id} was held after its failure and is released")
        if found.state in ENDING:
            return CallResult(ProviderFailure.TIMEOUT, f"job {job_id} is {found.state.lower()}")
        if found.state not in FAILED:
            return CallResult(reason=f"job {job_id} is {found.state.lower()}: nothing was done")
        if not scontrol.requeue(found):
            return CallResult(ProviderFailure.PERMISSION_DENIED, f"Slurm does not requeue job {job_id}")
        return CallResult(reason=f"job {job_id} was requeued")

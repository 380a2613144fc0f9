"""The JobCallback port: the same tests for the fake, the webhook and a real Slurm; then what each does by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from botocore.exceptions import EndpointConnectionError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.callbacks import (
    ANNOTATION,
    CHECKPOINT,
    JOB_NAME,
    JobAnnotation,
    JobTopic,
    JobWebhook,
    SlurmRequeue,
)
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.ports.callbacks import JobCallback, JobNotice
from tests.architecture.project import ROOT
from tests.contracts.aws import ENDPOINT, REGION, fresh
from tests.contracts.real_slurm import RealSlurm, real_slurm
from tests.contracts.schedulers import OnEks, on_eks
from tests.job_inbox import SECRET, Inbox
from tests.sim.fakes import START, FakeJobCallback, ManualClock

CONFIG = ClusterConfig("train-a", slurm_head_node="i-0123456789abcdef0")
ON_SLURM = pytest.param("slurm-requeue", marks=pytest.mark.servers)


@dataclass
class Receiver:
    """A callback, how often a job was resumed through it, and how to make it unreachable."""

    callback: JobCallback
    job: str
    resumed: Callable[[], int]
    become_unreachable: Callable[[], None]
    config: ClusterConfig = CONFIG


def webhook(url: str, secret: str = SECRET, cluster: str = "train-a") -> JobWebhook:
    document = json.dumps({cluster: {"url": url, "secret": secret}}).encode()
    return JobWebhook(lambda: document, ManualClock(START))


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox(lambda: START) as server:
        yield server


def close(inbox: Inbox) -> None:
    inbox.status = 503


def failed_job(slurm: RealSlurm, *options: str) -> str:
    """Return a job of Slurm that has failed."""
    submitted = slurm(("sbatch", "--parsable", "--requeue", "--output=/dev/null", *options, "--wrap=exit 3"))
    job = submitted.stdout.strip()
    slurm.until(lambda: "JobState=FAILED" in slurm(("scontrol", "show", "job", job, "--oneliner")).stdout)
    return job


def restarts(slurm: RealSlurm, job: str) -> int:
    shown = slurm(("scontrol", "show", "job", job, "--oneliner")).stdout
    return int(shown.partition("Restarts=")[2].split()[0])


def unreachable(slurm: RealSlurm) -> None:
    slurm.unreachable = True


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with real_slurm() as started:
        yield started


def on_sns(clients: Clients) -> Receiver:
    """A FIFO topic with a queue, whose messages have one event each."""
    topic = clients.sns.create_topic(Name=f"{fresh('jobs')}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    attributes = {"FifoQueue": "true"}
    url = clients.sqs.create_queue(QueueName=f"{fresh('jobs')}.fifo", Attributes=attributes)["QueueUrl"]
    arn = clients.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    clients.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})

    def received() -> int:
        found = clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return len(found.get("Messages", ()))

    own = Clients(region=REGION, endpoint_url=ENDPOINT)

    def break_connection() -> None:
        own.sns.meta.events.register("before-call.sns.Publish", refuse)

    def refuse(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="sns")

    return Receiver(JobTopic(own, topic), "1", received, break_connection)


def on_kubernetes(eks: OnEks) -> Receiver:
    """A Job on the Kubernetes API of the embedded stack."""
    job: dict[str, Any] = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "llama", "namespace": "ml"}}
    eks.cluster.jobs["ml", "llama"] = job
    callback = JobAnnotation(eks.clients)
    return Receiver(
        callback,
        "ml/llama",
        lambda: len(job["metadata"].get("annotations", {})),
        eks.become_unreachable,
        eks.member.cluster,
    )


@pytest.fixture
def eks_cluster(clients: Clients) -> Iterator[OnEks]:
    with on_eks(clients) as eks:
        yield eks


@pytest.fixture(params=["fake", "webhook", ON_SLURM, "sns", "kubernetes-annotation"])
def receiver(request: pytest.FixtureRequest) -> Receiver:
    if request.param == "fake":
        fake = FakeJobCallback()
        return Receiver(fake, "1", lambda: len(fake.resumed), lambda: fake.fail_next(ProviderFailure.TIMEOUT))
    if request.param == "webhook":
        inbox: Inbox = request.getfixturevalue("inbox")
        return Receiver(webhook(inbox.url), "1", lambda: len(inbox.events), lambda: close(inbox))
    if request.param == "sns":
        return on_sns(request.getfixturevalue("clients"))
    if request.param == "kubernetes-annotation":
        return on_kubernetes(request.getfixturevalue("eks_cluster"))
    slurm: RealSlurm = request.getfixturevalue("slurm")
    slurm.clean()
    job = failed_job(slurm)
    slurm(("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=hold"))
    return Receiver(SlurmRequeue(lambda _: slurm), job, lambda: restarts(slurm, job), lambda: unreachable(slurm))


def notice(receiver: Receiver) -> JobNotice:
    return JobNotice(receiver.config, receiver.job, "e-1", '{"data": {"change": "resumable"}}')


REQUEST = '{"data": {"checkpoint_id": "ckpt-1", "deadline": "2026-02-03T12:10:00Z"}}'


def pod_of(job: str, number: int) -> dict[str, Any]:
    metadata = {"name": f"{job}-{number}", "namespace": "ml", "uid": str(number), "labels": {JOB_NAME: job}}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []}}


class TestJobCallback:
    def test_a_notice_resumes_the_job(self, receiver: Receiver) -> None:
        assert receiver.callback.deliver(notice(receiver)).ok
        assert receiver.resumed() == 1

    def test_a_repeated_notice_has_no_second_effect(self, receiver: Receiver) -> None:
        for _ in range(3):
            assert receiver.callback.deliver(notice(receiver)).ok
        assert receiver.resumed() == 1

    def test_an_unreachable_receiver_is_a_retriable_failure(self, receiver: Receiver) -> None:
        receiver.become_unreachable()
        failure = receiver.callback.deliver(notice(receiver)).failure
        assert failure is not None
        assert failure.retriable


class TestWebhook:
    @pytest.mark.parametrize(("status", "retriable"), [(429, True), (500, True), (404, False), (301, False)])
    def test_the_status_decides_whether_the_post_is_tried_again(
        self, inbox: Inbox, status: int, retriable: bool
    ) -> None:
        inbox.status = status
        result = webhook(inbox.url).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
        assert result.failure is not None
        assert result.failure.retriable is retriable

    def test_the_body_is_the_event(self, inbox: Inbox) -> None:
        assert webhook(inbox.url, cluster="*").deliver(JobNotice(CONFIG, "1", "e-1", '{"a": 1}')).ok
        assert inbox.events == {"e-1": b'{"a": 1}'}

    @pytest.mark.parametrize(
        ("url", "secret", "cluster"),
        [
            ("http://jobs.example/s3cret-part", SECRET, "train-a"),
            ("https://jobs.example/s3cret-part", "4711", "train-a"),
            ("https://jobs.example/s3cret-part", SECRET, "another"),
        ],
        ids=["no TLS", "a short secret", "another cluster"],
    )
    def test_an_incomplete_configuration_is_named_without_its_secrets(
        self, url: str, secret: str, cluster: str
    ) -> None:
        result = webhook(url, secret, cluster).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
        assert result.failure is ProviderFailure.PERMISSION_DENIED
        assert "s3cret-part" not in result.reason
        assert secret not in result.reason

    def test_the_entry_of_the_cluster_is_used_before_the_entry_of_all_clusters(self, inbox: Inbox) -> None:
        urls = {"*": "http://127.0.0.1:9/", CONFIG.cluster: inbox.url}
        document = json.dumps({name: {"url": url, "secret": SECRET} for name, url in urls.items()}).encode()
        result = JobWebhook(lambda: document, ManualClock(START)).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
        assert (result.ok, inbox.received) == (True, ["e-1"])

    @pytest.mark.parametrize("document", [b"", b"[]", b'{"train-a": {"url": "https://x"}}', b'{"train-a": 3}'])
    def test_a_damaged_document_is_final_and_named(self, document: bytes) -> None:
        result = JobWebhook(lambda: document, ManualClock(START)).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
        assert result.failure is ProviderFailure.PERMISSION_DENIED
        assert "secret" in result.reason


@pytest.mark.servers
class TestSlurmRequeue:
    @pytest.fixture
    def real(self, slurm: RealSlurm) -> RealSlurm:
        slurm.clean()
        return slurm

    def deliver(self, slurm: RealSlurm, job: str) -> tuple[ProviderFailure | None, str]:
        result = SlurmRequeue(lambda _: slurm).deliver(JobNotice(CONFIG, job, "e-1", "{}"))
        return result.failure, result.reason

    def test_a_job_that_runs_again_is_not_disturbed(self, real: RealSlurm) -> None:
        job = real.submit(600)
        real.until(lambda: real.job(job).startswith("RUNNING"))
        assert self.deliver(real, job) == (None, f"job {job} is running: nothing was done")
        assert real.job(job).startswith("RUNNING")

    def test_a_job_that_slurm_holds_after_its_failure_is_released(self, real: RealSlurm) -> None:
        job = failed_job(real)
        real(("scontrol", "requeuehold", job))
        assert self.deliver(real, job) == (None, f"job {job} was held after its failure and is released")
        assert "Priority=0 " not in real(("scontrol", "show", "job", job, "--oneliner")).stdout

    def test_a_job_that_a_user_holds_or_canceled_stays(self, real: RealSlurm) -> None:
        held = real(("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=exit 3")).stdout.strip()
        assert self.deliver(real, held) == (None, f"job {held} is pending: nothing was done")
        assert "Reason=JobHeldUser" in real(("scontrol", "show", "job", held, "--oneliner")).stdout
        real(("scancel", held))
        assert self.deliver(real, held) == (None, f"job {held} is cancelled: nothing was done")

    def test_a_job_that_does_not_allow_it_is_a_final_failure(self, real: RealSlurm) -> None:
        job = failed_job(real, "--no-requeue")
        assert self.deliver(real, job)[0] is ProviderFailure.PERMISSION_DENIED

    @pytest.mark.parametrize("job", ["999999", "88213; reboot", "ALL", "-1", "1,2"])
    def test_a_job_that_slurm_does_not_have_is_a_final_failure(self, real: RealSlurm, job: str) -> None:
        assert self.deliver(real, job)[0] is ProviderFailure.NOT_FOUND


class TestTopic:
    def test_a_topic_that_is_not_configured_or_does_not_exist_is_a_final_failure(self, clients: Clients) -> None:
        for topic in ("", "arn:aws:sns:us-east-1:123456789012:no-such-topic"):
            result = JobTopic(clients, topic).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
            assert result.failure is ProviderFailure.PERMISSION_DENIED


class TestKubernetesAnnotation:
    def test_only_the_annotation_is_set_with_the_rights_that_the_role_grants(self, eks_cluster: OnEks) -> None:
        receiver = on_kubernetes(eks_cluster)
        assert receiver.callback.deliver(notice(receiver)).ok
        assert eks_cluster.cluster.jobs["ml", "llama"]["metadata"]["annotations"] == {ANNOTATION: "e-1"}
        for number, job in enumerate(("llama", "llama", "other")):
            eks_cluster.cluster.apply_pod(pod_of(job, number))
        assert receiver.callback.deliver(replace(notice(receiver), event=REQUEST, is_checkpoint=True)).ok
        pods = eks_cluster.cluster.job_pods.values()
        request = json.dumps({"id": "ckpt-1", "deadline": "2026-02-03T12:10:00Z"})
        assert [one["metadata"].get("annotations") for one in pods] == [{CHECKPOINT: request}] * 2 + [None]
        file = ROOT / "infra" / "kubernetes" / "faultbridge-jobs-rbac.yaml"
        (role,) = (one for one in yaml.safe_load_all(file.read_text("utf-8")) if one["kind"] == "ClusterRole")
        granted = {(verb, name) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
        assert eks_cluster.cluster.permissions_used == granted

    @pytest.mark.parametrize("job", ["ml/another", "llama", "ml/../nodes", "ml/llama/status", "ML/llama"])
    def test_a_job_that_the_cluster_does_not_have_is_a_final_failure(self, eks_cluster: OnEks, job: str) -> None:
        receiver = on_kubernetes(eks_cluster)
        result = receiver.callback.deliver(JobNotice(receiver.config, job, "e-1", "{}"))
        assert result.failure is ProviderFailure.NOT_FOUND

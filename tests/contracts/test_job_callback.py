"""The JobCallback port: the same tests for the fake, the webhook and a real Slurm; then what each does by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from faultbridge.adapters.callbacks.job_webhook import JobWebhook
from faultbridge.adapters.callbacks.slurm_requeue import SlurmRequeue
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import JobCallback, JobNotice, ProviderFailure
from faultbridge.simulation.fakes import START, FakeJobCallback, ManualClock
from tests.contracts.real_slurm import RealSlurm, real_slurm
from tests.job_inbox import SECRET, Inbox

CONFIG = ClusterConfig("train-a", slurm_head_node="i-0123456789abcdef0")


@dataclass
class Receiver:
    """A callback, how often a job was resumed through it, and how to make it unreachable."""

    callback: JobCallback
    job: str
    resumed: Callable[[], int]
    become_unreachable: Callable[[], None]


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


@pytest.fixture(params=["fake", "webhook", "slurm-requeue"])
def receiver(request: pytest.FixtureRequest) -> Receiver:
    if request.param == "fake":
        fake = FakeJobCallback()
        return Receiver(fake, "1", lambda: len(fake.resumed), lambda: fake.fail_next(ProviderFailure.TIMEOUT))
    if request.param == "webhook":
        inbox: Inbox = request.getfixturevalue("inbox")
        return Receiver(webhook(inbox.url), "1", lambda: len(inbox.events), lambda: close(inbox))
    slurm: RealSlurm = request.getfixturevalue("slurm")
    slurm.clean()
    job = failed_job(slurm)
    slurm(("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=hold"))
    return Receiver(SlurmRequeue(lambda _: slurm), job, lambda: restarts(slurm, job), lambda: unreachable(slurm))


def notice(receiver: Receiver) -> JobNotice:
    return JobNotice(CONFIG, receiver.job, "e-1", '{"data": {"change": "resumable"}}')


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

    @pytest.mark.parametrize("document", [b"", b"[]", b'{"train-a": {"url": "https://x"}}', b'{"train-a": 3}'])
    def test_a_damaged_document_is_final_and_named(self, document: bytes) -> None:
        result = JobWebhook(lambda: document, ManualClock(START)).deliver(JobNotice(CONFIG, "1", "e-1", "{}"))
        assert result.failure is ProviderFailure.PERMISSION_DENIED
        assert "secret" in result.reason


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

"""Real slurmrestds: the oldest version of the API that is known, 22.05, which only reads, and a newer Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.adapters.slurm.rest import Access, RestClient, SlurmRest
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import FaultbridgeError, Misconfigured
from faultbridge.record.ports.orchestrator import ClusterNode
from tests.contracts.real_slurm import NEWER, RealSlurm, real_slurm
from tests.contracts.schedulers import operations, rest_client
from tests.sim.fakes import START, ManualClock

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def old() -> Iterator[RealSlurm]:
    with real_slurm(rest=True) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def newer() -> Iterator[RealSlurm]:
    with real_slurm(NEWER, rest=True) as slurm:
        yield slurm


@pytest.fixture(params=["old", "newer"])
def slurm(request: pytest.FixtureRequest) -> RealSlurm:
    started: RealSlurm = request.getfixturevalue(request.param)
    started.clean()
    return started


def test_the_newest_version_that_has_run_and_is_offered_is_used(old: RealSlurm, newer: RealSlurm) -> None:
    assert rest_client(old).negotiated() == 38
    assert rest_client(newer).negotiated() == 42


def test_a_node_is_found_by_its_name_and_another_name_is_none(slurm: RealSlurm) -> None:
    found = operations(slurm).node("n2")
    assert found is not None
    assert (found.name, found.state.upper(), found.reason) == ("n2", "IDLE", "")
    assert operations(slurm).node("n9") is None


def test_a_drain_by_an_operator_is_read_with_its_reason(slurm: RealSlurm) -> None:
    slurm(("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=bad fan, ticket 7"))
    found = operations(slurm).node("n2")
    assert found is not None
    assert "DRAIN" in found.state
    assert found.reason == "bad fan, ticket 7"


def test_only_jobs_that_hold_the_node_are_its_jobs(slurm: RealSlurm) -> None:
    ended, running = slurm.submit(600, "n1"), slurm.submit(600, "n2")
    slurm.until(lambda: (slurm.job(ended), slurm.job(running)) == ("RUNNING n1", "RUNNING n2"))
    slurm.submit(600, "n2")  # waits for the node
    slurm(("scancel", ended))
    slurm.until(lambda: "n1" not in slurm(("squeue", "--noheader", "--format=%N")).stdout)
    assert [job.id for job in operations(slurm).jobs("n2")] == [running]
    assert operations(slurm).jobs("n1") == ()


def test_a_running_array_task_is_a_job_of_the_node(slurm: RealSlurm) -> None:
    answer = slurm(("sbatch", "--parsable", "--array=3,5", "--nodelist=n1", "--output=/dev/null", "--wrap=sleep 600"))
    array = answer.stdout.strip()
    slurm.until(lambda: f"{array}_3 R" in slurm(("squeue", "--noheader", "--array", "--format=%i %t")).stdout)
    assert [job.id for job in operations(slurm).jobs("n1")] == [f"{array}_3"]


def test_a_version_that_cannot_change_a_node_is_an_error_for_an_operator(old: RealSlurm) -> None:
    old.clean()
    orchestrator = SlurmOrchestrator(lambda _: operations(old), ManualClock(START))
    result = orchestrator.cordon(ClusterNode(ClusterConfig("train-a", orchestrator="slurm"), "n1", "i-1"))
    assert result.failure is ProviderFailure.PERMISSION_DENIED
    assert "v0.0.38, which cannot change a node" in result.reason
    assert "DRAIN" not in old(("scontrol", "show", "node", "n1")).stdout


@pytest.mark.parametrize("token", ["garbage", "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.c2ln"])
def test_a_token_that_slurm_refuses_is_an_error_without_the_token(slurm: RealSlurm, token: str) -> None:
    """Slurm 22.05 gives no reason."""
    rest = SlurmRest(RestClient(lambda: Access(slurm.rest, "root", token)))
    with pytest.raises(FaultbridgeError) as raised:
        rest.node("n1")
    assert token not in str(raised.value)
    assert not slurm.root or "does not accept the token" in str(raised.value)


def test_a_token_that_was_renewed_in_the_secret_is_used(slurm: RealSlurm) -> None:
    tokens = iter(["expired", slurm.token()])
    client = RestClient(lambda: Access(slurm.rest, "root", next(tokens)))
    found = SlurmRest(client).node("n1")
    assert found is not None


def test_a_user_without_the_right_cannot_drain(newer: RealSlurm) -> None:
    newer.clean()
    token = newer(("scontrol", "token", "username=daemon", "lifespan=600")).stdout.strip().removeprefix("SLURM_JWT=")
    rest = SlurmRest(RestClient(lambda: Access(newer.rest, "daemon", token)))
    with pytest.raises(Misconfigured, match="draining n1"):
        rest.drain("n1", "faultbridge i-1")

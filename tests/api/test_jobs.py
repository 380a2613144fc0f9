"""Jobs over HTTP: those that run or wait for their nodes, and one by its id, each within one cluster."""

from __future__ import annotations

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeKey
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.wiring.services import wire_job_impact, wire_jobs, wire_registration
from infra.docs.api_models import models
from tests.api.gateway import Gateway
from tests.world import World

C = "/clusters/train-a"


@pytest.fixture
def gateway() -> Gateway:
    """Return a cluster with a job that failed when its node lost a GPU, and one that succeeded."""
    made = Gateway(World(nodes=("n-1", "n-2")))
    world, jobs = made.world, wire_jobs(made.world.app)
    wire_registration(world.app).add_cluster(ClusterConfig("secret-b"))
    jobs.start("train-a", "88213", ["n-1", "n-2"], name="llm")
    jobs.start("train-a", "88214", ["n-2"])
    jobs.end("train-a", "88214", outcome="succeeded")
    wire_ingest(world.app).ingest([world.message(node="n-1")])
    wire_job_impact(world.app).record(NodeKey("train-a", "n-1"))
    jobs.end("train-a", "88213", outcome="failed")
    return made


def test_the_jobs_that_run_or_wait_are_listed_with_their_affected_nodes(gateway: Gateway) -> None:
    answer = gateway.get(f"{C}/jobs")
    models()["Jobs"].model_validate_json(answer.text)
    (listed,) = answer.json["items"]
    assert (listed["job_id"], listed["state"], listed["affected_nodes"]) == ("88213", "waiting", ["n-1"])


def test_a_job_is_shown_by_its_id_also_after_it_ended(gateway: Gateway) -> None:
    answer = gateway.get(f"{C}/jobs/88214")
    models()["Job"].model_validate_json(answer.text)
    assert (answer.json["outcome"], answer.json["state"]) == ("succeeded", "ended")


@pytest.mark.parametrize("path", [f"{C}/jobs/none", "/clusters/secret-b/jobs/88213", "/clusters/none/jobs"])
def test_an_unknown_job_or_cluster_is_not_found(gateway: Gateway, path: str) -> None:
    assert gateway.get(path).status == 404


ODD = "ml/llm", "50%", "a%2Fb", "x+y&z=1?#", "80 %"


@pytest.mark.parametrize("job_id", ODD)
def test_a_job_with_any_printable_id_is_shown_by_the_parameter(gateway: Gateway, job_id: str) -> None:
    wire_jobs(gateway.world.app).start("train-a", job_id, ["n-2"])
    answer = gateway.get(f"{C}/jobs", id=job_id)
    models()["Jobs"].model_validate_json(answer.text)
    assert ([one["job_id"] for one in answer.json["items"]], answer.json["next"]) == ([job_id], None)


def test_a_job_that_ended_is_shown_by_the_parameter_and_an_unknown_one_is_not_found(gateway: Gateway) -> None:
    assert gateway.get(f"{C}/jobs", id="88214").json["items"][0]["state"] == "ended"
    answer = gateway.get(f"{C}/jobs", id="ml/none")
    assert (answer.status, answer.json["type"]) == (404, "urn:faultbridge:unknown_job")
    assert gateway.get("/clusters/secret-b/jobs", id="88213").status == 404


def test_more_jobs_than_a_page_are_listed_page_by_page(gateway: Gateway) -> None:
    ids = sorted(["88213", *(f"ml/job-{number}" for number in range(6))])
    for job_id in ids[1:]:
        wire_jobs(gateway.world.app).start("train-a", job_id, ["n-2"])
    found, token = [], None
    while True:
        page = gateway.get(f"{C}/jobs", limit=3, **({"token": token} if token else {})).json
        found.append([one["job_id"] for one in page["items"]])
        token = page["next"]
        if token is None:
            break
    assert found == [ids[:3], ids[3:6], ids[6:]]


def test_a_page_token_of_jobs_is_of_no_use_for_nodes_or_another_cluster(gateway: Gateway) -> None:
    wire_jobs(gateway.world.app).start("train-a", "88215", ["n-2"])
    token = gateway.get(f"{C}/jobs", limit=1).json["next"]
    for path in (f"{C}/nodes", "/clusters/secret-b/jobs"):
        assert gateway.get(path, token=token).json["type"] == "urn:faultbridge:bad_token"


def test_a_token_of_another_cluster_sees_no_job(gateway: Gateway) -> None:
    for path in (f"{C}/jobs", f"{C}/jobs/88213"):
        assert gateway.get(path, clusters=("secret-b",)).status == 403

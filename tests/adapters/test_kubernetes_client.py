"""Calls to the Kubernetes API of an EKS cluster over HTTP."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from lightkube import Client
from lightkube.resources.core_v1 import Node

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes import client
from faultbridge.adapters.kubernetes.client import (
    PAGE,
    ApiAccess,
    ApiRejection,
    InternalFailure,
    Kubernetes,
    ReadTimedOut,
    eks_access,
)
from faultbridge.adapters.kubernetes.orchestrator import EksNodeListing, connections
from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.errors import Misconfigured, Transient
from tests.adapters.stubs import ENVIRONMENT, stubbed


class Api:
    """HTTP server (fake) that returns the responses of a test and records the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, str | None, bytes]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.asked.append((self.command, self.path, self.headers["authorization"], body))
                status, document = outer.answers.pop(0)
                data = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "text/html" if isinstance(document, bytes) else "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = _any  # noqa: N815 - names of the standard library

            def log_message(self, *_: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


@pytest.fixture
def tokens() -> list[str]:
    return []


@pytest.fixture
def kubernetes(api: Api, tokens: list[str]) -> Kubernetes:
    def access() -> ApiAccess:
        tokens.append(f"token-{len(tokens) + 1}")
        return ApiAccess(api.url, None, tokens[-1])

    return Kubernetes(access, monotonic=lambda: float(len(api.asked)))


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"providerID": f"aws:///us-east-1a/i-{name}"}}


def read_node(client: Client) -> Node:
    return client.get(Node, "a")


def test_all_pages_of_nodes_are_listed(api: Api, kubernetes: Kubernetes) -> None:
    first = {"items": [node("a"), node("b")], "metadata": {"continue": "there+is more"}}
    api.answers = [(200, first), (200, {"metadata": {}, "items": [node("c")]})]
    found = list(kubernetes.nodes({"a": "b"}))
    assert [one.spec.providerID for one in found if one.spec] == [f"aws:///us-east-1a/i-{name}" for name in "abc"]
    asked = [parse_qs(urlsplit(path).query) for _, path, _, _ in api.asked]
    assert asked[0] == {"labelSelector": ["a=b"], "limit": [str(PAGE)]}
    assert asked[1]["continue"] == ["there+is more"]


def test_an_expired_token_is_renewed_once(api: Api, kubernetes: Kubernetes, tokens: list[str]) -> None:
    api.answers = [(401, {"message": "Unauthorized", "code": 401}), (200, node("a"))]
    assert kubernetes.call("reading node a", read_node).spec is not None
    assert [authorization for _, _, authorization, _ in api.asked] == ["Bearer token-1", "Bearer token-2"]
    api.answers = [(401, {"message": "Unauthorized", "code": 401})] * 2
    with pytest.raises(Misconfigured, match="reading node a: Unauthorized"):
        kubernetes.call("reading node a", read_node)


def test_a_token_is_renewed_before_it_expires(api: Api, tokens: list[str]) -> None:
    now = [0.0]

    def access() -> ApiAccess:
        tokens.append(f"token-{len(tokens) + 1}")
        return ApiAccess(api.url, None, tokens[-1])

    kubernetes = Kubernetes(access, monotonic=lambda: now[0])
    api.answers = [(200, node("a"))] * 3
    for at in (0.0, 599.0, 601.0):
        now[0] = at
        kubernetes.call("reading node a", read_node)
    assert len(tokens) == 2


@pytest.mark.parametrize(("status", "reason"), [(404, ""), (409, ""), (422, ""), (429, "DisruptionBudget")])
def test_a_rejected_request_keeps_its_http_status(api: Api, kubernetes: Kubernetes, status: int, reason: str) -> None:
    words = "Cannot evict pod as it would violate the pod's disruption budget."
    details = {"causes": [{"reason": reason, "message": "needs 2 healthy pods"}]}
    api.answers = [(status, {"message": words, "code": status, "details": details})]
    with pytest.raises(ApiRejection, match="disruption budget") as rejection:
        kubernetes.call("reading node a", read_node)
    assert rejection.value.status == status


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, {"message": 'nodes is forbidden: User "x" cannot list', "code": 403}), Misconfigured),
        ((503, {"message": "etcd is unavailable", "code": 503}), Transient),
        ((500, {"message": "failed calling webhook", "code": 500}), InternalFailure),
        ((429, {"message": "too many requests, please try again later", "code": 429}), Transient),
        ((410, {"message": "the continue parameter is too old", "code": 410}), Transient),
        ((502, b"<html>"), Transient),
        ((200, b"<html>"), Transient),
    ],
)
def test_a_missing_permission_is_misconfigured_and_an_outage_is_transient(
    api: Api, kubernetes: Kubernetes, answer: tuple[int, Any], error: type[Exception]
) -> None:
    api.answers = [answer]
    with pytest.raises(error):
        kubernetes.call("reading node a", read_node)


def test_a_response_that_does_not_arrive_in_time_is_not_an_unreachable_api(
    kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_late(*_: object, **__: object) -> Node:
        raise httpx2.ReadTimeout("timed out")

    monkeypatch.setattr(Client, "get", get_late)
    with pytest.raises(ReadTimedOut, match="no response within 15 seconds"):
        kubernetes.call("reading node a", read_node)


def test_an_unreachable_api_is_transient(api: Api, kubernetes: Kubernetes) -> None:
    api.close()
    with pytest.raises(Transient, match="no complete response"):
        kubernetes.call("reading node a", read_node)


def test_an_incomplete_list_is_no_empty_list(api: Api, kubernetes: Kubernetes) -> None:
    api.answers = [(200, b'{"items": [')]
    with pytest.raises(Transient, match="listing pods: no complete response"):
        list(kubernetes.documents("listing pods", "/api/v1/pods"))


@pytest.mark.parametrize("endpoint", ["http://kubernetes.example.com", "", "ftp://127.0.0.1"])
def test_no_token_is_sent_to_an_unencrypted_endpoint(endpoint: str) -> None:
    kubernetes = Kubernetes(lambda: ApiAccess(endpoint, None, "token"))
    with pytest.raises(Misconfigured, match="invalid endpoint"):
        kubernetes.call("reading node a", read_node)


def test_the_token_is_a_presigned_get_caller_identity_request_for_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with stubbed("eks") as (clients, stub):
        authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
        found = {"endpoint": "https://a.eks.amazonaws.com", "certificateAuthority": {"data": authority}}
        stub.add_response("describe_cluster", {"cluster": found}, {"name": "train"})
        access = eks_access(clients, "train")
    assert (access.endpoint, access.authority) == ("https://a.eks.amazonaws.com", authority)
    prefix, _, packed = access.token.rpartition(".")
    url = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    asked = parse_qs(urlsplit(url).query)
    assert prefix == "k8s-aws-v1"
    assert urlsplit(url).netloc == "sts.us-east-1.amazonaws.com"
    assert asked["Action"] == ["GetCallerIdentity"]
    assert asked["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert isinstance(clients, Clients)


def test_clusters_of_one_name_in_two_accounts_have_clients_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "eks", lambda clients, cluster: (clients, cluster))
    clients = Clients()
    connect = connections(clients)
    role = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")
    own, others = (ClusterConfig("c", eks_cluster="train", provider_role=one) for one in (None, role))
    assert connect(own) == (clients, "train")
    assert connect(others) == (clients.for_role(role), "train")
    assert connect(others) is connect(others)


def described(name: str, provider: str | None, **labels: str) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": f"{name}.host"}]
    return {
        "metadata": {"name": name, "labels": {key.replace("__", "/"): value for key, value in labels.items()}},
        "spec": {"providerID": provider} if provider else {},
        "status": {"addresses": addresses},
    }


def test_nodes_are_listed_by_the_instance_they_run_on(
    api: Api, kubernetes: Kubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {
        "topology.kubernetes.io__zone": "us-west-2a",
        "topology.k8s.aws__network-node-layer-1": "nn-top",
        "topology.k8s.aws__network-node-layer-3": "nn-bottom",
        "faultbridge__opt-out": "true",
    }
    first, second = "i-0aaaaaaaaaaaaaaa1", "i-0aaaaaaaaaaaaaaa2"
    nodes = [
        described("ip-10-0-0-7.us-west-2.compute.internal", f"aws:///us-west-2a/{first}", **labels),
        described(f"hyperpod-{second}", None),
        described("fargate-ip-10-0-0-9", "aws:///us-west-2a/8f3d-fargate"),
    ]
    api.answers = [(200, {"items": nodes})]
    listing = EksNodeListing(Clients())
    monkeypatch.setattr(client, "eks", lambda *_: kubernetes)
    found = listing.list_instances(ClusterConfig("train-a", eks_cluster="train"))
    assert set(found) == {first, second}
    assert found[first].names == (
        "ip-10-0-0-7.us-west-2.compute.internal",
        "ip-10-0-0-7.us-west-2.compute.internal.host",
    )
    assert found[first].domains == {"zone": "us-west-2a", "network_node": "nn-bottom", "network_node_2": "nn-top"}
    assert (found[first].opted_out, found[second].opted_out) == (True, False)
    assert found[first].opt_out_node == "ip-10-0-0-7.us-west-2.compute.internal"
    assert listing.list_instances(ClusterConfig("train-b")) == {}


@pytest.mark.parametrize(
    ("ours", "before", "cordoned"), [(False, False, True), (True, False, False), (True, True, True)]
)
def test_a_listed_node_is_cordoned_if_others_than_faultbridge_cordoned_it(
    api, kubernetes, monkeypatch, ours: bool, before: bool, cordoned: bool
):
    instance = "i-0aaaaaaaaaaaaaaa1"
    node = described(
        "ip-10-0-0-7", f"aws:///us-west-2a/{instance}", **({"faultbridge__isolated": "true"} if ours else {})
    )
    node["spec"]["unschedulable"] = True
    node["metadata"]["annotations"] = {"faultbridge/cordoned-before": "true"} if before else {}
    api.answers = [(200, {"items": [node]})]
    monkeypatch.setattr(client, "eks", lambda *_: kubernetes)
    found = EksNodeListing(Clients()).list_instances(ClusterConfig("train-a", eks_cluster="train"))
    assert found[instance].cordoned is cordoned

"""The Kubernetes API of an EKS cluster, called over HTTP."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.kubernetes.client import PAGE, Access, Kubernetes, eks_access
from faultbridge.errors import Misconfigured, Transient
from tests.adapters.stubs import ENVIRONMENT, stubbed


class Api:
    """Answers (fake) over HTTP with what a test put there, and keeps what was asked."""

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
    def access() -> Access:
        tokens.append(f"token-{len(tokens) + 1}")
        return Access(api.url, None, tokens[-1])

    return Kubernetes(access, monotonic=lambda: float(len(api.asked)))


def test_a_list_is_read_page_by_page(api: Api, kubernetes: Kubernetes) -> None:
    first = {"items": [{"n": 1}, {"n": 2}], "metadata": {"continue": "there+is more"}}
    api.answers = [(200, first), (200, {"items": [{"n": 3}]})]
    assert [one["n"] for one in kubernetes.items("/api/v1/nodes", {"labelSelector": "a=b"})] == [1, 2, 3]
    asked = [parse_qs(urlsplit(path).query) for _, path, _, _ in api.asked]
    assert asked[0] == {"labelSelector": ["a=b"], "limit": [str(PAGE)]}
    assert asked[1]["continue"] == ["there+is more"]


def test_a_token_that_ran_out_is_made_anew_once(api: Api, kubernetes: Kubernetes, tokens: list[str]) -> None:
    api.answers = [(401, {"message": "Unauthorized"}), (200, {"kind": "Node"})]
    assert kubernetes.call("GET", "/api/v1/nodes/a").document == {"kind": "Node"}
    assert [authorization for _, _, authorization, _ in api.asked] == ["Bearer token-1", "Bearer token-2"]
    api.answers = [(401, {}), (401, {"message": "Unauthorized"})]
    with pytest.raises(Misconfigured, match="refuses GET /api/v1/nodes/a: Unauthorized"):
        kubernetes.call("GET", "/api/v1/nodes/a")


def test_what_the_api_does_not_do_is_for_the_caller_to_judge(api: Api, kubernetes: Kubernetes) -> None:
    api.answers = [(429, {"message": "Cannot evict pod as it would violate the pod's disruption budget."})]
    reply = kubernetes.call("POST", "/api/v1/namespaces/a/pods/b/eviction", body={"kind": "Eviction"})
    assert (reply.ok, reply.status) == (False, 429)
    assert "disruption budget" in reply.message
    assert json.loads(api.asked[0][3]) == {"kind": "Eviction"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, {"message": 'nodes is forbidden: User "x" cannot list'}), Misconfigured),
        ((503, {"message": "etcd is ill"}), Transient),
        ((200, b"<html>"), Transient),
    ],
)
def test_a_refusal_and_an_outage_are_told_apart(
    api: Api, kubernetes: Kubernetes, answer: tuple[int, Any], error: type[Exception]
) -> None:
    api.answers = [answer]
    with pytest.raises(error):
        kubernetes.call("GET", "/api/v1/nodes")


def test_an_api_that_is_not_there_may_come_back(api: Api, kubernetes: Kubernetes) -> None:
    api.close()
    with pytest.raises(Transient, match="does not answer"):
        kubernetes.call("GET", "/api/v1/nodes")


def test_nobody_is_given_a_token_over_a_line_that_all_can_read() -> None:
    kubernetes = Kubernetes(lambda: Access("http://kubernetes.example.com", None, "token"))
    with pytest.raises(Misconfigured, match="no address"):
        kubernetes.call("GET", "/api/v1/nodes")


def test_the_token_is_a_signed_question_who_we_are_bound_to_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with stubbed("eks") as (clients, stub):
        authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
        found = {"endpoint": "https://a.eks.amazonaws.com", "certificateAuthority": {"data": authority}}
        stub.add_response("describe_cluster", {"cluster": found}, {"name": "train"})
        access = eks_access(clients, "train")
    assert (access.endpoint, access.authority) == ("https://a.eks.amazonaws.com", "-----BEGIN CERTIFICATE-----")
    prefix, _, packed = access.token.rpartition(".")
    url = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    asked = parse_qs(urlsplit(url).query)
    assert prefix == "k8s-aws-v1"
    assert urlsplit(url).netloc == "sts.us-east-1.amazonaws.com"
    assert asked["Action"] == ["GetCallerIdentity"]
    assert asked["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert isinstance(clients, Clients)

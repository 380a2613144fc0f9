"""slurmrestd: hostile and broken answers, limits, TLS, the secret with the tokens, and the choice of the way."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from faultbridge.adapters.http_post import Limits
from faultbridge.adapters.slurm.access import Scontrol, access_of, connections
from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.adapters.slurm.rest import Access, Answer, RestClient, SlurmJob, SlurmRest, send
from faultbridge.cli.errors import failure_of
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode
from tests.adapters.certificates import certificate
from tests.adapters.listener import drip, listening, reply
from tests.adapters.stubs import stubbed
from tests.sim.fakes import ManualClock

URL = "https://slurm.example:6820"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.c2ln"
SOON = Limits(connect=2, total=0.5, body=4096)
PATHS = {f"/slurm/v0.0.{number}/node/{{node_name}}": {} for number in (40, 41, 42)}
NODE = {"name": "n1", "state": ["IDLE"], "reason": ""}


def answer(status: int = 200, **document: Any) -> Answer:
    return Answer(status, json.dumps({"errors": [], "warnings": [], **document}).encode())


def error(number: int, text: str = "text", status: int = 500, **document: Any) -> Answer:
    return answer(status, errors=[{"description": "Failure", "error_number": number, "error": text}], **document)


DESCRIBED = answer(paths=PATHS)


@dataclass
class Server:
    """A slurmrestd that returns fixed answers and records its requests."""

    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str, bytes | None]] = field(default_factory=list)

    def __call__(self, access: Access, method: str, path: str, body: bytes | None = None) -> Answer:
        self.requests.append((method, path, body))
        given = {"/openapi/v3": DESCRIBED, "/slurm/v0.0.42/nodes": answer(nodes=[NODE]), **self.answers}
        return given.get(path, answer(404))

    @property
    def changes(self) -> list[str]:
        return [path for method, path, _ in self.requests if method == "POST"]


def rest(**answers: Answer) -> tuple[SlurmRest, Server]:
    server = Server({f"/slurm/v0.0.42/{path.replace('__', '/')}": one for path, one in answers.items()})
    return SlurmRest(RestClient(lambda: Access(URL, "root", TOKEN), server)), server


def member() -> ClusterNode:
    return ClusterNode(ClusterConfig("train-a", orchestrator="slurm", slurm_rest=URL), "n1", "i-1")


HOSTILE = {
    "no controller": error(1800, "Unable to contact slurm controller (connect failure)", 502),
    "an error beside a node": answer(nodes=[NODE], errors=[{"error_number": 5, "error": "x"}]),
    "another node": answer(nodes=[{**NODE, "name": "n2"}]),
    "two nodes": answer(nodes=[NODE, {**NODE, "name": "n2"}]),
    "twice": answer(nodes=[NODE, NODE]),
    "no node, but the list has it": answer(nodes=[]),
    "no state": answer(nodes=[{"name": "n1"}]),
    "no list of nodes": answer(nodes={"n1": NODE}),
    "errors that are no list": answer(errors={}),
    "not an object": Answer(200, b"[]"),
    "not JSON": Answer(200, b"<html>maintenance</html>"),
    "nothing": Answer(200, b""),
    "deep": Answer(200, b"[" * 100_000),
    "truncated": Answer(200, b'{"nodes": [{"name": "n1", "state": ["IDLE"]'),
    "not UTF-8": Answer(200, b'{"nodes": "\xff\xfe"}'),
    "a redirect": Answer(302, b""),
    "busy": Answer(429, b"{}"),
    "another API": Answer(404, b""),
}


@pytest.mark.parametrize("found", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_look_up_without_a_usable_answer_is_unknown_and_changes_nothing(found: Answer) -> None:
    client, server = rest(node__n1=found)
    orchestrator = SlurmOrchestrator(lambda _: client, ManualClock())
    for result in (orchestrator.cordon(member()), orchestrator.uncordon(member())):
        assert (result.failure, result.no_response) == (ProviderFailure.TIMEOUT, True)
    assert orchestrator.drain(member(), ManualClock().now()).no_response
    assert server.changes == []


ABSENT = {"22.05": error(2018, "Invalid node name specified"), "24.11": error(0, "No error", 200)}


@pytest.mark.parametrize("found", ABSENT.values(), ids=ABSENT.keys())
def test_a_node_is_absent_only_if_the_list_of_all_nodes_lacks_it(found: Answer) -> None:
    assert rest(node__n1=found, nodes=answer(nodes=[{**NODE, "name": "n2"}]))[0].node("n1") is None
    lists = {"has it": answer(nodes=[NODE]), "empty": answer(nodes=[]), "broken": answer(nodes=[{"name": 5}])}
    for listed in (*lists.values(), error(1800), Answer(200, b"{}")):
        with pytest.raises(Transient):
            rest(node__n1=found, nodes=listed)[0].node("n1")


@pytest.mark.parametrize(
    "jobs",
    [
        error(1800, "no controller", 502, jobs=[]),
        answer(jobs=None),
        answer(jobs=[5]),
        answer(jobs=[{"job_id": 1, "nodes": "n1"}]),
        answer(jobs=[{"job_id": 1, "nodes": "n1", "job_state": ["RUNNING", 5]}]),
        answer(jobs=[{"job_id": 1, "nodes": ["n1"], "job_state": ["RUNNING"]}]),
        answer(jobs=[{"job_id": 1, "nodes": "n[1-", "job_state": ["RUNNING"]}]),
        answer(jobs=[{"job_id": 1, "nodes": "n[1-999999999]", "job_state": ["RUNNING"]}]),
        Answer(200, b"{}"),
    ],
    ids=["error", "none", "a number", "no state", "bad state", "bad nodes", "cut list", "huge list", "empty"],
)
def test_a_list_of_jobs_that_cannot_be_read_is_not_an_empty_one(jobs: Answer) -> None:
    with pytest.raises(Transient):
        rest(jobs=jobs)[0].jobs("n1")


@pytest.mark.parametrize(
    ("state", "holds"),
    [
        (["RUNNING"], True),
        ("RUNNING", True),
        (["SUSPENDED"], True),
        (["RUNNING", "CONFIGURING"], True),
        (["COMPLETED", "COMPLETING"], True),
        ("COMPLETING", True),
        (["A_STATE_OF_TOMORROW"], True),
        (["COMPLETED"], False),
        (["PENDING"], False),
        (["NODE_FAIL"], False),
    ],
)
def test_a_job_holds_its_node_until_it_has_completed(state: Any, holds: bool) -> None:
    row = {"job_id": 7, "nodes": "n[1-3],m1", "job_state": state}
    assert bool(rest(jobs=answer(jobs=[row]))[0].jobs("n2")) is holds
    assert rest(jobs=answer(jobs=[row]))[0].jobs("n4") == ()


def test_a_job_of_an_older_version_has_plain_numbers() -> None:
    row = {"job_id": 9, "array_job_id": 8, "array_task_id": 3, "nodes": "n1", "job_state": "RUNNING"}
    assert rest(jobs=answer(jobs=[row]))[0].jobs("n1") == (SlurmJob("8_3", "RUNNING"),)


def test_a_drain_sends_the_reason_and_a_refusal_is_not_retried() -> None:
    client, server = rest(node__n1=answer())
    client.drain("n1", 'faultbridge i-1 case "7"')
    method, path, body = server.requests[-1]
    assert (method, path) == ("POST", "/slurm/v0.0.42/node/n1")
    assert json.loads(body or b"") == {"state": ["DRAIN"], "reason": 'faultbridge i-1 case "7"'}
    with pytest.raises(Misconfigured, match="Invalid user id"):
        rest(node__n1=error(2010, "Invalid user id"))[0].drain("n1", "x")
    with pytest.raises(Transient):
        rest(node__n1=error(2028, "Invalid node state specified"))[0].resume("n1")


def offer(*versions: int) -> Answer:
    return answer(paths={f"/slurm/v0.0.{number}/node/{{node_name}}": {} for number in versions})


@pytest.mark.parametrize(
    ("described", "outcome"),
    [
        (offer(38), 38),
        (offer(42, 40, 41), 42),
        (offer(41, 42, 43, 44), 42),
        (offer(43, 44, 45), 44),
        (Answer(200, b'{"paths": {"\\/slurm\\/v0.0.38\\/node\\/{node_name}": 1}}'), 38),
        (offer(45, 46), Misconfigured),
        (Answer(401, b"Authentication failure"), Misconfigured),
        (Answer(200, b"<html>"), Transient),
        (Answer(503, DESCRIBED.body), Transient),
    ],
)
def test_a_version_newer_than_those_that_have_run_is_used_only_where_none_of_these_is_offered(
    described: Answer, outcome: Any
) -> None:
    client = RestClient(lambda: Access(URL, "root", TOKEN), Server({"/openapi/v3": described}))
    if isinstance(outcome, int):
        assert client.negotiated() == outcome
        return
    with pytest.raises(outcome):
        client.negotiated()


def test_an_upgraded_slurmrestd_is_asked_for_its_versions_again() -> None:
    server = Server({"/openapi/v3": offer(39), "/slurm/v0.0.42/node/n1": answer(nodes=[NODE])})
    client = RestClient(lambda: Access(URL, "root", TOKEN), server)
    assert client.negotiated() == 39
    server.answers["/openapi/v3"] = DESCRIBED
    with pytest.raises(Transient):
        SlurmRest(client).node("n1")
    assert SlurmRest(client).node("n1") is not None


def test_requeuing_needs_the_head_node() -> None:
    with pytest.raises(Misconfigured, match="--slurm-head-node"):
        rest()[0].requeue(SlurmJob("7", "RUNNING"))
    requeued: list[SlurmJob] = []

    def requeue(job: SlurmJob) -> bool:
        requeued.append(job)
        return True

    assert SlurmRest(RestClient(lambda: Access(URL, "root", TOKEN)), requeue).requeue(SlurmJob("7", "RUNNING"))
    assert requeued == [SlurmJob("7", "RUNNING")]


class TestSecret:
    def document(self, **entry: Any) -> bytes:
        return json.dumps({URL: {"user": "root", "token": TOKEN, **entry}}).encode()

    def test_a_token_goes_only_to_the_address_that_the_secret_names(self) -> None:
        assert access_of(self.document(), URL) == Access(URL, "root", TOKEN)
        with pytest.raises(Misconfigured, match="no token is configured"):
            access_of(self.document(), "https://other.example:6820")

    @pytest.mark.parametrize(
        "document",
        [
            b"",
            b"[]",
            TOKEN.encode(),
            json.dumps({URL: TOKEN}).encode(),
            json.dumps({URL: {"token": TOKEN}}).encode(),
            json.dumps({URL: {"user": "a b", "token": TOKEN}}).encode(),
            json.dumps({URL: {"user": "root", "token": f"{TOKEN}\r\nX-Evil: 1"}}).encode(),
            json.dumps({URL: {"user": "root", "token": TOKEN, "ca": 5}}).encode(),
        ],
    )
    def test_a_secret_that_cannot_be_used_is_an_error_without_its_values(self, document: bytes) -> None:
        with pytest.raises(Misconfigured) as raised:
            access_of(document, URL)
        assert TOKEN not in f"{raised.value!r} {raised.value.__cause__!r}"

    def test_an_access_does_not_show_its_token(self) -> None:
        assert TOKEN not in repr(Access(URL, "root", TOKEN))

    def test_a_registration_chooses_the_way_to_slurm(self) -> None:
        with stubbed("ssm") as (clients, _):
            connect = connections(clients, self.document)
            by_commands = ClusterConfig("a", orchestrator="slurm", slurm_head_node="i-0123456789abcdef0").validated()
            by_rest = ClusterConfig("b", orchestrator="slurm", slurm_rest=URL).validated()
            assert isinstance(connect(by_commands), Scontrol)
            assert isinstance(connect(by_rest), SlurmRest)

    def test_a_cluster_that_requeues_needs_the_head_node_too(self) -> None:
        over_rest = ClusterConfig("a", orchestrator="slurm", slurm_rest=URL)
        for requeues in (replace(over_rest, slurm_requeue=True), replace(over_rest, job_callbacks=("slurm-requeue",))):
            with pytest.raises(Rejected, match="no_requeue_head_node") as raised:
                requeues.validated()
            hint = failure_of(raised.value).hint
            assert "--slurm-head-node" in hint
            assert "--slurm-rest" not in hint

    @pytest.mark.parametrize("url", ["http://slurm.example:6820", "https://a..b", "https://slurm.example:99999"])
    def test_no_token_goes_over_http_or_to_an_address_that_is_none(self, url: str) -> None:
        document = json.dumps({url: {"user": "root", "token": TOKEN}}).encode()
        with pytest.raises(Misconfigured, match="no token goes to the address"):
            access_of(document, url)
        with pytest.raises(Misconfigured, match="no token goes to the address"):
            send(Access(url, "root", TOKEN), "GET", "/jobs")


def ask(port: int, scheme: str = "http", authority: str | None = None) -> Answer:
    return send(Access(f"{scheme}://localhost:{port}", "root", TOKEN, authority), "GET", "/jobs", limits=SOON)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class TestLimits:
    def test_a_complete_answer_is_returned(self) -> None:
        with listening(reply(OK)) as port:
            assert ask(port) == Answer(200, b"{}")

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"SSH-2.0-OpenSSH\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500,
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
            b"HTTP/1.1 200 OK\r\n\r\n" + b"z" * 5000,
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"z" * 5000,
        ],
    )
    def test_an_answer_that_is_broken_or_too_long_is_transient(self, text: bytes) -> None:
        with listening(reply(text)) as port, pytest.raises(Transient):
            ask(port)

    @pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_an_answer_that_never_ends_is_ended_by_the_time_limit(self, start: bytes) -> None:
        with listening(lambda one: drip(one, start)) as port, pytest.raises(Transient, match="gave no complete answer"):
            ask(port)

    def test_a_redirect_is_not_followed(self) -> None:
        redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        with listening(reply(redirect)) as port:
            assert ask(port).status == 302

    def test_no_listener_is_transient(self) -> None:
        with listening(reply(OK)) as port:
            ask(port)
        with pytest.raises(Transient, match="ConnectionRefused"):
            ask(port)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A certificate of `localhost` and one of another host, each its own authority, with the context that serves it."""
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("localhost", "other.example")}


class TestTls:
    def test_a_certificate_of_the_registered_authority_is_accepted(self, certified: dict[str, Any]) -> None:
        context, authority = certified["localhost"]
        with listening(reply(OK), context) as port:
            assert ask(port, "https", authority).status == 200

    @pytest.mark.parametrize(("served", "trusted"), [("localhost", None), ("other.example", "other.example")])
    def test_an_unknown_authority_and_another_host_get_no_token(
        self, certified: dict[str, Any], served: str, trusted: str | None
    ) -> None:
        received: list[bytes] = []
        authority = certified[trusted][1] if trusted else None
        keep: Callable[[socket.socket], None] = lambda one: received.append(one.recv(65536))  # noqa: E731 - read once
        with listening(keep, certified[served][0]) as port, pytest.raises(Misconfigured, match="certificate"):
            ask(port, "https", authority)
        assert received == []

    def test_a_server_without_tls_gets_no_token(self) -> None:
        with listening(reply(OK)) as port, pytest.raises(Transient):
            ask(port, "https")

    @pytest.mark.parametrize("authority", ["not PEM", "-----BEGIN CERTIFICATE-----\u00e9"])
    def test_an_authority_that_is_not_pem_is_an_error_for_an_operator(self, authority: str) -> None:
        client = RestClient(lambda: Access("https://localhost:1", "root", TOKEN, authority))
        result = SlurmOrchestrator(lambda _: SlurmRest(client), ManualClock()).cordon(member())
        assert result.failure is ProviderFailure.PERMISSION_DENIED
        assert "authority of slurmrestd cannot be read" in result.reason

    def test_an_authority_that_was_renewed_in_the_secret_is_used(self, certified: dict[str, Any]) -> None:
        """The client, which lives as long as a warm process, is asked before and after the secret changes."""
        context, authority = certified["localhost"]
        authorities = [certified["other.example"][1]]
        with ExitStack() as stack:
            ports = [stack.enter_context(listening(reply(OK), context)) for _ in range(3)]
            urls = iter([f"https://localhost:{port}" for port in ports])
            served = RestClient(
                lambda: Access(URL, "root", TOKEN, authorities[-1]),
                lambda access, *request: send(replace(access, url=next(urls)), *request, limits=SOON),
            )
            with pytest.raises(Misconfigured, match="certificate"):
                served("GET", "/jobs")
            authorities.append(authority)
            assert served("GET", "/jobs").status == 200

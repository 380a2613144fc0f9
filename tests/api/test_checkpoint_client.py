"""The client of jobs in `examples`, over a real HTTP connection: a suspicion, a save, and lost answers."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.api.gateway import Gateway
from tests.world import World

EXAMPLE = Path(__file__).parents[2] / "examples/checkpoint/checkpoints.py"
AT_RISK = (
    "NVRM: Xid (PCI:0000:53:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 "
    "(0x004001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
)
JOB = {"change": "start", "job_id": "88213", "nodes": ["n-1", "n-2"]}


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def client() -> ModuleType:
    spec = importlib.util.spec_from_file_location("checkpoints", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gateway() -> Gateway:
    made = Gateway(World(nodes=("n-1", "n-2")))
    made.post("/clusters/train-a/jobs", JOB)
    wire_sweep(made.world.app).run()
    return made


@pytest.fixture
def url(gateway: Gateway) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, gateway.wsgi, handler_class=Quiet)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/clusters/train-a/jobs"
    server.shutdown()
    thread.join()
    server.server_close()


def endanger(gateway: Gateway) -> None:
    """Report an Xid of the first node to the product, and process its entries, as the table's stream does."""
    wire_ingest(gateway.world.app).ingest([gateway.world.message(AT_RISK, node="n-1")])
    for _ in range(2):  # the isolation is an entry too
        wire_react(gateway.world.app).run([("train-a", "n-1")])


def changes(gateway: Gateway) -> list[str]:
    items = gateway.get("/clusters/train-a/entries", job="88213", limit=100).json["items"]
    return [one["data"].get("change", one["metadata"]["event_type"]) for one in items]


def test_the_client_has_at_most_60_lines_of_the_standard_library():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 60


def test_a_job_saves_at_the_first_heartbeat_after_a_suspicion_and_answers(
    client: ModuleType, gateway: Gateway, url: str
):
    saved: list[int] = []
    steps: list[int] = []

    def work(step: int) -> None:
        steps.append(step)
        if step == 3:
            endanger(gateway)

    job = client.Checkpoints(url, "88213", "token")
    client.train(job, 6, work, lambda: saved.append(steps[-1]))
    assert saved == [3]
    assert changes(gateway).count("checkpointed") == 1


def test_an_answer_that_is_lost_is_repeated_and_the_job_saves_once(
    client: ModuleType, gateway: Gateway, url: str, monkeypatch: pytest.MonkeyPatch
):
    endanger(gateway)
    job, saved = client.Checkpoints(url, "88213", "token"), []
    send, lost = client.urllib.request.urlopen, []

    def lose_answers(request: Any, **others: Any) -> Any:
        if b'"checkpoint"' in request.data and len(lost) < 2:
            lost.append(request)
            raise OSError
        return send(request, **others)

    monkeypatch.setattr(client.urllib.request, "urlopen", lose_answers)
    client.train(job, 5, lambda _: None, lambda: saved.append(1))
    assert (len(saved), len(lost)) == (1, 2)
    assert changes(gateway).count("checkpointed") == 1


def test_a_job_without_a_suspicion_or_a_network_never_saves(client: ModuleType, url: str):
    saved: list[int] = []
    client.train(client.Checkpoints(url, "88213", "token"), 3, lambda _: None, lambda: saved.append(1))
    client.train(client.Checkpoints("http://127.0.0.1:9/", "1", ""), 3, lambda _: None, lambda: saved.append(1))
    assert saved == []


def test_a_request_in_the_file_of_a_downward_api_volume_is_saved_once(client: ModuleType, url: str, tmp_path: Path):
    file = tmp_path / "checkpoint"
    file.write_text('{"id": "ckpt-1", "deadline": "2026-02-03T12:10:00Z"}', encoding="utf-8")
    saved: list[int] = []
    client.train(client.Checkpoints(url, "88213", "", file), 3, lambda _: None, lambda: saved.append(1))
    assert saved == [1]

"""A real Prometheus scrapes the exporter, and answers the query of each panel of the dashboard with data."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app

from faultbridge.cli.commands.records.servers import ApiClient
from faultbridge.cli.export.metrics import FleetCollector
from faultbridge.model.cluster.state import Breaker, BreakerState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.api.builders import cluster_with_something_to_change
from tests.api.gateway import Gateway
from tests.architecture.project import ROOT
from tests.waiting import eventually

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
DASHBOARD = json.loads((ROOT / "infra" / "dashboards" / "grafana-prometheus.json").read_text(encoding="utf-8"))
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
VARIABLES = [one for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not (PROMETHEUS and PROMTOOL), reason="Prometheus is not installed"),
]


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do nothing."""


@contextmanager
def serving(application: Callable[..., Any]) -> Iterator[int]:
    """Serve a WSGI application on a local port."""
    server = make_server("127.0.0.1", 0, application, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def history() -> Gateway:
    """Return a cluster with a case that waits, an incident, a pause, quarantined nodes and an open breaker."""
    made = cluster_with_something_to_change()
    world = made.world
    wire_sweep(world.app).run()
    key = keys.cluster_control("train-a")
    control = items.read_control("train-a", world.ports.table.get(key) or {})
    opened = Breaker(state=BreakerState.OPEN, since=world.now, failing=8, of=34)
    changed = replace(control, breakers={**control.breakers, "cluster": opened})
    world.ports.table.write(Put(items.control_item(changed, world.now)))
    return made


@pytest.fixture(scope="module")
def registry() -> Iterator[CollectorRegistry]:
    with serving(history().wsgi) as port:
        made = CollectorRegistry()
        made.register(FleetCollector(ApiClient(f"http://127.0.0.1:{port}", lambda _: {}), (), 1, time.monotonic))
        yield made


Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(registry: CollectorRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Return a function that asks a Prometheus, which has scraped the exporter."""
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def get(path: str, **query: str) -> Any:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def is_scraped() -> bool:
        try:
            return bool(get("query", query="faultbridge_up == 1")["result"])
        except OSError:
            return False

    with serving(make_wsgi_app(registry)) as exporter, (folder / "log").open("wb") as log:
        targets = [{"targets": [f"127.0.0.1:{exporter}"]}]
        job = {"job_name": "faultbridge", "scrape_interval": "1s", "static_configs": targets}
        (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
        arguments = [
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with subprocess.Popen([str(PROMETHEUS), *arguments], stdout=log, stderr=log) as server:
            try:
                eventually(is_scraped, describe=(folder / "log").read_text)
                yield get
            finally:
                server.terminate()


@pytest.mark.parametrize(("title", "query"), QUERIES, ids=[title for title, _ in QUERIES])
def test_each_panel_of_the_dashboard_has_data(ask: Ask, title: str, query: str) -> None:
    for cluster in ("train-a", ".*"):
        found = ask("query", query=query.replace("$cluster", cluster))["result"]
        assert found, title
        assert all(one["value"][1] not in {"NaN", "+Inf"} for one in found)
    assert "$" not in query.replace("$cluster", "")


def test_the_variable_of_the_dashboard_lists_the_clusters(ask: Ask) -> None:
    (variable,) = VARIABLES
    metric, label = variable["query"].removeprefix("label_values(").removesuffix(")").split(", ")
    assert set(ask(f"label/{label}/values", **{"match[]": metric})) == {"train-a"}


def test_the_linter_of_prometheus_has_no_complaint(registry: CollectorRegistry, tmp_path: Path) -> None:
    text = generate_latest(registry)
    assert text.count(b"\nfaultbridge_") > 20
    done = subprocess.run([str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")

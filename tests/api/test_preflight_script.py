"""The script of examples/preflight: refuses a node that must not serve, and lets it serve without an answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples/preflight/preflight.sh"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


class Api(ThreadingHTTPServer):
    """An API that answers each question with the same body, and keeps the paths and tokens of the questions."""

    body: bytes = b""
    asked: list[tuple[str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(200 if self.server.body else 503)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def api() -> Iterator[Api]:
    with Api(("127.0.0.1", 0), Handler) as made:
        made.asked = []
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def run(api: Api, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    token = folder / "token"
    token.write_text("a.b.c")
    given = {
        "FAULTBRIDGE_URL": f"http://127.0.0.1:{api.server_port}/",
        "FAULTBRIDGE_CLUSTER": "train-a",
        "FAULTBRIDGE_NODE": "n-1",
        "FAULTBRIDGE_TOKEN_FILE": str(token),
        "FAULTBRIDGE_CACHE": str(folder / "cache"),
        "FAULTBRIDGE_SETTINGS": str(folder / "none"),
    }
    environment = {"PATH": os.environ["PATH"], **given, **settings}
    return subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False)


def test_a_node_that_serves_starts_work_and_is_asked_about_once_a_minute(api: Api, tmp_path: Path) -> None:
    api.body = b'{"cluster": "train-a", "node": "n-1", "serves": true, "reason": ""}'
    assert [run(api, tmp_path).returncode for _ in range(3)] == [0, 0, 0]
    assert api.asked == [("/clusters/train-a/nodes/n-1/preflight", "Bearer a.b.c")]


def test_a_node_that_must_not_serve_refuses_with_the_reason(api: Api, tmp_path: Path) -> None:
    api.body = b'{"serves": false, "reason": "status quarantined, isolation confirmed, case c-1"}'
    ran = run(api, tmp_path)
    assert (ran.returncode, "case c-1" in ran.stderr) == (1, True)


def test_on_parallelcluster_it_only_reports(api: Api, tmp_path: Path) -> None:
    api.body = b'{"serves": false, "reason": "status quarantined"}'
    ran = run(api, tmp_path, FAULTBRIDGE_REFUSE="no")
    assert (ran.returncode, "must not serve" in ran.stderr) == (0, True)


def test_without_an_answer_a_node_serves_unless_the_owner_decides_otherwise(api: Api, tmp_path: Path) -> None:
    ran = run(api, tmp_path)
    assert (ran.returncode, "no answer" in ran.stderr) == (0, True)
    (tmp_path / "cache-n-1.json").unlink()
    assert run(api, tmp_path, FAULTBRIDGE_UNKNOWN="refuse").returncode == 1

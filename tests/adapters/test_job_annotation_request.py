"""The request that annotates a Job, compared with that of `kubectl annotate`, the reference client.

No API server runs in the tests. The fields are those of the published OpenAPI document of `batch/v1`: PATCH on
`/apis/batch/v1/namespaces/{namespace}/jobs/{name}` takes `application/merge-patch+json`; `metadata.annotations` is an
object whose values are strings. A Job patched like this was valid for the schemas of Kubernetes 1.28, 1.33 and 1.34.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from faultbridge.adapters.callbacks import ANNOTATION
from faultbridge.adapters.kubernetes.client import ApiAccess, Kubernetes, annotate_job

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llama", "namespace": "ml", "uid": "u-1"}}
JOBS = {"name": "jobs", "singularName": "job", "namespaced": True, "kind": "Job", "verbs": ["get", "patch"]}
VERSION = {"groupVersion": "batch/v1", "version": "v1"}
DISCOVERY: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "batch", "versions": [VERSION], "preferredVersion": VERSION}],
    },
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis/batch/v1": {"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": [JOBS]},
    "/apis/batch/v1/namespaces/ml/jobs/llama": JOB,
}


@dataclass(frozen=True)
class Patch:
    """One PATCH request without its query, which names the client."""

    path: str
    media_type: str
    body: Any


class Answers(BaseHTTPRequestHandler):
    """Answers what `kubectl annotate` reads, and records each patch."""

    patches: ClassVar[list[Patch]] = []

    def do_GET(self) -> None:
        self._send(DISCOVERY.get(self.path.partition("?")[0]))

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.patches.append(Patch(self.path.partition("?")[0], str(self.headers["Content-Type"]), body))
        self._send(JOB)

    def _send(self, document: Any) -> None:
        body = json.dumps(document or {"kind": "Status", "code": 404}).encode()
        self.send_response(200 if document else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server calls
        """Print nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Answers.patches.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def patch_of_faultbridge(url: str) -> Patch:
    annotate_job(Kubernetes(lambda: ApiAccess(url, None, "token")), "ml", "llama", {ANNOTATION: "e-1"})
    return Answers.patches.pop()


def test_the_request_is_one_that_the_published_api_of_jobs_has(url: str) -> None:
    assert patch_of_faultbridge(url) == Patch(
        "/apis/batch/v1/namespaces/ml/jobs/llama",
        "application/merge-patch+json",
        {"metadata": {"annotations": {"faultbridge/resumable": "e-1"}}},
    )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_request_is_that_of_kubectl_annotate(url: str, tmp_path: Path) -> None:
    own = patch_of_faultbridge(url)
    command = ["kubectl", "--server", url, "--cache-dir", str(tmp_path), "-n", "ml", "annotate", "--overwrite"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run([*command, "job/llama", f"{ANNOTATION}=e-1"], check=True, env=environment, capture_output=True)
    assert Answers.patches == [own]

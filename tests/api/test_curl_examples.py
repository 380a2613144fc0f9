"""Each read of the HTTP API has an example for curl, and so has the report of a job; the API accepts them."""

from __future__ import annotations

import re

import pytest

from faultbridge.serve.api.routes import ROUTES
from tests.api.gateway import Gateway
from tests.architecture.project import ROOT
from tests.world import World

PAGES = sorted((ROOT / "docs" / "reference" / "http-api").glob("*.md"))
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
EXAMPLES = re.findall(r'^    curl \$AUTH "\$API([^"?]+)\??([^"]*)"$', PAGE, flags=re.MULTILINE)
REPORTS = re.findall(r"^    curl \$AUTH \"\$API([^\"]+)\" -d '(.*)'$", PAGE, flags=re.MULTILINE)


def test_every_read_has_an_example() -> None:
    shown = {re.sub(r"=[^&]*", "", query) for _, query in EXAMPLES if query}
    assert len(EXAMPLES) == len([route for route in ROUTES if route.method == "GET"]) + 1
    assert "id" in shown, "a job whose id contains a slash"


@pytest.mark.parametrize(("path", "query"), EXAMPLES)
def test_the_api_accepts_the_example(path: str, query: str) -> None:
    answer = Gateway(World(nodes=("gpu-1",))).send("GET", path, query)
    known = answer.json.get("type", "")
    assert answer.status in {200, 404}
    assert known != "urn:faultbridge:unknown_route"


def test_the_reports_of_a_job_work_in_the_order_of_the_page() -> None:
    gateway = Gateway(World(nodes=("gpu-1", "gpu-2")))
    answers = [gateway.send("POST", path, body=body.encode()) for path, body in REPORTS]
    assert [(one.status, one.json["state"]) for one in answers] == [(200, "running"), (200, "running"), (200, "ended")]

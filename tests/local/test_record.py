"""The record on the embedded stack: archived, anchored, sealed, asked over HTTP, and rebuilt in another table."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.bootstrap import Application, of_settings
from faultbridge.cli.stacks import settings_from
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import NodeKey
from faultbridge.services.archive.check import VerifyArchive
from faultbridge.services.archive.read import ReadArchive
from faultbridge.services.registration import NewNode
from faultbridge.services.timeline import Timeline, Wanted
from tests.local.stack import PrivateStack
from tests.local.waiting import eventually

pytestmark = pytest.mark.embedded

CLUSTER = "kept-a"
KEY = NodeKey(CLUSTER, "n-1")


@pytest.fixture(scope="module")
def application(embedded_stack: PrivateStack) -> Any:
    """The product's services, aimed at the stack, with a registered cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in embedded_stack.environment.items():
            patch.setenv(name, value)
        made = of_settings(settings_from(embedded_stack.info.stack, embedded_stack.outputs), Clients())
        made.registration.add_cluster(ClusterConfig(CLUSTER))
        made.registration.add_node(CLUSTER, NewNode(KEY.node, "i-0aaaaaaaaaaaaaaa1"))
        yield made


def archived(application: Application) -> int:
    return len(ReadArchive(application.keeping.archive).entries(Wanted(CLUSTER)))


def test_what_is_recorded_reaches_the_archive(application: Application) -> None:
    recorded = len(list(Timeline(application.ports.table).entries(Wanted(CLUSTER))))
    assert recorded
    eventually(lambda: archived(application) >= recorded)


def test_the_function_that_keeps_the_record_anchors_it(embedded_stack: PrivateStack, application: Application) -> None:
    answer = embedded_stack.client("lambda").invoke(FunctionName="faultbridge-archive", Payload=b"{}")
    kept = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, kept
    anchors = list(application.keeping.vault.list(f"anchors/cluster={CLUSTER}/"))
    assert len(anchors) == 1


def test_a_sealed_day_is_verified_without_the_table(application: Application) -> None:
    eventually(lambda: archived(application) > 0)
    config = application.registration.cluster(CLUSTER)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    application.archive.seal(config, tomorrow)
    kept = application.keeping
    verified = VerifyArchive(kept.archive, kept.vault)(CLUSTER)
    assert verified.breaks == []
    assert verified.entries > 0


def ask(stack: PrivateStack, path: str) -> tuple[int, Any]:
    url = f"{stack.info.endpoint}/_aws/execute-api/{stack.outputs['ApiId']}/$default{path}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own emulator
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_api_answers_over_http(embedded_stack: PrivateStack, application: Application) -> None:
    assert application
    status, answer = ask(embedded_stack, f"/clusters/{CLUSTER}/nodes")
    assert (status, [one["node"] for one in answer["items"]]) == (200, [KEY.node])
    status, answer = ask(embedded_stack, f"/clusters/{CLUSTER}/entries?limit=1")
    assert (status, len(answer["items"])) == (200, 1)
    assert ask(embedded_stack, "/clusters/no-such/nodes")[0] == 404
    assert ask(embedded_stack, f"/clusters/{CLUSTER}/entries?token=forged")[0] == 400

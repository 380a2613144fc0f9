"""The timeline on the embedded stack: archived, anchored, sealed, read over HTTP and restored."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.restored_table import restore_items
from faultbridge.cli.stack.locate import settings_from
from faultbridge.decide import entry_builder
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.settings import Settings
from faultbridge.record.archive.verification import ReadArchive, VerifyArchive
from faultbridge.record.recover import RecoverTable
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.record.verify import Verify
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.archive import wire_archive
from faultbridge.serve.wiring.installation import Installation, on_aws
from faultbridge.serve.wiring.services import wire_registration
from tests.contracts.aws import make_table
from tests.local.stack import PrivateStack
from tests.waiting import eventually

pytestmark = pytest.mark.embedded

CLUSTER = "kept-a"
KEY = NodeKey(CLUSTER, "n-1")


@pytest.fixture(scope="module")
def installation(embedded_stack: PrivateStack) -> Any:
    """The product's services for the stack, with a registered cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in embedded_stack.environment.items():
            patch.setenv(name, value)
        made = on_aws(settings_from(embedded_stack.info.stack, embedded_stack.outputs), Clients())
        wire_registration(made).add_cluster(ClusterConfig(CLUSTER))
        wire_registration(made).add_node(CLUSTER, NewNode(KEY.node, "i-0aaaaaaaaaaaaaaa1"))
        yield made


def archived(installation: Installation) -> int:
    return len(ReadArchive(installation.ports.archive).entries(TimelineQuery(CLUSTER)))


def test_recorded_entries_reach_the_archive(installation: Installation) -> None:
    recorded = len(list(Timeline(installation.ports.table).entries(TimelineQuery(CLUSTER))))
    assert recorded
    eventually(lambda: archived(installation) >= recorded)


def test_the_archive_function_writes_an_anchor(embedded_stack: PrivateStack, installation: Installation) -> None:
    answer = embedded_stack.client("lambda").invoke(FunctionName="faultbridge-archive", Payload=b"{}")
    kept = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, kept
    anchors = list(installation.ports.vault.list(f"anchors/cluster={CLUSTER}/"))
    assert len(anchors) == 1


def test_a_sealed_day_is_verified_without_the_table(installation: Installation) -> None:
    eventually(lambda: archived(installation) > 0)
    config = wire_registration(installation).cluster(CLUSTER)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    wire_archive(installation).seal(config, tomorrow)
    kept = installation.ports
    verified = VerifyArchive(kept.archive, kept.vault)(CLUSTER)
    assert verified.breaks == []
    assert verified.entries > 0


def ask(stack: PrivateStack, path: str) -> tuple[int, Any]:
    url = f"{stack.outputs['ApiUrl']}{path}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own emulator
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_api_answers_over_http(embedded_stack: PrivateStack, installation: Installation) -> None:
    assert installation
    status, answer = ask(embedded_stack, f"/clusters/{CLUSTER}/nodes")
    assert (status, [one["node"] for one in answer["items"]]) == (200, [KEY.node])
    status, answer = ask(embedded_stack, f"/clusters/{CLUSTER}/entries?limit=1")
    assert (status, len(answer["items"])) == (200, 1)
    assert ask(embedded_stack, "/clusters/no-such/nodes")[0] == 404
    assert ask(embedded_stack, f"/clusters/{CLUSTER}/entries?token=forged")[0] == 400


def test_a_restored_table_continues_in_a_new_epoch_without_repeated_event_ids(
    embedded_stack: PrivateStack, installation: Installation
) -> None:
    config = wire_registration(installation).cluster(CLUSTER)
    saved = [item for page in _pages(embedded_stack) for item in page["Items"]]
    _note(installation, config, "lost with the table")
    before = _ids(installation)

    clients = Clients()
    backup, name = make_table(clients), make_table(clients)
    newer = [item for page in _pages(embedded_stack) for item in page["Items"]]
    for table, items in ((backup, saved), (name, newer)):
        for item in items:
            clients.dynamodb.put_item(TableName=table, Item=item)
    expected = restore_items(clients, backup, name, check_only=True)
    assert expected.deleted > 0
    assert restore_items(clients, backup, name) == expected
    settings = settings_from(embedded_stack.info.stack, embedded_stack.outputs)
    rebuilt = on_aws(Settings({**settings.variables, "FAULTBRIDGE_TABLE": name}), clients)
    kept = rebuilt.ports
    done = RecoverTable(kept.table, kept.vault, kept.clock, rebuilt.append, rebuilt.stack).recover(by="a drill")
    _note(rebuilt, config, "after the restore")

    assert done.epoch > 1
    after = _ids(rebuilt)
    assert after.keys() - before.keys()
    assert {event_id: after[event_id] for event_id in after.keys() & before.keys()} == {
        event_id: before[event_id] for event_id in after.keys() & before.keys()
    }
    assert Verify(kept.table, rebuilt.stack)(CLUSTER).breaks == []


def _pages(stack: PrivateStack) -> Any:
    return stack.client("dynamodb").get_paginator("scan").paginate(TableName=stack.outputs["TableName"])


def _note(installation: Installation, config: ClusterConfig, text: str) -> None:
    def revise(state: NodeState, now: datetime) -> Transition:
        return Transition(state, (entry_builder.note(kind=NoteKind.OPERATOR, text=text, at=now),))

    installation.append(KEY, revise, actor=Actor.CLI)


def _ids(installation: Installation) -> dict[str, str]:
    """The hash of each event by its id."""
    lines = Timeline(installation.ports.table).entries(TimelineQuery(CLUSTER))
    return {line.event.metadata.event_id: line.hash for line in lines}

"""Bad records, and inputs other than the queue: CloudWatch Logs, webhooks, the API, the archive."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from faultbridge.local import clients
from faultbridge.model.enums import WaitingFor
from faultbridge.model.policy import Policy
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.wire.message import Message, encode_message, raw_key
from faultbridge.model.storage.writes import Put
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.bad_records import BAD_RECORDS, INCOMPRESSIBLE, INVALID_MESSAGES, LONG_VALID_LINE
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import DOUBLE_BIT, GPU_LOST
from tests.e2e.scenarios.batch import clock_ahead
from tests.e2e.scenarios.repairs import send_fault
from tests.waiting import BUSY_FACTOR, eventually

MISSING_BODY = "missing-body"
APPROVAL_POLICY = {
    "version": "asks-first",
    "rules": [{"name": "asks-first", "approval": ["reset_gpu", "reboot_node", "replace_node"]}],
}
"""Every repair action needs approval."""


@dataclass(frozen=True)
class BadBatch:
    """A batch of alternating good and bad records; `ids` maps the name of a bad record to its record id."""

    cluster: str
    since: datetime
    ids: dict[str, str]
    good: list[str]


@pytest.fixture(scope="session")
def bad_batch(installation: Installation) -> BadBatch:
    """Send each bad record between two good ones, all in one batch."""
    cluster = installation.register_cluster(2 * len(BAD_RECORDS), act=False)
    since = datetime.now(UTC)
    raw_inputs, names = [], []
    for number, bad in enumerate(BAD_RECORDS):
        body = LONG_VALID_LINE if number == 0 else GPU_LOST.encode()
        good = RawInput("kernel-log", cluster, body, node=f"node-{number:03}")
        raw_inputs += [good, RawInput(bad.source, cluster, bad.body, node=bad.node)]
        names += ["", bad.name]
    messages = installation.send(raw_inputs)
    installation.send_again([("nobody", text) for text in INVALID_MESSAGES])
    pointer = raw_key(cluster, since, b"was never kept")
    missing = Message(str(uuid.uuid4()), "kernel-log", cluster, since, pointer=pointer)
    installation.send_again([(missing.group, encode_message(missing))])
    installation.wait_until_idle(cluster)
    ids = [json.loads(text)["record_id"] for _, text in messages]
    named = {name: one for name, one in zip(names, ids, strict=True) if name} | {MISSING_BODY: missing.record_id}
    installation.wait_for_outcomes((*ids, missing.record_id), since)
    return BadBatch(cluster, since, named, [one for name, one in zip(names, ids, strict=True) if not name])


@dataclass(frozen=True)
class OtherInputs:
    """A cluster with a log from CloudWatch Logs, a posted alert, an archived day, an approved and a denied repair."""

    cluster: str
    case: str
    denied: str
    codes: list[str]
    answers: dict[str, Any]
    pages: dict[str, str]
    archived: list[dict[str, Any]]
    posted: str


@pytest.fixture(scope="session")
def other_inputs(installation: Installation) -> OtherInputs:
    """Use every input other than the queue once."""
    cluster = _cluster_with_approvals(installation)
    instance = installation.instance_of(cluster, "node-000")
    installation.invoke("intake", log_subscription(instance, DOUBLE_BIT))
    installation.invoke("intake", log_subscription(instance, INCOMPRESSIBLE.decode()))
    posted = _post_alert(installation, cluster)
    waiting = eventually(lambda: _case_awaiting_approval(installation, cluster), 60)
    codes = [condition.code for condition in installation.states(cluster)["node-000"].active()]
    answers = _query_api(installation, cluster, waiting)
    pages = {path: installation.open_page(path) for path in ("", f"/clusters/{cluster}/cases/{waiting}")}
    answers["approve"] = _answer(installation, cluster, waiting, "approve")
    installation.wait_until_idle(cluster)
    send_fault(installation, cluster, "node-001")
    denied = eventually(lambda: _case_awaiting_approval(installation, cluster), 60)
    answers["deny"] = _answer(installation, cluster, denied, "deny")
    installation.wait_until_idle(cluster)
    archived = [installation.invoke("archive", {}), installation.invoke("archive", {})]
    with clock_ahead(installation, 2, "archive"):
        archived.append(installation.invoke("archive", {}))
    return OtherInputs(cluster, waiting, denied, codes, answers, pages, archived, posted)


def _post_alert(installation: Installation, cluster: str) -> str:
    """Add a sender, post an alert about node-001 as Alertmanager does, and return the id of the record."""
    sender = installation.cli_json("webhook", "add", "e2e", "--cluster", cluster, "--source", "alertmanager")
    alert = {"status": "firing", "labels": {"alertname": "Unmapped", "node": "node-001"}}
    body = {"version": "4", "receiver": "e2e", "alerts": [alert]}
    headers = {"Authorization": f"Bearer {sender['secret']}"}
    return str(clients.http_call(sender["urls"][0], body, timeout=30.0 * BUSY_FACTOR, headers=headers)["record_id"])


def _answer(installation: Installation, cluster: str, case: str, verb: str) -> Any:
    """Answer the approval request of a case through the API."""
    path = f"/clusters/{cluster}/cases/{case}"
    request = installation.call_api(path)["approval"]
    return installation.call_api(f"{path}/{verb}", {name: request[name] for name in ("attempt", "repair_action")})


def _cluster_with_approvals(installation: Installation) -> str:
    """Register a cluster whose policy requires approval of every repair."""
    application = installation.application
    now = application.ports.clock.now()
    version = str(APPROVAL_POLICY["version"])
    policy = items.item(keys.policy(version), now, {"policy": dump(load(Policy, APPROVAL_POLICY))})
    application.ports.table.write(Put(policy))
    cluster = installation.register_cluster(2, fleet=3)
    installation.invoke("inventory", {})
    wire_registration(application).set_cluster(cluster, {"policy": version})
    return cluster


def _query_api(installation: Installation, cluster: str, case: str) -> dict[str, Any]:
    paths = ("/clusters", "/clusters/{cluster}", "/clusters/{cluster}/nodes", "/clusters/{cluster}/cases/{case}")
    answers = {path: installation.call_api(path.format(cluster=cluster, case=case)) for path in paths}
    first = installation.call_api(f"/clusters/{cluster}/entries?limit=1")
    next_page = f"/clusters/{cluster}/entries?limit=1&token={quote(first['next'])}"
    return {**answers, "next page": installation.call_api(next_page)}


def _case_awaiting_approval(installation: Installation, cluster: str) -> str | None:
    waiting = (case.id for case in installation.cases(cluster) if case.waiting_for is WaitingFor.APPROVAL)
    return next(waiting, None)


def log_subscription(instance: str, message: str) -> dict[str, Any]:
    """Return the event with which CloudWatch Logs calls a function that is subscribed to a node's log."""
    at = int(datetime.now(UTC).timestamp() * 1000)
    batch = {
        "messageType": "DATA_MESSAGE",
        "owner": "111122223333",
        "logGroup": "/nodes/kernel",
        "logStream": instance,
        "subscriptionFilters": ["faultbridge"],
        "logEvents": [{"id": "1", "timestamp": at, "message": message}],
    }
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(batch).encode())).decode()}}

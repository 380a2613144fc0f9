"""Invalid records: each is rejected with a reason, and the rest of its batch is processed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.model.storage import keys
from faultbridge.serve.wiring.services import wire_rejects
from tests.e2e.harness.bad_records import BAD_RECORDS, INVALID_MESSAGES, BadRecord
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.processes import run_cli
from tests.e2e.harness.records import UNKNOWN_NODE
from tests.e2e.scenarios.inputs import MISSING_BODY, BadBatch
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

UNDECODABLE = [bad for bad in BAD_RECORDS if bad.exit_code]


@pytest.mark.parametrize("bad", BAD_RECORDS, ids=lambda bad: bad.name)
def test_an_invalid_record_is_kept_with_its_reason(
    installation: Installation, bad_batch: BadBatch, bad: BadRecord
) -> None:
    rejects = wire_rejects(installation.application)
    reject = rejects.find(bad_batch.ids[bad.name], bad_batch.cluster)
    assert reject is not None
    assert reject.reason == bad.reason
    assert rejects.raw(reject) == bad.body


def test_a_record_with_a_missing_body_is_kept_with_its_reason(installation: Installation, bad_batch: BadBatch) -> None:
    reject = wire_rejects(installation.application).find(bad_batch.ids[MISSING_BODY], bad_batch.cluster)
    assert reject is not None
    assert reject.reason == "body_missing"


def test_an_invalid_message_is_kept_too(installation: Installation, bad_batch: BadBatch) -> None:
    assert bad_batch.cluster
    rejects = wire_rejects(installation.application)
    kept = {rejects.raw(reject): reject.reason for reject in rejects.list(keys.NO_CLUSTER) if reject.unread}
    assert {text.encode() for text in INVALID_MESSAGES} <= set(kept)
    assert {kept[text.encode()] for text in INVALID_MESSAGES} == {"not_a_record", "unsupported_version"}


def test_the_rest_of_the_batch_is_processed(installation: Installation, bad_batch: BadBatch) -> None:
    outcomes = installation.outcomes(bad_batch.since)
    assert {record: outcomes[record] for record in bad_batch.good} == {
        record: ["recorded"] for record in bad_batch.good
    }
    states = installation.states(bad_batch.cluster)
    for number in range(len(BAD_RECORDS)):
        assert [condition.code for condition in states[f"node-{number:03}"].active()] == ["xid.79"]


def test_an_invalid_record_is_processed_once_and_is_no_dead_letter(
    installation: Installation, bad_batch: BadBatch
) -> None:
    outcomes = installation.outcomes(bad_batch.since)
    assert {outcomes[record][0] for record in bad_batch.ids.values()} == {"rejected"}
    assert installation.application.ports.queue.depth().dead == 0


def test_a_rejected_record_can_be_retried_after_its_cause_is_fixed(
    installation: Installation, bad_batch: BadBatch
) -> None:
    record = bad_batch.ids["unknown-node"]
    assert installation.cli_json("reject", "show", record)["reason"] == "unknown_node"
    added = installation.cli(
        "node", "add", "--cluster", bad_batch.cluster, "--node", UNKNOWN_NODE, "--instance-id", "i-0123456789abcdef0"
    )
    assert added.returncode == 0, added.stderr.decode()
    assert installation.cli_json("reject", "retry", record) == [{"record_id": record, "outcome": "sent"}]
    eventually(lambda: list(installation.states(bad_batch.cluster)[UNKNOWN_NODE].active()), 60)
    (condition,) = installation.states(bad_batch.cluster)[UNKNOWN_NODE].active()
    assert condition.code == "xid.79"
    assert wire_rejects(installation.application).find(record, bad_batch.cluster) is None
    assert installation.cli_json("account", "--since", bad_batch.since.isoformat())["complete"]


def test_a_retried_record_is_rejected_again_if_its_cause_remains(
    installation: Installation, bad_batch: BadBatch
) -> None:
    record = bad_batch.ids["truncated-xml"]
    previous = len(installation.outcomes(bad_batch.since)[record])
    assert installation.cli_json("reject", "retry", record) == [{"record_id": record, "outcome": "sent"}]
    eventually(lambda: len(installation.outcomes(bad_batch.since)[record]) > previous, 60)
    reject = wire_rejects(installation.application).find(record, bad_batch.cluster)
    assert reject is not None
    assert reject.reason == "malformed_xml"


@pytest.mark.parametrize("bad", UNDECODABLE, ids=lambda bad: bad.name)
def test_the_cli_reports_an_undecodable_record_in_one_line(tmp_path: Path, bad: BadRecord) -> None:
    done = run_cli("decode", "--source", bad.source, "-", stdin=bad.body, home=tmp_path)
    assert done.returncode == bad.exit_code
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("faultbridge: ")
    assert line.endswith(")")
    assert len(line) < 1000


def test_the_cli_refuses_an_unknown_source(installation: Installation, bad_batch: BadBatch) -> None:
    done = installation.cli(
        "send", "--source", "crystal-ball", "--cluster", bad_batch.cluster, "--node", "node-000", stdin=b"tomorrow"
    )
    assert done.returncode == 2
    assert len(done.stderr.decode().splitlines()) == 1


def test_a_record_sent_by_the_cli_has_an_outcome(installation: Installation, bad_batch: BadBatch) -> None:
    done = installation.cli(
        "send",
        "--source",
        "kernel-log",
        "--cluster",
        bad_batch.cluster,
        "--node",
        "node-001",
        "--json",
        stdin=b"all quiet",
    )
    assert done.returncode == 0, done.stderr.decode()
    (record,) = json.loads(done.stdout)["records"]
    assert eventually(lambda: installation.outcomes(bad_batch.since).get(record), 60) == ["rejected"]

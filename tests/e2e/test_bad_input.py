"""Bad input: a reason and one line for whoever sent it, and no harm to what came with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.storage import keys
from tests.e2e.bad_input import BAD, NO_MESSAGE, Bad
from tests.e2e.batches import NOBODY
from tests.e2e.installation import Installation, call_command, eventually
from tests.e2e.scenarios import GONE, Mess

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

UNDECODABLE = [bad for bad in BAD if bad.exit_code]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_a_record_that_nobody_can_use_is_kept_with_its_reason(installation: Installation, mess: Mess, bad: Bad) -> None:
    rejects = installation.application.rejects
    reject = rejects.find(mess.ids[bad.name], mess.cluster)
    assert reject is not None
    assert reject.reason == bad.reason
    assert rejects.raw(reject) == bad.body


def test_a_record_whose_body_is_gone_is_kept_with_its_reason(installation: Installation, mess: Mess) -> None:
    reject = installation.application.rejects.find(mess.ids[GONE], mess.cluster)
    assert reject is not None
    assert reject.reason == "body_missing"


def test_what_is_no_message_at_all_is_kept_too(installation: Installation, mess: Mess) -> None:
    assert mess.cluster
    rejects = installation.application.rejects
    kept = {rejects.raw(reject): reject.reason for reject in rejects.list(keys.NO_CLUSTER) if reject.unread}
    assert {text.encode() for text in NO_MESSAGE} <= set(kept)
    assert {kept[text.encode()] for text in NO_MESSAGE} == {"not_a_record", "unsupported_version"}


def test_the_rest_of_the_batch_is_unharmed(installation: Installation, mess: Mess) -> None:
    told = installation.outcomes(mess.since)
    assert {record: told[record] for record in mess.good} == {record: ["recorded"] for record in mess.good}
    states = installation.states(mess.cluster)
    for number in range(len(BAD)):
        assert [condition.code for condition in states[f"node-{number:03}"].active()] == ["xid.79"]


def test_bad_input_is_worked_once_and_never_given_up(installation: Installation, mess: Mess) -> None:
    told = installation.outcomes(mess.since)
    assert {told[record][0] for record in mess.ids.values()} == {"rejected"}
    assert installation.application.ports.queue.depth().dead == 0


def test_a_record_can_be_tried_again_once_its_cause_is_gone(installation: Installation, mess: Mess) -> None:
    record = mess.ids["unknown-node"]
    assert installation.as_json("reject", "show", record)["reason"] == "unknown_node"
    added = installation.command(
        "node", "add", "--cluster", mess.cluster, "--node", NOBODY, "--instance-id", "i-0123456789abcdef0"
    )
    assert added.returncode == 0, added.stderr.decode()
    assert installation.as_json("reject", "retry", record) == [{"record_id": record, "outcome": "sent"}]
    eventually(lambda: list(installation.states(mess.cluster)[NOBODY].active()), 60)
    (condition,) = installation.states(mess.cluster)[NOBODY].active()
    assert condition.code == "xid.79"
    assert installation.application.rejects.find(record, mess.cluster) is None
    assert installation.as_json("audit", "--since", mess.since.isoformat())["complete"]


def test_a_record_whose_cause_is_not_gone_is_rejected_again(installation: Installation, mess: Mess) -> None:
    record = mess.ids["truncated-xml"]
    known = len(installation.outcomes(mess.since)[record])
    assert installation.as_json("reject", "retry", record) == [{"record_id": record, "outcome": "sent"}]
    eventually(lambda: len(installation.outcomes(mess.since)[record]) > known, 60)
    again = installation.application.rejects.find(record, mess.cluster)
    assert again is not None
    assert again.reason == "malformed_xml"


@pytest.mark.parametrize("bad", UNDECODABLE, ids=lambda bad: bad.name)
def test_the_command_line_says_in_one_line_what_it_cannot_decode(tmp_path: Path, bad: Bad) -> None:
    done = call_command("decode", "--source", bad.source, "-", stdin=bad.body, home=tmp_path)
    assert done.returncode == bad.exit_code
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("faultbridge: ")
    assert line.endswith(")")
    assert len(line) < 1000


def test_the_command_line_sends_nothing_of_a_source_that_nobody_knows(installation: Installation, mess: Mess) -> None:
    done = installation.command(
        "send", "--source", "crystal-ball", "--cluster", mess.cluster, "--node", "node-000", stdin=b"tomorrow"
    )
    assert done.returncode == 2
    assert len(done.stderr.decode().splitlines()) == 1


def test_a_record_that_the_command_line_sends_is_accounted_for(installation: Installation, mess: Mess) -> None:
    done = installation.command(
        "send", "--source", "kernel-log", "--cluster", mess.cluster, "--node", "node-001", "--json", stdin=b"all quiet"
    )
    assert done.returncode == 0, done.stderr.decode()
    (record,) = json.loads(done.stdout)["records"]
    assert eventually(lambda: installation.outcomes(mess.since).get(record), 60) == ["rejected"]

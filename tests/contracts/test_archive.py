"""The Archive, Vault and ArchiveSink ports: the same tests for the fakes and AWS."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.firehose import RETRY, FirehoseArchiveSink
from faultbridge.adapters.aws.objects import LockedObjects, S3Objects
from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.storage.wire.archive_lines import ArchiveLine, unpack
from faultbridge.model.values import replace
from faultbridge.record.archive.write import ObjectSink
from faultbridge.record.ports.objects import Archive, ArchiveSink, Vault
from tests.adapters.stubs import served
from tests.contracts.aws import fresh
from tests.sim.fakes.objects import FakeArchive, FakeDelivery, FakeVault

LINE = ArchiveLine(
    stream="train-a/n-1",
    cluster="train-a",
    node="n-1",
    epoch=1,
    sequence=1,
    event_id="e-1",
    type="Node Note Recorded",
    recorded_at="2026-02-03T04:05:06.000Z",
    body='{"metadata":{}}',
    hash="0" * 64,
    evidence="é",
)


def bucket(clients: Clients, **others: Any) -> str:
    name = fresh("bucket")
    clients.s3.create_bucket(Bucket=name, **others)
    return name


@pytest.fixture(params=["fake", "s3"])
def archive(request: pytest.FixtureRequest, clients: Clients) -> Archive:
    return FakeArchive() if request.param == "fake" else S3Objects(clients, bucket(clients))


@pytest.fixture(params=["fake", "s3"])
def vault(request: pytest.FixtureRequest, clients: Clients) -> Vault:
    if request.param == "fake":
        return FakeVault()
    return LockedObjects(clients, bucket(clients, ObjectLockEnabledForBucket=True))


class TestArchive:
    def test_keys_are_listed_by_prefix_in_order(self, archive: Archive) -> None:
        for key in ("b/2", "a/1", "b/1", "b/10"):
            archive.put(key, b"x")
        assert list(archive.list("b/")) == ["b/1", "b/10", "b/2"]
        assert list(archive.list("c")) == []

    @pytest.mark.slow
    def test_more_keys_than_one_response_holds_are_listed(self, archive: Archive) -> None:
        for number in range(1_003):
            archive.put(f"k/{number:04d}", b"")
        assert len(list(archive.list("k/"))) == 1_003


class TestVault:
    def test_the_first_version_is_kept(self, vault: Vault) -> None:
        vault.put("a", b"first")
        with pytest.raises(Conflict):
            vault.put("a", b"second")
        assert vault.get("a") == b"first"

    def test_a_key_that_is_a_prefix_of_another_is_a_different_key(self, vault: Vault) -> None:
        vault.put("ab", b"longer")
        assert vault.get("a") is None
        assert vault.get("abc") is None
        assert list(vault.list("a")) == ["ab"]


def test_of_two_writers_that_both_found_no_version_one_stores_and_the_other_gets_a_conflict(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = LockedObjects(clients, bucket(clients, ObjectLockEnabledForBucket=True))
    with monkeypatch.context() as raced:
        raced.setattr(vault, "_first_version", lambda _: None)
        vault.put("anchors/a", b"first")
        with pytest.raises(Conflict):
            vault.put("anchors/a", b"second")
    assert vault.get("anchors/a") == b"first"


def test_a_locked_object_is_read_unchanged_after_an_overwrite_and_a_delete(clients: Clients) -> None:
    name = bucket(clients, ObjectLockEnabledForBucket=True)
    vault = LockedObjects(clients, name)
    vault.put("anchors/a", b"true")
    clients.s3.put_object(Bucket=name, Key="anchors/a", Body=b"false")
    assert vault.get("anchors/a") == b"true"
    clients.s3.delete_object(Bucket=name, Key="anchors/a")
    assert vault.get("anchors/a") == b"true"
    assert list(vault.list("anchors/")) == ["anchors/a"]


@pytest.fixture(params=["fake", "objects"])
def sink(request: pytest.FixtureRequest, archive: Archive) -> ArchiveSink:
    if request.param == "fake" and isinstance(archive, FakeArchive):
        return FakeDelivery(archive)
    return ObjectSink(archive)


def test_lines_are_stored_by_cluster_and_day(sink: ArchiveSink, archive: Archive) -> None:
    lines = [LINE, replace(LINE, recorded_at="2026-02-04T00:00:00.000Z"), replace(LINE, cluster="b", stream="b/n-1")]
    sink.put(lines)
    sink.put(lines)
    keys = list(archive.list("archive/"))
    assert [key.rsplit("/", 1)[0] for key in keys] == [
        "archive/cluster=b/day=2026-02-03",
        "archive/cluster=train-a/day=2026-02-03",
        "archive/cluster=train-a/day=2026-02-04",
    ]
    assert [line for key in keys for line in unpack(archive.get(key) or b"")] == [lines[2], lines[0], lines[1]]


class FakeFirehose:
    """Firehose (fake): does not accept the first record of the first `refuse` calls."""

    def __init__(self, refuse: int) -> None:
        self.refuse = refuse
        self.taken: list[bytes] = []
        self.calls: list[int] = []

    def put_record_batch(self, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - AWS's
        self.calls.append(len(Records))
        refused, self.refuse = (1, self.refuse - 1) if self.refuse else (0, 0)
        self.taken += [record["Data"] for record in Records[refused:]]
        answers = [{"ErrorCode": "ServiceUnavailableException"}] * refused + [{"RecordId": "x"}] * len(Records)
        assert DeliveryStreamName == "stream"
        return {"FailedPutCount": refused, "RequestResponses": answers[: len(Records)]}


def deliver(stub: FakeFirehose, count: int) -> None:
    lines = [replace(LINE, sequence=number) for number in range(count)]
    with served("firehose", stub) as clients:
        FirehoseArchiveSink(clients, "stream", retry=replace(RETRY, sleep=lambda _: None)).put(lines)


def test_the_stream_gets_500_lines_per_call_and_each_line_once() -> None:
    stub = FakeFirehose(refuse=0)
    deliver(stub, 1_100)
    assert stub.calls == [500, 500, 100]
    assert len(set(stub.taken)) == 1_100
    assert all(record.endswith(b"\n") for record in stub.taken)


def test_records_that_the_stream_does_not_accept_are_sent_again() -> None:
    stub = FakeFirehose(refuse=2)
    deliver(stub, 3)
    assert stub.calls == [3, 1, 1]
    assert len(stub.taken) == 3


def test_records_that_are_never_accepted_are_an_error() -> None:
    with pytest.raises(Transient, match="1 of 3 entries"):
        deliver(FakeFirehose(refuse=9), 3)

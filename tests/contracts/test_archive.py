"""The Archive, Vault and ArchiveSink ports: the fakes and AWS alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.firehose import FirehoseSink
from faultbridge.adapters.s3 import S3Objects
from faultbridge.adapters.vault import LockedObjects
from faultbridge.archive.write import ObjectSink
from faultbridge.errors import Conflict, Transient
from faultbridge.ports.archive import Archive, ArchiveSink, Vault
from faultbridge.simulation.fakes.archive import FakeArchive, FakeDelivery, FakeVault
from faultbridge.storage.wire.archive_lines import ArchiveLine, unpack
from tests.contracts.aws import fresh

LINE = ArchiveLine(
    "train-a/n-1", "train-a", "n-1", 1, 1, "e-1", "Node Note Recorded", None, None, None,
    "2026-02-03T04:05:06.000Z", '{"metadata":{}}', "0" * 64, "é",
)  # fmt: skip


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
    def test_keys_are_listed_in_order_by_their_beginning(self, archive: Archive) -> None:
        for key in ("b/2", "a/1", "b/1", "b/10"):
            archive.put(key, b"x")
        assert list(archive.list("b/")) == ["b/1", "b/10", "b/2"]
        assert list(archive.list("c")) == []

    def test_more_keys_than_one_answer_holds_are_listed(self, archive: Archive) -> None:
        for number in range(1_003):
            archive.put(f"k/{number:04d}", b"")
        assert len(list(archive.list("k/"))) == 1_003


class TestVault:
    def test_what_came_first_stands(self, vault: Vault) -> None:
        vault.put("a", b"first")
        with pytest.raises(Conflict):
            vault.put("a", b"second")
        assert vault.get("a") == b"first"

    def test_a_key_that_begins_like_another_is_another(self, vault: Vault) -> None:
        vault.put("ab", b"longer")
        assert vault.get("a") is None
        assert vault.get("abc") is None
        assert list(vault.list("a")) == ["ab"]


def test_what_was_put_over_or_deleted_in_a_locked_bucket_is_still_read_as_it_was(clients: Clients) -> None:
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


def test_lines_lie_by_cluster_and_day(sink: ArchiveSink, archive: Archive) -> None:
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


class StubFirehose:
    """Firehose (stub): refuses the records that it is told to, so often."""

    def __init__(self, refuse: int) -> None:
        self.refuse = refuse
        self.taken: list[bytes] = []
        self.calls: list[int] = []

    def put_record_batch(self, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - AWS's
        self.calls.append(len(Records))
        refused, self.refuse = (1, self.refuse - 1) if self.refuse else (0, 0)
        self.taken += [record["Data"] for record in Records[refused:]]
        answers = [{"ErrorCode": "ServiceUnavailableException"}] * refused + [{"RecordId": "x"}] * len(Records)
        return {"FailedPutCount": refused, "RequestResponses": answers[: len(Records)]}


class StubClients:
    def __init__(self, firehose: StubFirehose) -> None:
        self.firehose = firehose


def through(stub: StubFirehose, count: int) -> None:
    lines = [replace(LINE, sequence=number) for number in range(count)]
    FirehoseSink(StubClients(stub), "stream", pause=lambda _: None).put(lines)  # type: ignore[arg-type]


def test_the_delivery_stream_gets_five_hundred_lines_a_call_and_each_once() -> None:
    stub = StubFirehose(refuse=0)
    through(stub, 1_100)
    assert stub.calls == [500, 500, 100]
    assert len(set(stub.taken)) == 1_100
    assert all(record.endswith(b"\n") for record in stub.taken)


def test_what_the_delivery_stream_refuses_is_given_again() -> None:
    stub = StubFirehose(refuse=2)
    through(stub, 3)
    assert stub.calls == [3, 1, 1]
    assert len(stub.taken) == 3


def test_what_it_refuses_again_and_again_is_said() -> None:
    with pytest.raises(Transient, match="1 of 3 entries"):
        through(StubFirehose(refuse=9), 3)

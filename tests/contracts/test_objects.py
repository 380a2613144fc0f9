"""The ObjectStore port: the same tests for the fake and S3."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.objects import S3Objects
from faultbridge.model.errors import Rejected
from faultbridge.record.ports.objects import ObjectStore
from tests.contracts.aws import fresh
from tests.sim.fakes import FakeObjects


@pytest.fixture(params=["fake", "s3"])
def objects(request: pytest.FixtureRequest, clients: Clients) -> ObjectStore:
    if request.param == "fake":
        return FakeObjects()
    name = fresh("bucket")
    clients.s3.create_bucket(Bucket=name)
    return S3Objects(clients, name)


class TestObjects:
    @pytest.mark.parametrize("body", [b"", b"text", bytes(range(256)) * 40])
    def test_bytes_are_read_back_unchanged(self, objects: ObjectStore, body: bytes) -> None:
        objects.put("raw/c/2026-02-03/abc", body)
        assert objects.get("raw/c/2026-02-03/abc") == body

    def test_a_missing_key_returns_none(self, objects: ObjectStore) -> None:
        assert objects.get("raw/c/2026-02-03/none") is None

    def test_storing_the_same_object_again_changes_nothing(self, objects: ObjectStore) -> None:
        objects.put("k", b"same")
        objects.put("k", b"same")
        assert objects.get("k") == b"same"


def test_an_object_above_the_limit_is_rejected_before_it_is_read(clients: Clients) -> None:
    name = fresh("bucket")
    clients.s3.create_bucket(Bucket=name)
    S3Objects(clients, name).put("raw/c/2026-02-03/large", b"12345")
    assert S3Objects(clients, name, max_bytes=5).get("raw/c/2026-02-03/large") == b"12345"
    with pytest.raises(Rejected) as raised:
        S3Objects(clients, name, max_bytes=4).get("raw/c/2026-02-03/large")
    assert raised.value.reason == "too_large"

"""Calls on instances use the role of their account; all other calls stay in this account."""

from __future__ import annotations

import io

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.ports import AwsPorts
from faultbridge.adapters.compute import log_bundle
from faultbridge.domain.cluster.config import HYPERPOD, ClusterConfig, ProviderRole
from faultbridge.errors import Rejected
from faultbridge.ports import BundleState
from faultbridge.settings import Settings
from tests.adapters.stubs import ENVIRONMENT

ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")


def test_calls_on_instances_of_another_account_use_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clients = Clients()
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), clients)
    config = ClusterConfig("train-a", provider_role=ROLE)
    other = ports.for_cluster(config)
    assert ports.for_cluster(config) is other
    assert (ports.compute, other.compute) == (clients, clients.for_role(ROLE))
    assert other.clients is clients


def test_two_hyperpod_clusters_of_one_account_have_ports_of_their_own() -> None:
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), Clients())
    first, second = (
        ports.for_cluster(ClusterConfig(name, provider=HYPERPOD, hyperpod_cluster=name)) for name in ("first", "second")
    )
    assert first is not second


def test_raw_records_above_16_mb_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", "FAULTBRIDGE_BUCKET": "b"}), Clients())
    answer = {"ContentLength": 16 * 1024 * 1024 + 1, "Body": StreamingBody(io.BytesIO(b"x"), 1)}
    with Stubber(ports.clients.s3) as stub:
        stub.add_response("get_object", answer, {"Bucket": "b", "Key": "raw/r-1"})
        with pytest.raises(Rejected, match="too_large"):
            ports.objects.get("raw/r-1")


def test_log_bundles_are_ordered_in_the_account_of_the_instance_and_stored_in_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(log_bundle, "SsmLogCollector", lambda compute, storage, bucket: (compute, storage, bucket))
    clients = Clients()
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", "FAULTBRIDGE_BUCKET": "b"}), clients)
    other = ports.for_cluster(ClusterConfig("train-a", provider_role=ROLE))
    assert other.collector == (clients.for_role(ROLE), clients, "b")


def test_no_command_is_sent_for_the_logs_of_a_hyperpod_node_and_the_bundle_names_where_they_are() -> None:
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", "FAULTBRIDGE_BUCKET": "b"}), Clients())
    config = ClusterConfig(
        "train-b", provider=HYPERPOD, verifier=HYPERPOD, restarter=HYPERPOD, hyperpod_cluster="train-b"
    )
    bundle = ports.for_cluster(config).collector.collect("i-0123456789abcdef0", "c-abc-1")
    assert bundle.state is BundleState.FAILED
    assert "/aws/sagemaker/Clusters/" in bundle.reason

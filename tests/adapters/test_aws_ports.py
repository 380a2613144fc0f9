"""Calls on instances use the role of their account; all other calls stay in this account."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.ports import AwsPorts
from faultbridge.adapters.ec2 import log_bundle
from faultbridge.adapters.slurm import access
from faultbridge.model.cluster.config import HYPERPOD, PARALLEL_CLUSTER, ClusterConfig, ProviderRole
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.settings import Settings
from faultbridge.record.ports.compute import BundleState
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


def test_each_adapter_of_instances_uses_the_role_of_its_cluster() -> None:
    clients = Clients()
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", "FAULTBRIDGE_BUCKET": "b"}), clients)
    other = ports.for_cluster(ClusterConfig("train-a", provider_role=ROLE, hyperpod_cluster="train-a"))
    kinds: tuple[Any, ...] = (other.providers, other.restarters, other.launchers, other.volumes, other.verifiers)
    adapters = [one for kind in kinds for one in kind.values()]
    names = ("_clients", "_cluster", "_records")
    used = [(one, getattr(one, name)) for one in adapters for name in names if hasattr(one, name)]
    assert {id(one) for one, _ in used} == {id(one) for one in adapters}
    role = clients.for_role(ROLE)
    assert [type(one).__name__ for one, given in used if getattr(given, "_clients", given) is not role] == []
    assert kinds[-1]["ssm-pair"]._peers.clients is role


def test_two_hyperpod_clusters_of_one_account_have_ports_of_their_own() -> None:
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), Clients())
    first, second = (
        ports.for_cluster(ClusterConfig(name, provider=HYPERPOD, hyperpod_cluster=name)) for name in ("first", "second")
    )
    assert first is not second


def test_each_cluster_of_parallelcluster_has_the_slurm_of_its_own_head_node() -> None:
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t"}), Clients())
    heads = ("i-0123456789abcdef0", "i-0123456789abcdef1")
    configs = [ClusterConfig(one, provider=PARALLEL_CLUSTER, slurm_head_node=one) for one in heads]
    first, second = map(ports.for_cluster, configs)
    assert first is not second
    assert [one.providers[PARALLEL_CLUSTER]._records.connect().run._instance_id for one in (first, second)] == [*heads]  # type: ignore[attr-defined, union-attr]
    with pytest.raises(Misconfigured, match="no registration"):
        ports.providers[PARALLEL_CLUSTER]._records.connect()  # type: ignore[attr-defined]


def test_raw_records_above_16_mb_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", "FAULTBRIDGE_BUCKET": "b"}), Clients())
    answer = {"ContentLength": 16 * 1024 * 1024 + 1, "Body": StreamingBody(io.BytesIO(b"x"), 1)}
    with Stubber(ports.clients.s3) as stub:
        stub.add_response("get_object", answer, {"Bucket": "b", "Key": "raw/r-1"})
        with pytest.raises(Rejected, match="too_large"):
            ports.objects.get("raw/r-1")


@pytest.mark.parametrize(
    ("setting", "reader"),
    [
        ("WEBHOOK_SENDERS", lambda ports: ports.webhook_senders),
        ("CHAT_WEBHOOKS", lambda ports: ports.chat_webhooks),
        ("ON_CALL", lambda ports: ports.on_call),
        ("JOB_CALLBACKS", lambda ports: ports.job_callbacks["webhook"]._read_document),
        ("SLURM_TOKENS", lambda ports: ports.orchestrators["slurm"]._connect),
    ],
)
def test_a_secret_is_read_again_each_time(
    monkeypatch: pytest.MonkeyPatch, setting: str, reader: Callable[[Any], Callable[[], bytes]]
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(access, "connections", lambda _clients, read_tokens: read_tokens)
    ports = AwsPorts(Settings({"FAULTBRIDGE_TABLE": "t", f"FAULTBRIDGE_{setting}": "s"}), Clients())
    read = reader(ports)
    with Stubber(ports.clients.secrets) as stub:
        for text in ("old", "new"):
            stub.add_response("get_secret_value", {"SecretString": text}, {"SecretId": "s"})
        assert [read(), read()] == [b"old", b"new"]


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

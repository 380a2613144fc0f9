"""Calls about the volumes of a HyperPod cluster: when its ARN is read, and the error of a boto3 without these calls."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.hyperpod.cluster import MINIMUM
from faultbridge.adapters.hyperpod.volumes import HyperPodVolumes
from faultbridge.model.errors import Misconfigured
from tests.adapters.stubs import client_error
from tests.hyperpod import api, hyperpod
from tests.sim.fakes import ManualClock


@pytest.mark.parametrize(("refusals", "reads"), [(0, 1), (1, 2)])
def test_the_arn_is_read_once_for_many_volumes_and_again_after_a_refusal(
    monkeypatch: pytest.MonkeyPatch, refusals: int, reads: int
) -> None:
    with hyperpod(ManualClock()) as (clients, fake):
        described: list[str] = []
        named: list[str] = []
        describe = clients.sagemaker.describe_cluster

        def count(**given: Any) -> Any:
            described.append(given["ClusterName"])
            return describe(**given)

        def attach(**given: Any) -> dict[str, str]:
            named.append(given["ClusterArn"])
            if len(named) <= refusals:
                raise client_error("ResourceNotFound")
            return {}

        monkeypatch.setattr(clients.sagemaker, "describe_cluster", count)
        monkeypatch.setattr(clients.sagemaker_no_retry, "attach_cluster_node_volume", attach)
        mover = HyperPodVolumes(clients, api(clients))
        for number in range(3):
            mover.attach(f"vol-{number}", fake.current()[0].instance_id, None)
    assert (len(described), set(named), len(named)) == (reads, {fake.arn}, 3)


def test_a_boto3_that_lacks_the_calls_about_volumes_is_named_with_the_version_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with hyperpod(ManualClock()) as (clients, fake):
        monkeypatch.setattr(clients, "sagemaker_no_retry", object())
        mover, instance = HyperPodVolumes(clients, api(clients)), fake.current()[0].instance_id
        with pytest.raises(Misconfigured, match=f"lacks attach_cluster_node_volume; .* boto3 {MINIMUM} or newer"):
            mover.attach("vol-1", instance, None)
        with pytest.raises(Misconfigured, match=f"lacks detach_cluster_node_volume; .* boto3 {MINIMUM} or newer"):
            mover.detach("vol-1", instance)

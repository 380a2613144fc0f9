"""The fake HyperPod behind real boto3 clients; botocore checks every request and every answer against its model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from botocore.validate import validate_parameters

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.hyperpod.cluster import HyperPodCluster
from faultbridge.local.hyperpod import ApiError, Durations, FakeHyperPod, FakeSageMaker, Group
from tests.adapters.stubs import ENVIRONMENT
from tests.sim.fakes import ManualClock

NAME, GROUP = "hp-train", "gpu-workers"
AT_ONCE = Durations(timedelta(0), timedelta(0), timedelta(0), timedelta(0))
SLOW = Durations(timedelta(minutes=2), timedelta(minutes=20), timedelta(minutes=3), timedelta(minutes=90))


class Response:
    """The status of an HTTP response, which is all that botocore reads here."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def serve(clients: Clients, sagemaker: FakeSageMaker) -> Clients:
    """Let the fake answer every call of the SageMaker clients."""

    def answer(model: Any, params: Any, **_: Any) -> tuple[Response, dict[str, Any]]:
        try:
            answered = sagemaker.answer(model.name, json.loads(params["body"]))
        except ApiError as error:
            return Response(400), {"Error": {"Code": error.code, "Message": str(error)}}
        validate_parameters(answered, model.output_shape)
        return Response(200), answered

    for client in (clients.sagemaker, clients.sagemaker_no_retry):
        client.meta.events.register("before-call.sagemaker", answer)
    return clients


@contextmanager
def hyperpod(
    clock: ManualClock,
    size: int = 2,
    durations: Durations = SLOW,
    sagemaker: FakeSageMaker | None = None,
    **settings: Any,
) -> Iterator[tuple[Clients, FakeHyperPod]]:
    """A HyperPod cluster of running nodes without automatic recovery, and clients that reach only `sagemaker`."""
    cluster = FakeHyperPod(
        NAME,
        {GROUP: Group(GROUP, "ml.p5.48xlarge")},
        **{"node_recovery": "None", "now": clock.now, "durations": durations, **settings},
    )
    for _ in range(size):
        cluster.launch(GROUP)
    sagemaker = sagemaker or FakeSageMaker()
    sagemaker.clusters[NAME] = cluster
    with mock.patch.dict("os.environ", ENVIRONMENT):
        yield serve(Clients(), sagemaker), cluster


def api(clients: Clients) -> HyperPodCluster:
    return HyperPodCluster(clients, NAME)

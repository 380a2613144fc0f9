"""Patch that gives moto's EKS clusters a working Kubernetes endpoint.

`kubernetes_endpoints`
AWS: `DescribeCluster` returns the address of the cluster's API server and its certificate authority.
moto: the call returns an address without a server, and random bytes as the certificate.
Here: the call returns the address of the fake Kubernetes API (`faultbridge.local.kubernetes`) on the compute plane. It
returns no certificate, because the API is on loopback. The nodes are the running instances with the tag
`kubernetes.io/cluster/<name>`, which EKS requires.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from faultbridge.local.environment import PORT_VARIABLE, endpoint
from faultbridge.local.gaps import patching
from faultbridge.local.gaps.patching import Gap
from faultbridge.local.kubernetes import PATH

CREATE = "moto.eks.models:Cluster|__init__"
EC2 = "moto.ec2.models:ec2_backends"
EKS = "moto.eks.models:eks_backends"


def _has_no_api_server() -> bool:
    return "self.endpoint = ENDPOINT_TEMPLATE" in inspect.getsource(patching.resolve(CREATE))


def _with_fake_endpoint(create: Callable[..., None]) -> Callable[..., None]:
    def initialize(cluster: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - moto's types
        create(cluster, *arguments, **options)
        cluster.endpoint = f"{endpoint(int(os.environ[PORT_VARIABLE]))}{PATH}{cluster.name}"
        cluster.certificate_authority = {}

    return initialize


GAPS = (
    Gap(
        "kubernetes_endpoints",
        (CREATE, EC2, EKS),
        _has_no_api_server,
        lambda: patching.replace(CREATE, _with_fake_endpoint),
    ),
)

"""Where the Kubernetes API of an EKS cluster is.

AWS: `DescribeCluster` gives the address of the cluster's own API server and who signed its certificate.
moto: an address at which nobody answers, and random bytes for a certificate.
Here: the address of a small Kubernetes API (`faultbridge.local.kubernetes`, a fake) on the compute plane itself,
without a certificate because it is loopback. Its nodes are the running instances that bear the tag
`kubernetes.io/cluster/<name>`, as EKS asks for it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from faultbridge.local.environment import PORT_VARIABLE, endpoint
from faultbridge.local.gaps import names as patch
from faultbridge.local.kubernetes import PATH

MAKE = "moto.eks.models:Cluster|__init__"
EC2 = "moto.ec2.models:ec2_backends"
EKS = "moto.eks.models:eks_backends"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (MAKE, EC2, EKS)


def is_open() -> bool:
    """Whether the emulator still names an address of nobody."""
    return "self.endpoint = ENDPOINT_TEMPLATE" in inspect.getsource(patch.resolve(MAKE))


def apply() -> None:
    """Name our own address."""
    patch.replace(MAKE, _here)


def _here(make: Callable[..., None]) -> Callable[..., None]:
    def initialize(cluster: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - moto's types
        make(cluster, *arguments, **options)
        cluster.endpoint = f"{endpoint(int(os.environ[PORT_VARIABLE]))}{PATH}{cluster.name}"
        cluster.certificate_authority = {}

    return initialize

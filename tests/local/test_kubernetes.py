"""The fake Kubernetes API of an EKS cluster, through the product's client."""

from __future__ import annotations

import base64
from uuid import uuid4

import pytest

from faultbridge import local
from faultbridge.adapters.kubernetes.client import ApiAccess, ApiRejection, Kubernetes
from faultbridge.model.errors import Misconfigured
from tests.local.stack import PrivateStack

pytestmark = pytest.mark.embedded


def test_the_running_instances_of_an_eks_cluster_are_its_nodes(tiny_stack: PrivateStack) -> None:
    group = f"fleet-{uuid4().hex[:8]}"
    tags = {f"kubernetes.io/cluster/{group}": "owned"}
    eks = tiny_stack.client("eks")
    eks.create_cluster(name=group, roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={"subnetIds": []})
    stack = tiny_stack.info.stack
    ids = local.create_fleet(group, 2, stack=stack, environment=tiny_stack.environment, tags=tags)
    local.create_fleet(f"{group}-other", 1, stack=stack, environment=tiny_stack.environment)
    endpoint = eks.describe_cluster(name=group)["cluster"]["endpoint"]
    kubernetes = Kubernetes(lambda: ApiAccess(endpoint, None, token()))
    found = [node.spec.providerID for node in kubernetes.nodes() if node.spec and node.spec.providerID]
    assert sorted(one.rpartition("/")[2] for one in found) == sorted(ids)
    with pytest.raises(Misconfigured, match="Unauthorized"):
        list(Kubernetes(lambda: ApiAccess(endpoint, None, "no-token")).nodes())
    with pytest.raises(ApiRejection, match="EKS has no cluster"):
        list(Kubernetes(lambda: ApiAccess(f"{endpoint}-other", None, token())).nodes())


def token() -> str:
    url = "https://sts/?Action=GetCallerIdentity&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id"
    return f"k8s-aws-v1.{base64.urlsafe_b64encode(url.encode()).decode().rstrip('=')}"

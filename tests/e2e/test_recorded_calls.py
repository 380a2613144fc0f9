"""The recording proxy identifies the operation of every call of a function, also of a service without action names."""

from __future__ import annotations

import pytest

from faultbridge.local.environment import ACCOUNT, REGION
from tests.e2e.harness.calls import read_call

SIGNED = f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20260203/{REGION}/eks/aws4_request, SignedHeaders=host, Signature=0"


@pytest.mark.parametrize(
    ("path", "operation", "arguments"),
    [
        ("/clusters/train", "DescribeCluster", {"name": "train"}),
        ("/clusters/train/node-groups", "ListNodegroups", {"name": "train"}),
        ("/clusters/train/node-groups?nextToken=a", "ListNodegroups", {"name": "train"}),
        ("/clusters/train/node-groups/gpu", "DescribeNodegroup", {"name": "train", "nodegroupName": "gpu"}),
    ],
)
def test_a_call_of_eks_is_identified_by_its_path(path: str, operation: str, arguments: dict[str, str]) -> None:
    call = read_call("inventory", "GET", path, {"Authorization": SIGNED}, b"")
    assert (call.name, call.arguments) == (f"eks:{operation}", arguments)

"""Operations that the boto3 of a Lambda runtime may lack, because the layer contains no boto3 of its own."""

from __future__ import annotations

from typing import Any

import botocore

from faultbridge.errors import Misconfigured

MINIMUM = "1.42.88"
"""The first version of boto3 and botocore with every operation that the product calls."""


def newest_operation(client: object, name: str) -> Any:  # noqa: ANN401 - a method of a client, made at run time
    """Return an operation of a client; raises Misconfigured with the minimum version if boto3 does not know it."""
    operation = getattr(client, name, None)
    if operation is None:
        raise Misconfigured(
            f"boto3 {botocore.__version__} of this runtime lacks {name}; "
            f"repairs of HyperPod nodes require boto3 {MINIMUM} or newer: add it to the layer (docs/deploy.md)"
        )
    return operation

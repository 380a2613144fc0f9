"""Check for operations that the boto3 of a Lambda runtime may lack.

Faultbridge's Lambda layer contains no boto3 of its own, so each function uses the version of its runtime.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import botocore

from faultbridge.errors import Misconfigured
from faultbridge.log import log_cause

MINIMUM = "1.42.88"
"""The first version of boto3 and botocore with every operation that the product calls."""


@cache
def report_old_version(version: str = botocore.__version__) -> bool:
    """Log a warning, and return True, if the installed boto3 is too old to repair HyperPod nodes.

    botocore has the same version numbers as boto3, so `version` is by default the version of botocore. The result is
    cached, so a process logs the warning once.
    """
    is_old = _parts(version) < _parts(MINIMUM)
    if is_old:
        reason = f"repairs of HyperPod nodes require boto3 {MINIMUM} or newer: add it to the layer (docs/deploy.md)"
        log_cause("boto3_too_old", reason=reason, level=logging.WARNING, version=version)
    return is_old


def newest_operation(client: object, name: str) -> Any:  # noqa: ANN401 - a method of a client, made at run time
    """Return the method of a boto3 client for an operation that older versions of boto3 lack.

    `name` is the name of the method. Raises Misconfigured with the minimum version if the installed boto3 lacks the
    method.
    """
    operation = getattr(client, name, None)
    if operation is None:
        raise Misconfigured(
            f"boto3 {botocore.__version__} of this runtime lacks {name}; "
            f"repairs of HyperPod nodes require boto3 {MINIMUM} or newer: add it to the layer (docs/deploy.md)"
        )
    return operation


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3])

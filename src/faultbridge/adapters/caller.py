"""Who calls: the ARN under which AWS knows the person at the command line."""

from __future__ import annotations

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients


def caller_arn(clients: Clients) -> str:
    """Return the caller's ARN; it needs no permission."""
    with translated("asking who calls"):
        return clients.sts.get_caller_identity()["Arn"]

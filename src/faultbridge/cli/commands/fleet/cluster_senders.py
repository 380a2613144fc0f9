"""Options of `cluster add` and `cluster set` that name IAM roles: trusted senders, node roles, the provider role."""

from __future__ import annotations

import re

import typer

from faultbridge.domain.cluster.config import ProviderRole

MIN_EXTERNAL_ID, MAX_EXTERNAL_ID = 2, 1224  # the limits of IAM
ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
ROLE_ID = re.compile(r"AROA[A-Z0-9]{12,124}")
SENDER = re.compile(r"A[A-Z0-9]{3,127}(?::[\w+=,.@-]{2,64}|:\*)?")


def senders(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the trusted senders. One empty text removes them all."""
    if given is None:
        return None
    wrong = [one for one in given if not SENDER.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --trusted-sender: {wrong[0]!r}; allowed: ROLE_ID:SESSION or ROLE_ID:*")
    return tuple(dict.fromkeys(filter(None, given)))


def roles(given: list[str] | None) -> tuple[str, ...] | None:
    """Check the node roles. One empty text removes them all."""
    if given is None:
        return None
    wrong = [one for one in given if not ROLE_ID.fullmatch(one)]
    if any(wrong) and given != [""]:
        raise typer.BadParameter(f"invalid --node-role: {wrong[0]!r}; allowed: a role id such as AROAEXAMPLEID123456")
    return tuple(dict.fromkeys(filter(None, given)))


def role(arn: str | None, external_id: str | None) -> ProviderRole | None:
    """Check the role and the external id, and combine them."""
    if arn is None:
        if external_id is not None:
            raise typer.BadParameter("--external-id without --provider-role; give both")
        return None
    if not ROLE_ARN.fullmatch(arn):
        raise typer.BadParameter(f"invalid --provider-role: {arn!r}; give the ARN of an IAM role")
    if external_id is not None and not MIN_EXTERNAL_ID <= len(external_id) <= MAX_EXTERNAL_ID:
        raise typer.BadParameter(
            f"invalid --external-id: {len(external_id)} characters; allowed: {MIN_EXTERNAL_ID} to {MAX_EXTERNAL_ID}"
        )
    return ProviderRole(arn, external_id)

"""Webhook senders: which senders may post records, and how each sender proves its identity."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_bytes
from typing import Any

from faultbridge.model import names
from faultbridge.model.errors import Misconfigured, Rejected

SOURCES = frozenset({"alertmanager", "grafana", "gpud", "faultbridge"})
MIN_SECRET_LENGTH = 16


class Proof(StrEnum):
    """How a sender proves its identity: by a signature, or by a secret in the header `Authorization`.

    A body signature, as Grafana creates it, does not cover the path. A sender with body signatures may therefore have
    only one source, and may share no secret with another sender.
    """

    REQUEST_SIGNATURE = "request-signature"
    BODY_SIGNATURE = "body-signature"
    BEARER = "bearer"
    BASIC = "basic"


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """A configured sender: the cluster and sources of its records, its secrets, and its kind of proof."""

    name: str
    cluster: str
    sources: frozenset[str]
    secrets: tuple[bytes, ...] = field(repr=False)
    proof: Proof = Proof.REQUEST_SIGNATURE

    def secrets_for(self, *proofs: Proof) -> tuple[bytes, ...]:
        """Return the sender's secrets if it uses one of these proofs.

        Otherwise a new random secret is returned, so that every check fails.
        """
        return self.secrets if self.proof in proofs else (token_bytes(32),)


UNKNOWN_SENDER = WebhookSender("-", "-", frozenset(), (token_bytes(32),))
"""Represents every sender that is not configured. No caller has its random secret."""


def senders_of(document: bytes) -> dict[str, WebhookSender]:
    """Parse the JSON document of webhook senders; any other content raises `Misconfigured`.

    The format is `{"NAME": {"cluster": C, "sources": [...], "secrets": [...], "proof": "bearer"}}`. `proof` is
    optional; the default is `request-signature`.
    """
    try:
        written = json.loads(document)
        senders = {name: _sender(name, one) for name, one in written.items()}
        _check_body_signers(senders.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Rejected) as error:
        # The document contains secrets: no part of it may be logged.
        kind = type(error).__name__
        raise Misconfigured(f"the webhook senders cannot be read: {kind}; correct the JSON in the secret") from None
    return senders


def with_sender(document: bytes, sender: WebhookSender) -> bytes:
    """Return the senders' document with a sender added or replaced.

    Raises `Misconfigured` if the document is not valid before or after the change.
    """
    written = {
        "cluster": sender.cluster,
        "sources": sorted(sender.sources),
        "secrets": [secret.decode() for secret in sender.secrets],
        "proof": sender.proof.value,
    }
    changed = json.dumps({**_readable(document), sender.name: written}).encode()
    senders_of(changed)
    return changed


def without_sender(document: bytes, name: str) -> bytes:
    """Return the senders' document without the sender of this name, if it contains one.

    Raises `Misconfigured` if the document is not valid.
    """
    return json.dumps({other: one for other, one in _readable(document).items() if other != name}).encode()


def _readable(document: bytes) -> dict[str, Any]:
    senders_of(document)
    found: dict[str, Any] = json.loads(document)
    return found


def _sender(name: str, written: Mapping[str, Any]) -> WebhookSender:
    secrets = tuple(str(secret).encode() for secret in written["secrets"])
    sources, proof = frozenset(map(str, written["sources"])), Proof(written.get("proof", Proof.REQUEST_SIGNATURE))
    if not secrets or min(map(len, secrets)) < MIN_SECRET_LENGTH or not sources <= SOURCES:
        raise ValueError(name)
    return WebhookSender(name, names.cluster_name(written["cluster"]), sources, secrets, proof)


def _check_body_signers(senders: Collection[WebhookSender]) -> None:
    uses = Counter(secret for sender in senders for secret in set(sender.secrets))
    for sender in senders:
        if sender.proof is not Proof.BODY_SIGNATURE:
            continue
        if len(sender.sources) > 1 or any(uses[secret] > 1 for secret in sender.secrets):
            raise ValueError(sender.name)

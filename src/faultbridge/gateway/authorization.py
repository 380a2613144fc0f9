"""Checks the header `Authorization` of senders that cannot sign, such as Alertmanager."""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import sha256

from faultbridge.errors import Rejected
from faultbridge.gateway.senders import Proof, WebhookSender


def check_authorization(header: str, sender: WebhookSender) -> None:
    """Raise `Rejected` (`unauthorised`) unless the header contains a secret of the sender.

    The header is `Bearer SECRET`, or `Basic` with the sender's name as the user and a secret as the password. The
    sender must be configured for this kind of header (`WebhookSender.proof`).
    """
    scheme, _, given = header.strip().partition(" ")
    if scheme.lower() == "basic":
        found, expected = _basic(given), [_credentials(sender, one) for one in sender.secrets_for(Proof.BASIC)]
    else:
        found, expected = given.strip().encode(errors="replace"), list(sender.secrets_for(Proof.BEARER))
    # Digests have one length, and every secret is compared: the response time depends on neither.
    matches = [hmac.compare_digest(sha256(one).digest(), sha256(found).digest()) for one in expected]
    if not any(matches) or scheme.lower() not in {"basic", "bearer"}:
        raise Rejected(
            "unauthorised", "the credentials do not match; send the sender's token, or its name and password"
        )


def _basic(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded.strip().encode(errors="replace"), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _credentials(sender: WebhookSender, secret: bytes) -> bytes:
    return sender.name.encode(errors="replace") + b":" + secret

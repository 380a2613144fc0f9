"""Webhooks: accepts posts of configured senders, such as Alertmanager, Grafana and gpud."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from secrets import token_bytes

import msgspec
from msgspec import Struct, field

from faultbridge.model import names
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.records import WEBHOOK_SENDER
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.message import Message
from faultbridge.model.storage.writes import Put
from faultbridge.record.ports.table import Clock, Table
from faultbridge.serve.gateway.log_subscription import Forward


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


# Webhook signatures: HMAC-SHA256 over the time, method, path and body of a request.
#
# Grafana signs only the time and the body. Such a signature is accepted only from a sender with a single source, so the
# secret of the sender is valid for one path only.

WINDOW = timedelta(minutes=5)
VERSION = "v1="
_MAX_DIGITS = 11
"""Digits of the latest accepted time, in the year 5138; `datetime` ends with the year 9999."""


def request_content(timestamp: str, method: str, path: str, body: bytes) -> bytes:
    """Return the bytes that a sender must sign: time, method and path on a line each, then the body."""
    return "".join(f"{line}\n" for line in (timestamp, method, path)).encode(errors="replace") + body


def body_content(timestamp: str, body: bytes) -> bytes:
    """Return the bytes that Grafana signs: `<timestamp>:<body>`."""
    return timestamp.encode(errors="replace") + b":" + body


def sign(content: bytes, secret: bytes) -> str:
    """Return the HMAC-SHA256 signature of the content, in hexadecimal digits."""
    return hmac.new(secret, content, "sha256").hexdigest()


def signed_time(timestamp: str, now: datetime) -> datetime:
    """Convert the timestamp of a request, a Unix time in whole seconds, to a datetime.

    Raises `Rejected` (`unauthorised`) for any other text, and for a time that is more than 5 minutes from `now`.
    """
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MAX_DIGITS):
        raise Rejected("unauthorised", "the timestamp is not a Unix time in seconds; send whole seconds")
    signed_at = datetime.fromtimestamp(int(timestamp), UTC)
    if abs(now - signed_at) > WINDOW:
        seconds = int(WINDOW.total_seconds())
        raise Rejected("unauthorised", f"the timestamp is more than {seconds} s from now; check the sender's clock")
    return signed_at


def check_signature(signature: str, content: bytes, secrets: Sequence[bytes]) -> None:
    """Raise `Rejected` (`unauthorised`) unless the signature was made with one of the secrets.

    Several secrets are valid at once, so that a secret can be rotated without lost posts.
    """
    given = signature.removeprefix(VERSION).lower().encode(errors="replace")
    # Every secret is compared, so that the response time does not depend on which one matches.
    matches = [hmac.compare_digest(sign(content, secret).encode(), given) for secret in secrets]
    if not any(matches):
        raise Rejected("unauthorised", "the signature does not match; sign the time, the method, the path and the body")


MAX_BYTES = 1024 * 1024
SENDERS_TTL = timedelta(minutes=5)
REFUSAL_TTL = timedelta(seconds=30)
"""After a refused proof, senders that were read longer ago are read again, so that a new secret works soon."""
MAX_LOGGED = 64
REPEAT_WINDOW = 2 * WINDOW


class WebhookRequest(Struct, frozen=True):
    """One webhook post: its method and body, the sender and source in its path, and the proof of identity."""

    method: str
    sender: str
    source: str
    body: bytes
    timestamp: str
    signature: str
    authorization: str = ""

    @property
    def is_signed(self) -> bool:
        """Return whether the post must have a valid signature.

        The result is True for a post with a signature or a timestamp, and for a post without any credentials.
        """
        return bool(self.signature or self.timestamp or not self.authorization)

    def signed_content(self, sender: WebhookSender) -> bytes:
        """Return the bytes that a valid signature covers, in the format of the sender's kind of signature."""
        if sender.proof is Proof.BODY_SIGNATURE:
            return body_content(self.timestamp, self.body)
        return request_content(self.timestamp, self.method, f"/intake/{self.sender}/{self.source}", self.body)


class Webhooks(Struct):
    """Checks webhook posts and puts their bodies on the queue.

    `read_senders` returns the JSON document of the senders. The document is cached for five minutes. After a refused
    proof, the document is read again if the cached copy is at least 30 seconds old.
    """

    forward: Forward
    table: Table
    clock: Clock
    read_senders: Callable[[], bytes]
    _senders: Mapping[str, WebhookSender] = field(default_factory=dict)
    _read_at: datetime | None = None

    def accept(self, post: WebhookRequest) -> str:
        """Put the body of a post on the queue and return its record id.

        Raises `Rejected` (`too_large`, `unauthorised`, `forbidden`, `replayed` or `empty`). An unknown sender and a
        wrong proof get the same answer, which therefore does not reveal the configured senders.
        """
        try:
            return self._accept(post)
        except Rejected as refused:
            ids = {"sender": post.sender[:MAX_LOGGED], "source": post.source[:MAX_LOGGED]}
            log_cause("webhook_refused", reason=str(refused), level=logging.WARNING, **ids)
            raise

    def _accept(self, post: WebhookRequest) -> str:
        if len(post.body) > MAX_BYTES:
            raise Rejected("too_large", f"the body has {len(post.body)} bytes; at most {MAX_BYTES} are allowed")
        now = self.clock.now()
        sender = self._prove(post, now)
        if post.source not in sender.sources:
            allowed = ", ".join(sorted(sender.sources))
            raise Rejected("forbidden", f"source not allowed: {post.source[:MAX_LOGGED]!r}; allowed: {allowed}")
        if not post.body.strip():
            raise Rejected("empty", "the body is empty; send at least one record")
        if post.is_signed:
            return self._forward_signed(sender, post, now)
        return self._forward_unsigned(sender, post, now)

    def _prove(self, post: WebhookRequest, now: datetime) -> WebhookSender:
        try:
            return _proven(self._senders_read_within(SENDERS_TTL, now), post, now)
        except Rejected:
            if self._read_at is not None and now - self._read_at < REFUSAL_TTL:
                raise
            return _proven(self._senders_read_within(REFUSAL_TTL, now), post, now)

    def _forward_signed(self, sender: WebhookSender, post: WebhookRequest, now: datetime) -> str:
        """Forward a signed post once; a repetition is refused, because it may be a replay attack."""
        record_id = _record_id(sender, post, post.timestamp)
        if self.table.get(keys.webhook(record_id)) is not None:
            raise Rejected("replayed", f"the post was accepted before as {record_id}; do not send it again")
        return self._forward(sender, post, record_id, signed_time(post.timestamp, now), now)

    def _forward_unsigned(self, sender: WebhookSender, post: WebhookRequest, now: datetime) -> str:
        """Forward a post whose sender gave a password or token instead of a signature.

        Time is divided into periods of `REPEAT_WINDOW`. A second post with an equal body in one period is a retry of
        the sender and is not queued again.
        """
        record_id = _record_id(sender, post, str(int(now.timestamp() // REPEAT_WINDOW.total_seconds())))
        if self.table.get(keys.webhook(record_id)) is not None:
            return record_id
        return self._forward(sender, post, record_id, now, now)

    def _forward(
        self, sender: WebhookSender, post: WebhookRequest, record_id: str, sent_at: datetime, now: datetime
    ) -> str:
        name = WEBHOOK_SENDER + sender.name
        self.forward.forward([Message(record_id, post.source, sender.cluster, sent_at, body=post.body, sender=name)])
        # The receipt is written after the queue has the record. A crash in between lets the sender retry. Two copies
        # at the same moment become two messages with one record id, which ingest processes once.
        expires_at = int((now + REPEAT_WINDOW).timestamp())
        self.table.write(Put(items.item(keys.webhook(record_id), now, {"expires_at": expires_at})))
        return record_id

    def _senders_read_within(self, age: timedelta, now: datetime) -> Mapping[str, WebhookSender]:
        if self._read_at is None or now - self._read_at >= age:
            self._senders, self._read_at = senders_of(self.read_senders()), now
        return self._senders


def _proven(senders: Mapping[str, WebhookSender], post: WebhookRequest, now: datetime) -> WebhookSender:
    """Return the sender of a post, or raise `Rejected` (`unauthorised`).

    Unknown senders get the same check and the same answer as senders with a wrong proof.
    """
    sender = senders.get(post.sender, UNKNOWN_SENDER)
    if not post.is_signed:
        check_authorization(post.authorization, sender)
        return sender
    signed_time(post.timestamp, now)
    secrets = sender.secrets_for(Proof.REQUEST_SIGNATURE, Proof.BODY_SIGNATURE)
    check_signature(post.signature, post.signed_content(sender), secrets)
    return sender


def _record_id(sender: WebhookSender, post: WebhookRequest, occasion: str) -> str:
    """Return the record id of a post, which is equal for equal sender, source, occasion and body.

    The occasion is the signed time, or the current period of `REPEAT_WINDOW`.
    """
    identity = f"{sender.name}:{post.source}:{occasion}:".encode() + post.body
    return "web-" + hashlib.sha256(identity).hexdigest()[:32]


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


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookSender:
    """A configured sender: the cluster and sources of its records, its secrets, and its kind of proof."""

    name: str
    cluster: str
    sources: frozenset[str]
    secrets: tuple[bytes, ...] = dataclasses.field(repr=False)
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
        senders = {name: _sender(name, one) for name, one in msgspec.json.decode(document, type=_SENDERS).items()}
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
    secrets = tuple(secret.decode() for secret in sender.secrets)
    written = _Written(sender.cluster, tuple(sorted(sender.sources)), secrets, sender.proof)
    changed = _rendered({**_readable(document), sender.name: written})
    senders_of(changed)
    return changed


def without_sender(document: bytes, name: str) -> bytes:
    """Return the senders' document without the sender of this name, if it contains one.

    Raises `Misconfigured` if the document is not valid.
    """
    return _rendered({other: one for other, one in _readable(document).items() if other != name})


class _Written(Struct, frozen=True):
    cluster: str
    sources: tuple[str, ...]
    secrets: tuple[str, ...]
    proof: Proof = Proof.REQUEST_SIGNATURE


_SENDERS = dict[str, _Written]


def _readable(document: bytes) -> dict[str, _Written]:
    senders_of(document)
    return msgspec.json.decode(document, type=_SENDERS)


def _rendered(senders: Mapping[str, _Written]) -> bytes:
    return json.dumps(msgspec.to_builtins(senders)).encode()


def _sender(name: str, written: _Written) -> WebhookSender:
    secrets, sources = tuple(secret.encode() for secret in written.secrets), frozenset(written.sources)
    if not secrets or min(map(len, secrets)) < MIN_SECRET_LENGTH or not sources <= SOURCES:
        raise ValueError(name)
    return WebhookSender(name, names.cluster_name(written.cluster), sources, secrets, written.proof)


def _check_body_signers(senders: Collection[WebhookSender]) -> None:
    uses = Counter(secret for sender in senders for secret in set(sender.secrets))
    for sender in senders:
        if sender.proof is not Proof.BODY_SIGNATURE:
            continue
        if len(sender.sources) > 1 or any(uses[secret] > 1 for secret in sender.secrets):
            raise ValueError(sender.name)

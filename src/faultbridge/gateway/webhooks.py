"""Webhooks: accepts signed posts from Alertmanager, Grafana, gpud and other senders."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Any

from faultbridge.domain import names
from faultbridge.errors import Misconfigured, Rejected
from faultbridge.gateway.forward import Forward
from faultbridge.gateway.signature import WINDOW, body_content, check_signature, request_content, signed_time
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.wire.message import Message
from faultbridge.storage.writes import Put

SOURCES = frozenset({"alertmanager", "grafana", "gpud", "faultbridge"})
MAX_BYTES = 1024 * 1024
SENDERS_TTL = timedelta(minutes=5)
MIN_SECRET_LENGTH = 16
MAX_LOGGED = 64


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """A configured sender: the cluster and sources of its records, and its secrets, the newest first.

    A sender with `signs_body` signs as Grafana does. It has one source, so its secrets are valid for one path only.
    """

    name: str
    cluster: str
    sources: frozenset[str]
    secrets: tuple[bytes, ...] = field(repr=False)
    signs_body: bool = False


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One post: its method, the names of sender and source from its path, its body, and its signature."""

    method: str
    sender: str
    source: str
    body: bytes
    timestamp: str
    signature: str

    def signed_content(self, sender: WebhookSender) -> bytes:
        """Return the bytes that the sender must have signed."""
        if sender.signs_body:
            return body_content(self.timestamp, self.body)
        return request_content(self.timestamp, self.method, f"/intake/{self.sender}/{self.source}", self.body)


UNKNOWN_SENDER = WebhookSender("-", "-", frozenset(), (token_bytes(32),))
"""Stands for senders that are not configured. No signature matches its random secret."""


@dataclass(slots=True)
class Webhooks:
    """Checks webhook posts and puts their bodies on the queue.

    `read_senders` returns the JSON document of senders, which is cached for five minutes.
    """

    forward: Forward
    table: Table
    clock: Clock
    read_senders: Callable[[], bytes]
    _senders: Mapping[str, WebhookSender] = field(default_factory=dict)
    _read_at: datetime | None = None

    def __call__(self, post: WebhookRequest) -> str:
        """Put the body of a post on the queue and return its record id.

        Raises Rejected `too_large`, `unauthorised`, `forbidden`, `replayed` or `empty`.
        An unknown sender and a wrong signature get the same answer, so that it does not reveal which senders exist.
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
        sender = self._current_senders(now).get(post.sender, UNKNOWN_SENDER)
        signed_at = signed_time(post.timestamp, now)
        check_signature(post.signature, post.signed_content(sender), sender.secrets)
        if post.source not in sender.sources:
            allowed = ", ".join(sorted(sender.sources))
            raise Rejected("forbidden", f"source not allowed: {post.source[:MAX_LOGGED]!r}; allowed: {allowed}")
        if not post.body.strip():
            raise Rejected("empty", "the body is empty; send at least one record")
        return self._forward_once(sender, post, signed_at, now)

    def _forward_once(self, sender: WebhookSender, post: WebhookRequest, signed_at: datetime, now: datetime) -> str:
        identity = f"{sender.name}:{post.source}:{post.timestamp}:".encode() + post.body
        record_id = "web-" + hashlib.sha256(identity).hexdigest()[:32]
        receipt = keys.webhook(record_id)
        if self.table.get(receipt) is not None:
            raise Rejected("replayed", f"the post was accepted before as {record_id}; do not send it again")
        self.forward([Message(record_id, post.source, sender.cluster, signed_at, body=post.body)])
        # The receipt is written after the queue has the record. A crash in between lets the sender retry. Two copies
        # at the same moment become two messages with one record id, which ingest processes once.
        expires_at = int((now + 2 * WINDOW).timestamp())
        self.table.write(Put(items.item(receipt, now, {"expires_at": expires_at})))
        return record_id

    def _current_senders(self, now: datetime) -> Mapping[str, WebhookSender]:
        if self._read_at is None or now - self._read_at >= SENDERS_TTL:
            self._senders, self._read_at = senders_of(self.read_senders()), now
        return self._senders


def senders_of(document: bytes) -> dict[str, WebhookSender]:
    """Parse the JSON document of webhook senders. Raises Misconfigured for other content.

    Its format is `{"NAME": {"cluster": C, "sources": [...], "secrets": [...], "signs": "request"}}`. `signs` is
    optional; `body` is for Grafana and requires exactly one source and secrets that no other sender has.
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


def _sender(name: str, written: Mapping[str, Any]) -> WebhookSender:
    secrets = tuple(str(secret).encode() for secret in written["secrets"])
    sources, signs_body = frozenset(map(str, written["sources"])), _SIGNS_BODY[written.get("signs", "request")]
    if not secrets or min(map(len, secrets)) < MIN_SECRET_LENGTH or not sources <= SOURCES:
        raise ValueError(name)
    return WebhookSender(name, names.cluster_name(written["cluster"]), sources, secrets, signs_body)


def _check_body_signers(senders: Collection[WebhookSender]) -> None:
    """Raise ValueError unless each signature of a body alone is valid for one sender and one source."""
    uses = Counter(secret for sender in senders for secret in set(sender.secrets))
    for sender in senders:
        if sender.signs_body and (len(sender.sources) > 1 or any(uses[secret] > 1 for secret in sender.secrets)):
            raise ValueError(sender.name)


_SIGNS_BODY: Mapping[str, bool] = {"request": False, "body": True}

"""Webhooks: accepts signed posts from Alertmanager, Grafana, gpud and other senders."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain import names
from faultbridge.errors import Misconfigured, Rejected
from faultbridge.gateway.forward import Forward
from faultbridge.gateway.signature import WINDOW, check
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
    """A configured sender: the cluster and sources of its records, and its secrets, the newest first."""

    name: str
    cluster: str
    sources: frozenset[str]
    secrets: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One post: the names of sender and source from its path, its body, and its signature."""

    sender: str
    source: str
    body: bytes
    timestamp: str
    signature: str


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
        sender = self._current_senders(now).get(post.sender)
        secrets = sender.secrets if sender else (b"no sender",)
        signed_at = check(post.timestamp, post.body, post.signature, secrets, now)
        if sender is None:
            raise Rejected("unauthorised", "the signature does not match this body; sign `<timestamp>:<body>`")
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

    Its format is `{"NAME": {"cluster": C, "sources": [...], "secrets": [...]}}`.
    """
    try:
        written = json.loads(document)
        return {name: _sender(name, one) for name, one in written.items()}
    except (ValueError, KeyError, TypeError, AttributeError, Rejected) as error:
        # The document contains secrets: no part of it may be logged.
        kind = type(error).__name__
        raise Misconfigured(f"the webhook senders cannot be read: {kind}; correct the JSON in the secret") from None


def _sender(name: str, written: Mapping[str, Any]) -> WebhookSender:
    secrets = tuple(str(secret).encode() for secret in written["secrets"])
    sources = frozenset(map(str, written["sources"]))
    if not secrets or min(map(len, secrets)) < MIN_SECRET_LENGTH or not sources <= SOURCES:
        raise ValueError(name)
    return WebhookSender(name, names.cluster_name(written["cluster"]), sources, secrets)

"""Webhooks: what Alertmanager, Grafana, gpud and others post, each signed with the secret of its sender."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain import names
from faultbridge.errors import Misconfigured, Rejected
from faultbridge.gateway.forward import Forward
from faultbridge.gateway.signature import WINDOW, check
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.wire.message import Message
from faultbridge.storage.writes import Put

SOURCES = frozenset({"alertmanager", "grafana", "gpud", "faultbridge"})
MAX_BYTES = 1024 * 1024
READ_AGAIN = timedelta(minutes=5)
SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Who may post: the cluster that it speaks of, the sources that it speaks in, and its secrets, newest first."""

    name: str
    cluster: str
    sources: frozenset[str]
    secrets: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Post:
    """One request: who says to have sent it, in which source, and its proof."""

    sender: str
    source: str
    body: bytes
    timestamp: str
    signature: str


@dataclass(slots=True)
class Webhooks:
    """Takes posts; `read_senders` returns the JSON document of senders, which is read again every five minutes."""

    forward: Forward
    table: Table
    clock: Clock
    read_senders: Callable[[], bytes]
    _senders: Mapping[str, WebhookSender] = field(default_factory=dict)
    _read_at: datetime | None = None

    def __call__(self, post: Post) -> str:
        """Put a post on the queue and return its record id; Rejected says why it was refused.

        Reasons: `too_large`, `unauthorised`, `forbidden`, `replayed`, `empty`. Who is refused before the proof was
        looked at learns no more than that.
        """
        if len(post.body) > MAX_BYTES:
            raise Rejected("too_large", f"a body has at most {MAX_BYTES} bytes")
        now = self.clock.now()
        sender = self._known(now).get(post.sender)
        secrets = sender.secrets if sender else (b"nobody's",)
        signed_at = check(post.timestamp, post.body, post.signature, secrets, now)
        if sender is None:
            raise Rejected("unauthorised", "the signature is not that of this body")
        if post.source not in sender.sources:
            raise Rejected("forbidden", f"{sender.name} does not speak in {post.source[:64]!r}")
        if not post.body.strip():
            raise Rejected("empty", "the body holds nothing")
        return self._take(sender, post, signed_at, now)

    def _take(self, sender: WebhookSender, post: Post, signed_at: datetime, now: datetime) -> str:
        proof = f"{sender.name}:{post.source}:{post.timestamp}:".encode() + post.body
        record_id = "web-" + hashlib.sha256(proof).hexdigest()[:32]
        place = keys.webhook(record_id)
        if self.table.get(place) is not None:
            raise Rejected("replayed", "this post was taken already")
        self.forward([Message(record_id, post.source, sender.cluster, signed_at, body=post.body)])
        # Noted only once the queue has it: a post that is lost in between may come again, one that comes twice at the
        # same moment is one record twice, which counts once, and whoever notes it last says the same of it.
        ends = int((now + 2 * WINDOW).timestamp())
        self.table.write(Put(items.item(place, now, {"expires_at": ends})))
        return record_id

    def _known(self, now: datetime) -> Mapping[str, WebhookSender]:
        if self._read_at is None or now - self._read_at >= READ_AGAIN:
            self._senders, self._read_at = senders_of(self.read_senders()), now
        return self._senders


def senders_of(document: bytes) -> dict[str, WebhookSender]:
    """Read `{"NAME": {"cluster": C, "sources": [...], "secrets": [...]}}`; Misconfigured when it is none."""
    try:
        written = json.loads(document)
        return {name: _sender(name, one) for name, one in written.items()}
    except (ValueError, KeyError, TypeError, AttributeError, Rejected) as error:
        # The document holds secrets: no part of it may come into a log.
        raise Misconfigured(f"the senders of webhooks cannot be read ({type(error).__name__})") from None


def _sender(name: str, written: Mapping[str, Any]) -> WebhookSender:
    secrets = tuple(str(secret).encode() for secret in written["secrets"])
    sources = frozenset(map(str, written["sources"]))
    if not secrets or min(map(len, secrets)) < SHORTEST_SECRET or not sources <= SOURCES:
        raise ValueError(name)
    return WebhookSender(name, names.cluster_name(written["cluster"]), sources, secrets)

"""`faultbridge webhook`: adds and removes senders, such as Alertmanager, that may post records."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import Annotated

from faultbridge.cli.commands.options import ClusterOption, YesOption, confirm
from faultbridge.cli.declare import Argument, Option, command
from faultbridge.cli.render.output import Columns, Document, fields
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession
from faultbridge.model import names
from faultbridge.model.errors import UnknownName
from faultbridge.model.values import replace
from faultbridge.serve.gateway.webhooks import Proof, WebhookSender, senders_of, with_sender, without_sender

SECRET_BYTES = 32
KEPT_SECRETS = 2
"""Number of valid secrets of a sender: the newest one, and the previous one until the next rotation."""

SENDERS: Columns = fields("SENDER, CLUSTER, PROOF, SECRETS, SOURCES:list")
ADDED: Columns = fields("Sender, Cluster, Proof, URL=urls:lines, Secret") | {
    "Secret": lambda one: f"{one['secret']} (not shown again)"
}

SenderArgument = Annotated[str, Argument("SENDER", "Name of the sender; part of its URL.")]


class Source(StrEnum):
    """The sources whose records may be posted to the webhook."""

    ALERTMANAGER = "alertmanager"
    GRAFANA = "grafana"
    GPUD = "gpud"
    FAULTBRIDGE = "faultbridge"


@command("webhook add", "prometheus --cluster train-a --source alertmanager")
def add(
    session: ChangingSession,
    sender: SenderArgument,
    cluster: ClusterOption,
    source: Annotated[list[Source], Option(help="What the sender posts. Repeatable.")],
    proof: Annotated[Proof, Option(help="How the sender proves itself.")] = Proof.BEARER,
    yes: YesOption = False,
) -> None:
    """Add or replace a sender with a new secret, and print its URLs and the secret once.

    The command asks for confirmation before it replaces a sender, because the old secrets become invalid; `webhook
    rotate` keeps the previous secret. With `--proof basic`, the user is the name of the sender, and the password is the
    secret.
    """
    session.directory.cluster(cluster)  # refuses a cluster that is not registered
    if sender in senders_of(session.webhook_senders()):
        confirm(f"the secrets of {sender} become invalid", yes=yes)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    sources = frozenset(one.value for one in source)
    _store(session, WebhookSender(names.cluster_name(sender), cluster, sources, (secret.encode(),), proof), secret)


@command("webhook rotate", "prometheus")
def rotate(session: ChangingSession, sender: SenderArgument) -> None:
    """Give a sender a new secret. The previous secret stays valid until the next rotation."""
    known, secret = _known(session, sender), secrets.token_urlsafe(SECRET_BYTES)
    _store(session, replace(known, secrets=(secret.encode(), *known.secrets)[:KEPT_SECRETS]), secret)


@command("webhook list")
def list_senders(session: StackSession) -> None:
    """List the senders that may post records, without their secrets."""
    session.show([_document(one) for one in senders_of(session.webhook_senders()).values()], SENDERS)


@command("webhook remove", "prometheus")
def remove(session: ChangingSession, sender: SenderArgument, yes: YesOption = False) -> None:
    """Remove a sender. Its posts are refused after at most five minutes."""
    known = _known(session, sender)
    confirm(f"posts of {sender} are refused", yes=yes)
    session.webhook_senders.replace(without_sender(session.webhook_senders(), sender))
    session.show([_document(known)], SENDERS)


def _known(session: Session, name: str) -> WebhookSender:
    found = senders_of(session.webhook_senders()).get(name)
    if found is None:
        raise UnknownName("sender", name)
    return found


def _store(session: Session, sender: WebhookSender, secret: str) -> None:
    session.webhook_senders.replace(with_sender(session.webhook_senders(), sender))
    base = f"{session.settings.api_url}/intake/{sender.name}"
    urls = [f"{base}/{source}" for source in sorted(sender.sources)]
    session.show_one({**_document(sender), "urls": urls, "secret": secret}, ADDED)


def _document(sender: WebhookSender) -> Document:
    return {
        "sender": sender.name,
        "cluster": sender.cluster,
        "proof": sender.proof.value,
        "sources": sorted(sender.sources),
        "secrets": len(sender.secrets),
    }

"""Trust: check whether the sender of a record may report about a node.

An instance may report only about itself. A collector that is listed in the cluster's `trusted_senders` may report about
every node of the cluster.

SQS stores the sender of each message. If the sender is a role, it is stored as `<role id>:<session name>`. EC2 sets the
session name of an instance role to the instance id, but a caller of AssumeRole can choose any session name. Therefore,
the role must be one of the cluster's `node_roles`; only an EC2 cluster without known `node_roles` accepts any role. In
addition, the queue accepts sessions that are named like an instance only with credentials that EC2 gave to an instance
(docs/threat-model.md).

The intake function checks the secret of a webhook post and names its sender in the message. This sender may report
about every node of its cluster, as a listed collector may. Each of its reports is a claim, because every client that
has the secret can send it.

The sender of a record does not prove which program wrote a line of it. A fault from text of syslog is therefore a
claim, also if the node itself sent the record (`is_claim`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from faultbridge.model import names
from faultbridge.model.cluster.config import HYPERPOD, ClusterConfig
from faultbridge.model.faults import Clear, Fault, Observation
from faultbridge.model.nodes import AliasRow
from faultbridge.model.records import OF_SYSLOG, WEBHOOK_SENDER, RawRecord
from faultbridge.model.values import replace

EVENT_BUS = "events.amazonaws.com"
"""The sender of every message on the queue that only EventBridge can send to."""

AWS_SOURCES = frozenset({"ec2-event", "ec2-status", "health-event", "hyperpod-event"})
"""Sources that AWS itself reports. A record of such a source that another sender sends is a claim."""

ANY_SESSION = "*"


class Trust(Struct, frozen=True):
    """The sender checks of an installation, if `required`; only EventBridge can send to `events_queue`."""

    required: bool = False
    own: frozenset[str] = frozenset()
    events_queue: str | None = None

    def sender(self, delivered_by: str | None, claimed: str | None) -> str | None:
        """Return the original sender: `claimed` if a function of the installation delivered the message."""
        return claimed if claimed and self._is_own(delivered_by) else delivered_by

    def received_at(self, delivered_by: str | None, claimed: datetime | None, delivered_at: datetime) -> datetime:
        """Return when a record was first received: `claimed`, at most `delivered_at`, unless an instance sent it."""
        if claimed is None or (self.required and instance_of(delivered_by) is not None):
            return delivered_at
        return min(claimed, delivered_at)

    def with_sender_instance(self, record: RawRecord) -> RawRecord:
        """Return the record; if it names no instance and checks are required, its sender's instance is added."""
        if not self.required or record.instance_id is not None:
            return record
        return replace(record, instance_id=instance_of(record.sender))

    def refusal(
        self, record: RawRecord, config: ClusterConfig, row: AliasRow | None, others: Iterable[AliasRow]
    ) -> str | None:
        """Return why the sender may not report about the node; an instance may not name another node."""
        if self._is_trusted(record.sender, config):
            return None
        refusal = self.refusal_of_sender(record.sender, str(record.instance_id), config)
        foreign = [other.key.stream for other in others if row is not None and other.key != row.key]
        if refusal is None and foreign:
            return f"{instance_of(record.sender)} may report only about itself, not about {foreign[0]}"
        return refusal

    def is_claim(self, record: RawRecord, config: ClusterConfig, row: AliasRow, others: Iterable[AliasRow]) -> bool:
        """Return whether a record is only a claim, which a verification of the node must confirm.

        Without sender checks, and for EventBridge and the functions of the installation, the result is False.
        Otherwise, it is True for a webhook, for a listed sender that does not prove to be the node, and for a record in
        the name of AWS. `row` is the alias row of the node. `others` are the alias rows of the other names in the
        record.
        """
        if not self.required or record.sender == EVENT_BUS or self._is_own(record.sender):
            return False
        if _is_webhook(record.sender) or record.source in AWS_SOURCES:
            return True
        unlisted = replace(config, trusted_senders=())
        proven = role_of(record.sender) in config.node_roles and self.refusal(record, unlisted, row, others) is None
        return not proven and _is_listed(record.sender, config)

    def refusal_of_sender(self, sender: str | None, instance_id: str | None, config: ClusterConfig) -> str | None:
        """Return why a sender is refused, or None if the body must be read to decide."""
        if self._is_trusted(sender, config):
            return None
        instance = instance_of(sender)
        if instance is None:
            return f"untrusted sender: {sender or 'none'}; add it to trusted_senders of {config.cluster}"
        role = role_of(sender)
        if role not in config.node_roles and (config.node_roles or config.provider == HYPERPOD):
            # HyperPod names the sessions of its nodes `SageMaker`: one that is named like an instance is forged.
            return f"{role} is not a role of the nodes of {config.cluster}; `cluster set --node-role` adds it"
        if instance_id not in (None, instance):
            return f"{instance} may report only about itself, not about {instance_id}"
        return None

    def refusal_of_report(self, sender: str | None, config: ClusterConfig) -> str | None:
        """Return why a sender may not report jobs, which run on many nodes: it is a single instance."""
        if self._is_trusted(sender, config):
            return None
        return f"{sender or 'none'} may not report jobs; add it to trusted_senders of {config.cluster}"

    def refusal_of_canary(self, sender: str | None) -> str | None:
        """Return why a sender is not a function of the installation, which may send canaries, or None."""
        if not self.required or self._is_own(sender):
            return None
        return f"{sender or 'none'} may not send canaries; only the functions of the installation send them"

    def _is_trusted(self, sender: str | None, config: ClusterConfig) -> bool:
        is_proven = sender == EVENT_BUS or self._is_own(sender) or _is_webhook(sender)
        return not self.required or is_proven or _is_listed(sender, config)

    def _is_own(self, sender: str | None) -> bool:
        role, _, session = (sender or "").partition(":")
        return bool(session) and role in self.own


TRUST_ALL = Trust()


def is_claim(observation: Observation) -> bool:
    """Return whether an observation is from text of syslog, so that any program can have written it."""
    return isinstance(observation, Fault | Clear) and OF_SYSLOG.items() <= observation.attributes.items()


def instance_of(sender: str | None) -> str | None:
    """Return the instance id of a sender that is an instance role, or None for any other sender."""
    role, _, session = (sender or "").partition(":")
    return session if role.startswith("AROA") and names.INSTANCE_ID.fullmatch(session) else None


def role_of(sender: str | None) -> str:
    """Return the role id of a sender, which is the text before its first colon."""
    return (sender or "").partition(":")[0]


def _is_webhook(sender: str | None) -> bool:
    return sender is not None and sender.startswith(WEBHOOK_SENDER)


def _is_listed(sender: str | None, config: ClusterConfig) -> bool:
    role, _, session = (sender or "").partition(":")
    any_session = f"{role}:{ANY_SESSION}" if session else None
    return any(listed in {sender, any_session} for listed in config.trusted_senders)

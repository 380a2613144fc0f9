"""Trust: who sent a record, and may that sender speak of this node? A node speaks of itself, a collector of all.

The queue notes with each message who sent it. For a role it is `<role id>:<session name>`, and EC2 names the session of
an instance's role after the instance; nobody on the instance can choose another name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from faultbridge.domain import names
from faultbridge.domain.aliases import AliasRow
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.records import RawRecord

EVENT_BUS = "events.amazonaws.com"
"""The sender of what came through the queue on which only EventBridge may put."""

ANY_SESSION = "*"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom an installation believes: nothing is checked unless `required`; `own` are the role ids of its functions.

    `events_queue` is the ARN of the queue on which only EventBridge may put.
    """

    required: bool = False
    own: frozenset[str] = frozenset()
    events_queue: str | None = None

    def sender(self, delivered_by: str | None, claimed: str | None) -> str | None:
        """Return who first sent a record: whoever delivered it, or whom our own function says when it sends again."""
        return claimed if claimed and self._is_own(delivered_by) else delivered_by

    def proven(self, record: RawRecord) -> RawRecord:
        """Return the record with the instance that its sender proves, where it names none itself."""
        if not self.required or record.instance_id is not None:
            return record
        return replace(record, instance_id=instance_of(record.sender))

    def objection(
        self, record: RawRecord, config: ClusterConfig, row: AliasRow | None, others: Iterable[AliasRow]
    ) -> str | None:
        """Say why a sender may not speak of a node, or None; `others` are where the record's other names lead."""
        if not self.required or record.sender == EVENT_BUS or self._is_own(record.sender):
            return None
        instance = instance_of(record.sender)
        if instance is None:
            return None if _listed(record.sender, config) else f"{record.sender or 'nobody'} is no trusted sender"
        if record.instance_id != instance and not _listed(record.sender, config):
            return f"{instance} speaks of {record.instance_id}"
        elsewhere = [other.key.stream for other in others if row is not None and other.key != row.key]
        return f"{instance} speaks of {elsewhere[0]}" if elsewhere and not _listed(record.sender, config) else None

    def _is_own(self, sender: str | None) -> bool:
        role, _, session = (sender or "").partition(":")
        return bool(session) and role in self.own


BELIEVE_ALL = Trust()


def instance_of(sender: str | None) -> str | None:
    """Return the instance whose role sent, or None where the sender is something else."""
    role, _, session = (sender or "").partition(":")
    return session if role.startswith("AROA") and names.INSTANCE_ID.fullmatch(session) else None


def _listed(sender: str | None, config: ClusterConfig) -> bool:
    role, _, session = (sender or "").partition(":")
    exact, whole_role = sender, f"{role}:{ANY_SESSION}" if session else None
    return any(listed in {exact, whole_role} for listed in config.trusted_senders)

"""All doors of the intake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.ports import Clock, ObjectStore, RecordQueue, Table
from faultbridge.services.intake.forward import Forward
from faultbridge.services.intake.subscription import Subscription
from faultbridge.services.intake.webhooks import Webhooks


@dataclass(frozen=True, slots=True)
class Intake:
    """The doors beside the queue itself."""

    webhooks: Webhooks
    subscription: Subscription


def doors(
    queue: RecordQueue, objects: ObjectStore, table: Table, clock: Clock, read_senders: Callable[[], bytes]
) -> Intake:
    """Make the doors that lead onto a queue."""
    forward = Forward(queue, objects)
    return Intake(Webhooks(forward, table, clock, read_senders), Subscription(forward, clock))

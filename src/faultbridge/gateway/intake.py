"""All doors of the intake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.gateway.forward import Forward
from faultbridge.gateway.log_subscription import Subscription
from faultbridge.gateway.webhooks import Webhooks
from faultbridge.ports import Clock, ObjectStore, RecordQueue, Table


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

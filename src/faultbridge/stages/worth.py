"""Worth: whether what a node has become must be written, when nothing of it goes on the record.

A write each minute for each healthy node is most of what a fleet would cost. So two watermarks are kept only so
precisely: a condition that is only heard of again to a minute, the last survey of a source that asserts nothing to
five. What is lost by that: `count` is a lower bound, and a faulty survey that the queue delivers behind a clean one
of the same five minutes opens a condition, which the next survey clears.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.domain.conditions import Condition
from faultbridge.domain.nodes import NodeState

REPEAT_KEPT = timedelta(minutes=1)
SURVEY_KEPT = timedelta(minutes=5)
COUNTED_EACH = 16


def worth_writing(before: NodeState, after: NodeState) -> bool:
    """Tell whether anything but a watermark moved, or a watermark moved far."""
    if replace(after, conditions=before.conditions, surveys=before.surveys, due_at=before.due_at) != before:
        return True
    if after.conditions.keys() != before.conditions.keys() or after.surveys.keys() != before.surveys.keys():
        return True
    asserting = {source for condition in after.conditions.values() for source in condition.witnesses}
    if any(
        at - before.surveys[source] > (timedelta(0) if source in asserting else SURVEY_KEPT)
        for source, at in after.surveys.items()
    ):
        return True
    return any(_moved(before.conditions[key], condition) for key, condition in after.conditions.items())


def _moved(before: Condition, after: Condition) -> bool:
    # The first few are counted one by one: a rule may ask for that many in an hour.
    if before.count < COUNTED_EACH and after.count > before.count:
        return True
    if after.last_at - before.last_at > REPEAT_KEPT or after.witnesses.keys() != before.witnesses.keys():
        return True
    heard = {
        source: replace(witness, last_at=before.witnesses[source].last_at, digests=before.witnesses[source].digests)
        for source, witness in after.witnesses.items()
    }
    return replace(after, last_at=before.last_at, count=before.count, hours=before.hours, witnesses=heard) != before

"""Joining: what a second fault adds to a condition, and what it leaves as it was."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

from faultbridge.domain.conditions import Condition
from faultbridge.domain.faults import Action, Severity
from faultbridge.stages.joining import begun, repeated
from tests.builders import CATALOGUE, NOON, arrival, fault

SAID_ANEW = {"since", "last_at", "count", "hours", "known_incarnation", "witnesses", "told_severity", "told_action"}


def test_a_repetition_keeps_everything_that_it_does_not_say_anew():
    told = fault(severity=Severity.FATAL, action=Action.REPLACE_NODE)
    first = begun(told.code, CATALOGUE.row(told.code), told, arrival(told), None)
    kept = {one.name: object() for one in fields(Condition) if one.name not in SAID_ANEW}
    known = Condition(**{one.name: kept.get(one.name, getattr(first, one.name)) for one in fields(Condition)})
    after = repeated(known, told, arrival(told, NOON + timedelta(minutes=1)))
    assert {name: getattr(after, name) for name in kept} == kept
    assert (after.count, after.last_at - after.since) == (2, timedelta(minutes=1))

"""Which events want a person: one row a kind of page.

A trouble that the machine cures by itself is a notice at most. What it cannot cure is urgent, always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.pager.case_rules import CASE_RULES
from faultbridge.pager.cluster_rules import CLUSTER_RULES
from faultbridge.pager.page import PageState
from faultbridge.pager.page_rule import PageRule

RULES: tuple[PageRule, ...] = (*CASE_RULES, *CLUSTER_RULES)

EVENT_TYPES = tuple(dict.fromkeys(rule.event_type for rule in RULES))


def rules_for(event: Mapping[str, Any]) -> Iterator[PageRule]:
    """Find every page that an event asks for; ends come first, so that a trouble has one live key at a time."""
    event_type, data = str(event["metadata"]["event_type"]), event.get("data") or {}
    found = (rule for rule in RULES if data and rule.covers(event_type, data))
    return iter(sorted(found, key=lambda rule: rule.state is PageState.TRIGGERED))

"""Kinds of pages as data: the events that trigger or resolve a page, its key and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import EntryType
from faultbridge.pager.page import PageState
from faultbridge.ports import PageUrgency

TIMELINE = "faultbridge timeline --cluster {cluster} --case {case}"
CASE_SHOW = "faultbridge case show {case}"
NODE_SHOW = "faultbridge node show {node} --cluster {cluster}"
INCIDENT_SHOW = "faultbridge incident show {incident_id}"
CLUSTER_SHOW = "faultbridge cluster show {cluster}"
CLUSTER_TIMELINE = "faultbridge timeline --cluster {cluster} --since 1h"
NO_ACTION = "None."

Condition = Mapping[str, frozenset[str | bool | None]]
"""Fields of `data` and their allowed values; None is the JSON null."""


@dataclass(frozen=True, slots=True)
class PageRule:
    """The events that trigger or resolve one kind of page, and the texts of the page.

    - `state` is `triggered` if the events trigger the page, and `resolved` if the events resolve the page.
    - `kind` is the name of the kind of page.
    - `when` maps fields of `data` in the event to the allowed values.
    - `by_operator` is True if the rule applies only to events that an operator caused, and False if the rule applies
      only to all other events. None means that the cause of an event does not matter.
    - If `postponed` is True, a page that is triggered during a maintenance of the cluster is sent after its end.
      However, the page is sent at once if an earlier page of the kind `replaces` about the same incident was sent.
    - If `repeated` is True, each event that triggers the page sends it again. The page has the key of another page, so
      its last state is stored in a record of its own, and that page gets its text for reminders.
    - Texts may contain `{case}`, `{cluster}`, `{node}`, `{status}` (of the node), the name of each scalar field of
      `data` and of its `facts`, and the placeholders that `compose.write_page` adds.
    """

    kind: str
    event_type: str
    when: Condition
    state: PageState
    headline: str
    system_action: str
    commands: tuple[str, ...]
    runbook: str
    action_required: str = NO_ACTION
    urgency: PageUrgency = PageUrgency.URGENT
    by_operator: bool | None = None
    postponed: bool = False
    replaces: str | None = None
    repeated: bool = False

    def applies_to(self, event: Mapping[str, Any]) -> bool:
        """Return whether the rule applies to an event; False for an event without data."""
        metadata, data = event["metadata"], event.get("data") or {}
        if self.by_operator is not None and self.by_operator is not (metadata.get("recorded_by") == Actor.CLI):
            return False
        same_type = bool(data) and metadata["event_type"] == self.event_type
        return same_type and all(data.get(field) in allowed for field, allowed in self.when.items())

    def replaced_key(self, event: Mapping[str, Any]) -> str | None:
        """Return the key of the earlier page that this page replaces, or None if it replaces none."""
        return replace(self, kind=self.replaces).key(event) if self.replaces else None

    def record_key(self, event: Mapping[str, Any]) -> str:
        """Return the page key under which the last state of the page is stored."""
        return f"{self.key(event)}:repeated" if self.repeated else self.key(event)

    def key(self, event: Mapping[str, Any]) -> str:
        """Return the page key. A trigger, its repetitions and its resolve have the same key.

        The parts of the key depend on the event:

        - Change of a breaker or of another limit of repairs: cluster, `kind` in the event's data, and failure domain,
          source or fault code if there is one.
        - Incident: cluster, kind of page, incident id.
        - Any other page: case id (the stream if there is no case), kind of page.
        """
        metadata, data = event["metadata"], event["data"]
        match self.event_type:
            case EntryType.CLUSTER_SAFETY:
                about = data.get("domain") or data.get("source") or data.get("code")
                parts = (metadata["cluster"], str(data.get("kind")), about)
            case EntryType.CLUSTER_INCIDENT:
                parts = (metadata["cluster"], self.kind, data.get("incident_id"))
            case _:
                parts = (metadata.get("case_id") or metadata["stream"], self.kind, None)
        return ":".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class PageKind:
    """The data shared by all rules of one kind of page, such as name, event type, commands and runbook.

    If `postponed` is True, a page that is triggered during a maintenance of the cluster is sent after its end. However,
    a page that replaces a sent page of the kind `replaces` is sent at once.
    """

    name: str
    event_type: str
    commands: tuple[str, ...]
    runbook: str
    urgency: PageUrgency = PageUrgency.URGENT
    postponed: bool = False
    replaces: str | None = None
    repeated: bool = False

    def triggered(self, when: Condition, headline: str, system_action: str, action_required: str) -> PageRule:
        """Return the rule for the events that trigger this kind of page."""
        return self._rule(PageState.TRIGGERED, when, headline, system_action, action_required)

    def resolved(
        self, when: Condition, headline: str, system_action: str, action_required: str = NO_ACTION
    ) -> PageRule:
        """Return the rule for the events that resolve this kind of page."""
        return self._rule(PageState.RESOLVED, when, headline, system_action, action_required)

    def _rule(
        self, state: PageState, when: Condition, headline: str, system_action: str, action_required: str
    ) -> PageRule:
        return PageRule(
            kind=self.name,
            event_type=self.event_type,
            when=when,
            state=state,
            headline=headline,
            system_action=system_action,
            commands=self.commands,
            runbook=self.runbook,
            action_required=action_required,
            urgency=self.urgency,
            postponed=self.postponed,
            replaces=self.replaces,
            repeated=self.repeated,
        )

"""Sends the pages of one event at least once. All repetitions of a page have one key.

If the table or the paging service does not respond before a page is sent, the call raises an error, and the event is
delivered again.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, field

from faultbridge.decide.answers import Fields, answer, case_fields, case_row, cluster_fields, node_fields
from faultbridge.decide.entry_builder import component_data
from faultbridge.model.cases import ACKNOWLEDGED, DRAIN, WORK, Case
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.silences import Silence, Subject
from faultbridge.model.entries import EntryMetadata
from faultbridge.model.enums import DomainKind, NoteKind, ProviderHealth, WaitingFor
from faultbridge.model.errors import Conflict, Misconfigured, Transient
from faultbridge.model.event_data import (
    CaseStatusData,
    ClusterIncidentData,
    ClusterSafetyData,
    ClusterStatusData,
    Component,
    EventData,
    NoteData,
    plain,
)
from faultbridge.model.events.registry import STUB, schema_name
from faultbridge.model.events.wire import EventDocument
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.recorded import read_data, read_event
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Write
from faultbridge.model.times import from_text, to_text
from faultbridge.model.values import replace
from faultbridge.record.entry_text import WITH_FACTS, component_text
from faultbridge.record.ports.messaging import Pager, PageUrgency
from faultbridge.record.ports.table import Clock, Table
from faultbridge.serve.pager.open_pages import OpenPage, OpenPages
from faultbridge.serve.pager.page import Button, Links, Location, Page, PagerSettings, PageState
from faultbridge.serve.pager.page_deduplication import NotificationLog, PageOutcome, SendStart
from faultbridge.serve.pager.rules import PagedEvent, PageRule, rules_for, stated
from faultbridge.serve.pager.service_formats import message_of, shorten
from faultbridge.serve.pager.silenced import Silenced, subject_of


class StoredDetails(Struct, frozen=True):
    """The stored case, node state and cluster registration that belong to an event.

    A value is None if the event does not name it. The case and the registration are also None if they are not stored.
    """

    case: Case | None = None
    node: NodeState | None = None
    config: ClusterConfig | None = None


def write_page(event: PagedEvent, rule: PageRule, stored: StoredDetails, links: Links) -> Page:
    """Return the page for an event: the headline of its rule, and the answer for the state that the event describes.

    Stored details fill the values that the event does not contain.
    """
    metadata, data = event.metadata, event.data
    fields = _fields(event, stored)
    values = _TextValues({"case": metadata.case_id} | {name: str(one) for name, one in fields.items() if one})
    cause = _cause_of(data, stored.case)
    shows = () if "{case}" in rule.command and not metadata.case_id else (rule.command.format_map(values),)
    found = answer(_row(data, fields), fields) if rule.state is PageState.TRIGGERED else None
    return Page(
        key=rule.key(event),
        state=rule.state,
        urgency=rule.urgency,
        headline=rule.headline.format_map(values),
        fault=_fault_text(cause) if cause else str(stated(data, "reason") or ""),
        location=_location(event, cause.component if cause else None, stored.node),
        system_action=found.system if found else rule.system_action.format_map(values),
        action_required=found.action if found else rule.action_required.format_map(values),
        commands=tuple(dict.fromkeys((*shows, *(found.commands if found else ())))),
        runbook=links.runbook(found.runbook if found else rule.runbook),
        timeline=links.timeline(metadata.cluster, metadata.case_id),
        event_type=metadata.event_type,
        event_id=metadata.event_id,
        occurred_at=metadata.occurred_at,
        code=cause.code if cause else None,
        severity=getattr(data, "severity", None)
        or metadata.severity
        or (stored.case.severity.value if stored.case else None),
        case_id=metadata.case_id,
        since=_since(data, stored.case),
        phases=getattr(data, "phases", {}),
        what=found.what if found else "",
    )


_TIMES = frozenset({"not_before", "answer_by", "until"})


def _facts_of(data: EventData | None) -> Fields:
    return data.facts if isinstance(data, WITH_FACTS) else {}


def _fields(event: PagedEvent, stored: StoredDetails) -> Fields:
    """Return the fields for the answer: those of the stored cluster, node and case, then those of the event."""
    metadata, data, now = event.metadata, event.data, event.metadata.recorded_at
    fields = {
        "node_status": "unknown",
        **(cluster_fields(stored.config) if stored.config else {}),
        **(node_fields(stored.node, stored.config, now) if stored.node and stored.config else {}),
        **(case_fields(stored.case) if stored.case else {}),
        **({"failure": None, "detail": None, "status": data.to} if isinstance(data, CaseStatusData) else {}),
        **{name: from_text(one) if name in _TIMES and one else one for name, one in _facts_of(data).items()},
        **{name: one for name, one in (plain(data) if data else {}).items() if name != "facts"},
        "reason": stated(data, "reason") or stated(data, "text"),
        "cluster": metadata.cluster,
        "node": metadata.node,
        "case_id": metadata.case_id,
    }
    return {**fields, "next_try": fields.get("not_before") or now}


def _row(data: EventData | None, fields: Fields) -> str:
    """Return the name of the row of the state that an event describes."""
    match data:
        case ClusterIncidentData() if data.domain.type == DomainKind.INTAKE:
            row = "intake.failed"
        case ClusterIncidentData():
            row = f"incident.{'expired' if data.change == 'expired' else 'origin' if data.finds_origin else 'open'}"
        case ClusterSafetyData():
            row = f"{data.kind}.{data.to}"
        case ClusterStatusData():
            row = f"provider.{ProviderHealth.ACTION_REQUIRED}"
        case NoteData(kind=NoteKind.INVENTORY):
            row = "intake.unseen"
        case NoteData(kind=NoteKind.APPROVAL):
            row = f"case.queued.{'unproven' if fields.get('by_rule') is False else 'approval'}"
        case NoteData(kind=NoteKind.WAITING):
            waits = {WaitingFor.CAPACITY.value: "queued.overdue", DRAIN: "in_progress.drain", WORK: "queued.held"}
            row = f"case.{waits.get(str(fields.get('waiting_for')), 'in_progress.overdue')}"
        case NoteData(kind=NoteKind.TEST_PAGE):
            row = "test.page"
        case NoteData():
            row = "recurrence.begun" if data.kind == NoteKind.RECURRENCE else "isolation.overdue"
        case _:
            row = case_row(fields)
    return row


def buttons_of(location: Location, kind: str, case: Case) -> tuple[Button, ...]:
    """Return the buttons of a page about a case: to acknowledge it, and to answer the approval that it asks for."""
    about = {"cluster": location.cluster, "case": case.id}
    place, request = f"{location.cluster}/{location.node}", case.pending_approval
    ask = "You own the case, and its urgent pages are not repeated for the time of the policy. Repairs continue."
    buttons = [Button("ack", "Acknowledge", json.dumps(about), ask)]
    if kind == "approval" and request is not None:
        action = request.repair_action.value
        value = json.dumps(about | {"attempt": request.attempt, "repair_action": action})
        asks = {
            "approve": f"This permits {action} of {place}. The repair starts as soon as the limits permit it.",
            "deny": f"No {action} of {place} starts. The case is escalated to an operator.",
        }
        buttons += [Button(order, order.title(), value, text) for order, text in asks.items()]
    return tuple(buttons)


class _TextValues(dict[str, str | None]):
    def __missing__(self, _name: str) -> str:
        return "?"


class _Cause(Struct, frozen=True):
    code: str | None
    component: Component | None
    message: str = ""
    mode: str | None = None


def _cause_of(data: EventData | None, case: Case | None) -> _Cause | None:
    """Return the cause of an event, or of its case."""
    mode = case.mode if case else None
    match data:
        case CaseStatusData(cause=of):
            return _Cause(of.code, of.component, of.message or "", of.failure_mode or mode)
        case ClusterIncidentData(cause=suspected):
            return _Cause(suspected.code, suspected.component, suspected.text, mode)
    return _Cause(case.code, component_data(case.component), mode=mode) if case else None


def _fault_text(cause: _Cause) -> str:
    fault, message = " ".join(filter(None, (cause.code, component_text(cause.component)))), cause.message
    if message == fault or message.startswith((f"{fault}:", f"{fault} ")):
        return message
    return f"{fault}: {message}" if message else fault


def _location(event: PagedEvent, component: Component | None, node: NodeState | None) -> Location:
    data, incarnation = event.data, getattr(event.data, "incarnation", None)
    current = node.incarnation.instance_id if node and node.incarnation else None
    return Location(
        cluster=event.metadata.cluster,
        node=event.metadata.node or (data.cause.node if isinstance(data, ClusterIncidentData) else None),
        instance_id=incarnation.instance_id if incarnation else current,
        component=component_text(component),
        serial=(component.serial or _serial(component.pci, node)) if component else None,
        pci=component.pci if component else None,
    )


def _serial(pci: str | None, node: NodeState | None) -> str | None:
    devices = node.devices if node else ()
    return next((device.serial for device in devices if pci and device.pci == pci), None)


def _since(data: EventData | None, case: Case | None) -> datetime | None:
    since: datetime | None = getattr(data, "detected_at", None) or getattr(data, "opened_at", None)
    if since:
        return since
    return case.marks.get("detected", case.opened_at) if case else None


# Reads the data of a stub from the table, without evidence and with long texts shortened.
#
# If an event is too large for the bus, the bus receives a stub instead: the event without its data.

MAX_TEXT = 1_000
"""Longest text in the data of a stored event, so that its page is not too large for SNS."""


def stored_data(table: Table, metadata: EntryMetadata) -> EventData | None:
    """Return the data of a stub's event, from the entry in the table that `metadata` identifies.

    The data does not contain the evidence, and its texts have at most 1,000 characters. Raises Misconfigured if the
    table has no such entry.
    """
    cluster, node = metadata.cluster, metadata.node
    partition = keys.node_partition(NodeKey(cluster, node)) if node else keys.cluster_partition(cluster)
    stored = table.get(keys.entry(partition, metadata.epoch, metadata.sequence))
    if stored is None or stored["event_id"] != metadata.event_id:
        place = f"{metadata.stream} {metadata.epoch}/{metadata.sequence}"
        raise Misconfigured(f"no entry in the table for a stub: {place}; read it from the archive")
    return read_data(_shortened(json.loads(str(stored["body"]))))


def _shortened(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case str():
            return shorten(value, MAX_TEXT)
        case dict():
            return {name: _shortened(one) for name, one in value.items()}
        case list():
            return [_shortened(one) for one in value]
        case _:
            return value


MAX_EVENT_AGE = timedelta(days=16)

_TOO_LARGE = "The event is too large for the bus: its data was read from the table, and long texts were shortened."

_NOT_SENT = {
    PageOutcome.WITHHELD: "hourly limit reached; the next summary lists the page",
    PageOutcome.POSTPONED: "the cluster is under maintenance; the page is sent after its end",
    PageOutcome.SILENCED: "a silence holds the page; a line counts it when the silence ends",
    PageOutcome.QUIET: "the page that it resolves was not sent by itself",
    PageOutcome.KNOWN: "the page already has this state, or was never triggered",
    PageOutcome.REPEATED: "the event was processed before",
    PageOutcome.OVERTAKEN: "a later event was processed",
    PageOutcome.TOO_OLD: f"the event is older than {MAX_EVENT_AGE.days} days",
}


class Delivery(Struct, frozen=True):
    """The result for one page of an event.

    `recorded` is False if the page was sent, but this could not be stored in the table.
    """

    key: str
    state: PageState
    outcome: PageOutcome
    recorded: bool = True


class Paging(Struct, frozen=True):
    """Sends the pages that events of the bus trigger or resolve."""

    table: Table
    pager: Pager
    clock: Clock
    settings: PagerSettings = field(default_factory=PagerSettings)

    def deliver(self, published: EventDocument) -> tuple[Delivery, ...]:
        """Send the pages that the rules require for an event, and return the result of each page.

        An event that is too large for the bus arrives without its data, which is then read from the table. An event
        older than 16 days sends no page. If the table or the paging service fails for one page, the other pages are
        still sent. Transient or Misconfigured is then raised at the end, so that the event is delivered again. The
        repetition skips the pages that were already sent and recorded.
        """
        event, is_stub = read_event(published), schema_name(published["metadata"]) == STUB
        if is_stub:
            event = self._complete(event)
        if self.clock.now() - event.metadata.recorded_at > MAX_EVENT_AGE:
            return tuple(_not_sent(event, rule, PageOutcome.TOO_OLD) for rule in rules_for(event))
        delivered: list[Delivery] = []
        failures: list[Transient | Misconfigured] = []
        for rule in rules_for(event):
            try:
                delivered.append(self._deliver(event, rule, is_stub=is_stub))
            except (Transient, Misconfigured) as error:
                _log("page failed; the event is retried", event, rule, str(error), level=logging.WARNING)
                failures.append(error)
        if failures:
            raise failures[-1]
        if _facts_of(event.data).get("order") == ACKNOWLEDGED:
            self._send_acknowledged(event)
        return tuple(delivered)

    def _send_acknowledged(self, event: PagedEvent) -> None:
        """Send that a person took a case over, once to the recipients of each page about it that is open."""
        case, stated = self._stored_details(event).case, _facts_of(event.data).get("until")
        until = case.acknowledged_until if case is not None else None
        # A repeated event about an earlier acknowledgement, or one that is over, says nothing any more.
        if case is None or until is None or to_text(until) != stated or self.clock.now() >= until:
            return
        words = f": {case.owner_note}" if case.owner_note else ""
        note = f"Acknowledged by {case.owner} until {until:%Y-%m-%dT%H:%MZ}{words}."
        for urgency in PageUrgency:
            for one in self._open_pages.read_all(event.metadata.cluster, urgency)[0]:
                if one.page.case_id != case.id or not one.individual or one.acknowledged_until == until:
                    continue
                page = replace(one.page, state=PageState.ACKNOWLEDGED, note=note, buttons=())
                self.pager.send(message_of(page))
                self._open_pages.update(replace(one, acknowledged_until=until))

    @property
    def _notifications(self) -> NotificationLog:
        return NotificationLog(self.table, self.clock)

    @property
    def _open_pages(self) -> OpenPages:
        return OpenPages(self.table, self.clock, self.settings.max_per_hour)

    @property
    def _silenced(self) -> Silenced:
        return Silenced(self.table, self.clock)

    def _complete(self, stub: PagedEvent) -> PagedEvent:
        """Return the event of a stub with its data from the table.

        Long texts in this data are shortened. The rules cannot match a stub, so without its data a page would be
        missing. A stub without an entry raises Misconfigured, so that the event reaches the dead-letter queue, which
        has an alarm.
        """
        log_cause("stub completed from the table", reason="the event is too large for the bus", **_ids(stub.metadata))
        return replace(stub, data=stored_data(self.table, stub.metadata))

    def _deliver(self, event: PagedEvent, rule: PageRule, *, is_stub: bool) -> Delivery:
        start = self._notifications.start(event, rule)
        if start.outcome is not None:
            return _not_sent(event, rule, start.outcome)
        stored = self._stored_details(event)
        page = write_page(event, rule, stored, self.settings.links)
        if self.settings.buttons and page.state is PageState.TRIGGERED and stored.case is not None:
            page = replace(page, buttons=buttons_of(page.location, rule.kind, stored.case))
        if is_stub:
            page = replace(page, note=_TOO_LARGE)
        cause = _cause_of(event.data, stored.case)
        subject = subject_of(stored.node, stored.config, cause.mode if cause else None)
        silence = self._silence_of(page, subject)
        outcome = self._decide(event, page, rule, stored.config, silence)
        message_id = self.pager.send(message_of(page)) if outcome is PageOutcome.SENT else ""
        opened = self._open_page(page, outcome, start, subject)
        counted: tuple[Write, ...] = ()
        if outcome is PageOutcome.SILENCED and silence is not None:
            opened = replace(opened, silenced=silence.id)
            counted = (self._silenced.count(page.location.cluster, silence),)
        recorded = self._record(event, rule, opened, message_id, counted)
        if outcome is not PageOutcome.SENT:
            return _not_sent(event, rule, outcome)
        return Delivery(page.key, page.state, outcome, recorded=recorded)

    def _silence_of(self, page: Page, subject: Subject) -> Silence | None:
        if page.state is not PageState.TRIGGERED:
            return None
        silences = self._silenced.active(page.location.cluster)
        return self._silenced.holding(silences, page, subject) if silences else None

    def _decide(
        self,
        event: PagedEvent,
        page: Page,
        rule: PageRule,
        config: ClusterConfig | None,
        silence: Silence | None,
    ) -> PageOutcome:
        """Return SENT if a page must be sent now, or the reason not to send it.

        - POSTPONED: the page triggers, and waits for the end of a maintenance of the cluster.
        - SILENCED: the page triggers, and a silence holds it.
        - WITHHELD: the page triggers, and the hourly limit is reached.
        - QUIET: the page resolves a page that was never sent, because it was postponed, silenced or withheld.
        """
        if page.state is PageState.TRIGGERED:
            if self._is_postponed(event, rule, config):
                return PageOutcome.POSTPONED
            if silence is not None:
                return PageOutcome.SILENCED
            return PageOutcome.SENT if self._open_pages.admit(page) else PageOutcome.WITHHELD
        opened = self._open_pages.read(page)
        was_sent = opened is None or opened.individual or opened.possibly_sent
        return PageOutcome.SENT if was_sent else PageOutcome.QUIET

    def _is_postponed(self, event: PagedEvent, rule: PageRule, config: ClusterConfig | None) -> bool:
        if not rule.postponed or config is None or not config.is_maintained(self.clock.now()):
            return False
        replaced = rule.replaced_key(event)
        return replaced is None or not self._notifications.was_sent(replaced)

    def _open_page(self, page: Page, outcome: PageOutcome, start: SendStart, subject: Subject) -> OpenPage:
        sent = outcome is PageOutcome.SENT
        sent_at = self.clock.now() if sent else None
        postponed = outcome is PageOutcome.POSTPONED
        return OpenPage(
            page, sent, start.possibly_sent, postponed, last_sent_at=sent_at, sent_count=int(sent), subject=subject
        )

    def _record(
        self, event: PagedEvent, rule: PageRule, opened: OpenPage, message_id: str, counted: tuple[Write, ...]
    ) -> bool:
        """Record the outcome of a page. Returns False if the page was sent but could not be recorded.

        Raises Transient or Misconfigured if the page was not sent and cannot be recorded, so that the event is
        delivered again.
        """
        pages = self._open_pages
        # If no resolve is sent, the open page must still be unsent: `remind` may have sent it after a maintenance.
        deleted = pages.delete(opened.page, if_unsent=not opened.individual)
        write = pages.put(opened) if rule.state is PageState.TRIGGERED else deleted
        try:
            self._notifications.finish(event, rule, message_id, [write, *counted])
            if rule.repeated and rule.state is PageState.TRIGGERED:
                pages.refresh(opened.page)
        except (Transient, Misconfigured) as error:
            # A withheld page that is not recorded is in no summary, so the event must be delivered again. A retry would
            # send any other page a second time.
            if not opened.individual:
                raise
            level = logging.INFO if isinstance(error, Conflict) else logging.WARNING  # a later event was recorded
            _log("page not recorded", event, rule, str(error), level=level)
            return False
        return True

    def _stored_details(self, event: PagedEvent) -> StoredDetails:
        metadata = event.metadata
        if metadata.node is None:
            stored = self.table.get(keys.cluster_config(metadata.cluster))
            return StoredDetails(config=items.read_config(stored) if stored else None)
        node = NodeKey(metadata.cluster, metadata.node)
        state_key = keys.node_state(node)
        case_key = keys.case(metadata.case_id) if metadata.case_id else None
        config_key = keys.cluster_config(node.cluster)
        found = self.table.get_many([state_key, config_key, *([case_key] if case_key else ())])
        case, config = found.get(case_key) if case_key else None, found.get(config_key)
        return StoredDetails(
            items.read_case(case) if case else None,
            items.read_state(node, found.get(state_key)),
            items.read_config(config) if config else None,
        )


def _not_sent(event: PagedEvent, rule: PageRule, outcome: PageOutcome) -> Delivery:
    _log("page not sent", event, rule, _NOT_SENT[outcome], outcome=outcome.value)
    return Delivery(rule.key(event), rule.state, outcome)


def _log(
    decision: str, event: PagedEvent, rule: PageRule, reason: str, *, level: int = logging.INFO, **ids: object
) -> None:
    ids |= _ids(event.metadata)
    log_cause(decision, reason=reason, level=level, page_key=rule.key(event), page_state=rule.state.value, **ids)


def _ids(metadata: EntryMetadata) -> Fields:
    return {name: getattr(metadata, name) for name in ("cluster", "node", "case_id", "event_id")}

"""All rules that decide which event triggers or resolves which page.

- A fatal fault that Faultbridge can repair sends a notice when its repair is queued.
- A fault that needs an operator sends an urgent page.
- A case has at most one open page about its status. Pages about its approval and isolation may be open too.
- No rule is about the status of a node, because the rules about its case send the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from faultbridge.model.enums import Actor, EntryType
from faultbridge.model.event_data import ClusterIncidentData, ClusterSafetyData, EventData, NoteData
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.serve.pager.page import PageState

CASE_SHOW = "faultbridge case show {case}"
NODE_SHOW = "faultbridge node show {node} --cluster {cluster}"
INCIDENT_SHOW = "faultbridge incident show {incident_id}"
CLUSTER_SHOW = "faultbridge cluster show {cluster}"
NO_ACTION = "None."

Condition = Mapping[str, frozenset[str | bool | None]]
"""Fields of `data` and their allowed values; None is the JSON null."""


PagedEvent = RecordedEvent[EventData | None]


def stated(data: EventData | None, name: str) -> object:
    """Return the value of a field by its name in the event; None if it is null, or the data has no such field."""
    found = getattr(data, "from_" if name == "from" else name, None)
    return None if found is UNSET else found


class PageKind(Struct, frozen=True):
    """One kind of page: its name, the type of its events, its command, its runbook and its urgency.

    - If `postponed` is True, a page that is triggered during a maintenance of the cluster is sent after its end.
      However, the page is sent at once if an earlier page of the kind `replaces` about the same incident was sent.
    - If `repeated` is True, each event that triggers the page sends it again. The page has the key of another page, so
      its last state is stored in a record of its own, and that page gets its text for reminders.
    """

    kind: str
    event_type: str
    command: str
    runbook: str
    urgency: PageUrgency = PageUrgency.URGENT
    postponed: bool = False
    replaces: str | None = None
    repeated: bool = False

    def triggered(self, when: Condition, headline: str) -> PageRule:
        """Return the rule for the events that trigger this kind of page."""
        return PageRule(**asdict(self), state=PageState.TRIGGERED, when=when, headline=headline)

    def resolved(
        self, when: Condition, headline: str, system_action: str, action_required: str = NO_ACTION
    ) -> PageRule:
        """Return the rule for the events that resolve this kind of page."""
        rule = PageRule(**asdict(self), state=PageState.RESOLVED, when=when, headline=headline)
        return replace(rule, system_action=system_action, action_required=action_required)


class PageRule(PageKind, frozen=True, kw_only=True):
    """The events that trigger or resolve one kind of page, and the texts of the page.

    What Faultbridge does and what an operator should do is in the table of answers (`decide/answers.py`) for a page
    that is triggered. A rule states it only for a page that is resolved.

    - `state` is `triggered` if the events trigger the page, and `resolved` if the events resolve the page.
    - `when` maps fields of `data` in the event to the allowed values.
    - `by_operator` is True if the rule applies only to events that an operator caused, and False if the rule applies
      only to all other events. None means that the cause of an event does not matter.
    - Texts may contain `{case}`, `{cluster}`, `{node}`, `{status}` (of the node), the name of each scalar field of
      `data` and of its `facts`, and the placeholders that `deliver.write_page` adds.
    """

    when: Condition
    state: PageState
    headline: str
    system_action: str = ""
    action_required: str = NO_ACTION
    by_operator: bool | None = None

    def applies_to(self, event: PagedEvent) -> bool:
        """Return whether the rule applies to an event; False for an event without data."""
        metadata, data = event.metadata, event.data
        if self.by_operator is not None and self.by_operator is not (metadata.recorded_by == Actor.CLI):
            return False
        same_type = data is not None and metadata.event_type == self.event_type
        return same_type and all(stated(data, field) in allowed for field, allowed in self.when.items())

    def replaced_key(self, event: PagedEvent) -> str | None:
        """Return the key of the earlier page that this page replaces, or None if it replaces none."""
        return replace(self, kind=self.replaces).key(event) if self.replaces else None

    def record_key(self, event: PagedEvent) -> str:
        """Return the page key under which the last state of the page is stored."""
        return f"{self.key(event)}:repeated" if self.repeated else self.key(event)

    def key(self, event: PagedEvent) -> str:
        """Return the page key. A trigger, its repetitions and its resolve have the same key.

        The parts of the key depend on the event:

        - Change of a breaker or of another limit of repairs: cluster, `kind` in the event's data, and failure domain,
          source or failure mode if there is one.
        - Incident: cluster, kind of page, incident id.
        - Note about a group: cluster, kind of page, group.
        - Any other page: case id (the stream if there is no case), kind of page.
        """
        metadata = event.metadata
        parts: tuple[str | UnsetType | None, ...]
        match event.data:
            case ClusterSafetyData() as data:
                parts = (metadata.cluster, data.kind, data.domain or data.source or data.failure_mode)
            case NoteData() as data if metadata.node is None:
                parts = (metadata.cluster, self.kind, data.facts.get("group"))
            case ClusterIncidentData() as data:
                parts = (metadata.cluster, self.kind, data.incident_id)
            case _:
                parts = (metadata.case_id or metadata.stream, self.kind, None)
        return ":".join(part for part in parts if part)


# During maintenance, a faulty node opens no case and sends no page; the same applies to many faulty nodes.
_INCIDENT, _EXPIRED = (
    PageKind(name, EntryType.CLUSTER_INCIDENT.value, INCIDENT_SHOW, "incident", postponed=True, replaces=replaced)
    for name, replaced in (("incident", None), ("incident-expired", "incident"))
)
_GROWN = replace(_INCIDENT, urgency=PageUrgency.NOTICE, replaces="incident", repeated=True)
_SAFETY = PageKind("safety", EntryType.CLUSTER_SAFETY.value, CLUSTER_SHOW, "stuck-case")
_CLAIMS = PageKind("claims", EntryType.CLUSTER_SAFETY.value, CLUSTER_SHOW, "stuck-case", PageUrgency.NOTICE)
_UNSEEN = PageKind("unseen", EntryType.NOTE.value, CLUSTER_SHOW, "alarms", PageUrgency.NOTICE)
_PROVIDER = PageKind("provider", EntryType.CLUSTER_STATUS.value, CLUSTER_SHOW, "provider")

CLUSTER_RULES: tuple[PageRule, ...] = (
    _INCIDENT.triggered({"change": frozenset({"opened"})}, "cluster incident: {reason}"),
    _GROWN.triggered({"change": frozenset({"grown"}), "doubled": frozenset({True})}, "cluster incident grew: {reason}"),
    _GROWN.triggered(
        {"change": frozenset({"grown"}), "finds_origin": frozenset({True}), "doubled": frozenset({False})},
        "cluster incident: origin found: {reason}",
    ),
    *(
        kind.resolved(
            {"change": frozenset({"expired"})},
            "cluster incident reached its maximum age, another page follows",
            "Continues the cases that it held, the oldest first.",
        )
        for kind in (_INCIDENT, _GROWN)
    ),
    _EXPIRED.triggered({"change": frozenset({"expired"})}, "cluster incident not over: {reason}"),
    *(
        kind.resolved(
            {"change": frozenset({"closed"})},
            "cluster incident closed: {reason}",
            "Repairs the nodes that are still faulty, one by one, unless another incident holds them.",
        )
        for kind in (_INCIDENT, _GROWN, _EXPIRED)
    ),
    _SAFETY.triggered(
        # Not `held`, and not with an incident: the incident behind the change has a page of its own.
        {
            "to": frozenset({"open", "half_open", "used_up", "paused"}),
            "incident_id": frozenset({None}),
            "covered_by": frozenset({None}),
        },
        "repairs on hold: {kind} is {to}",
    ),
    _SAFETY.resolved(
        {"to": frozenset({"closed", "available", "running"})},
        "repairs continue: {kind} is {to}",
        "Continues repairs ({reason}).",
    ),
    _CLAIMS.triggered({"to": frozenset({"damped"})}, "false claims of source {source}"),
    _CLAIMS.resolved({"to": frozenset({"accepted"})}, "claims of {source} count again", "Continues ({reason})."),
    _UNSEEN.triggered(
        {"kind": frozenset({"inventory"}), "stage": frozenset({"overdue"})}, "no node of group {group} has reported"
    ),
    _UNSEEN.resolved(
        {"kind": frozenset({"inventory"}), "stage": frozenset({"over"})},
        "group {group} has reported, or was removed",
        "Faultbridge records what its nodes report.",
    ),
    _PROVIDER.triggered({"provider_stage": frozenset({"begun"})}, "provider needs an operator: {reason}"),
    _PROVIDER.resolved(
        {"provider_stage": frozenset({"over"})}, "provider no longer needs an operator", "Continues as before."
    ),
)
"""Pages about a whole cluster. The hourly limit does not apply to them."""


# Pages about repairs that an operator stopped: a denied approval, or a node that was quarantined.
#
# These pages have the urgency `notice`, because an operator is already aware of the fault.

_CASE, _NOTE = EntryType.CASE_STATUS.value, EntryType.NOTE.value
_CASE_IS = "The case is {to} ({reason})."


def _to(*statuses: str) -> Condition:
    return {"to": frozenset(statuses)}


def _note(kind: str, stage: str) -> Condition:
    return {"kind": frozenset({kind}), "stage": frozenset({stage})}


_OPENED = PageKind("opened", _CASE, CASE_SHOW, "stuck-case", PageUrgency.NOTICE)
_STOPPED = PageKind("stopped", _CASE, CASE_SHOW, "stuck-case", PageUrgency.NOTICE)

OPERATOR_RULES: tuple[PageRule, ...] = (
    replace(
        _OPENED.resolved(_to("escalated"), "repair stopped by an operator", "Stops the automatic repair ({reason})."),
        by_operator=True,
    ),
    replace(_STOPPED.triggered(_to("escalated"), "repair stopped by an operator"), by_operator=True),
    _STOPPED.resolved(_to("resolved", "expired", "queued", "absorbed"), "case is {to}", _CASE_IS),
)


_CLOSED = frozenset({"resolved", "expired"})
_CASE_CLOSED = "No further action: the case is {to} ({reason})."
_INCIDENT_PAGES = "None: the incident has a page of its own."

_REPAIRABLE: Condition = {
    "severity": frozenset({"fatal"}),
    "action": frozenset({"run_diagnostics", "reset_gpu", "reboot_node", "replace_node"}),
}
"""Faults that Faultbridge can repair. A fault with another action is escalated at once and needs no notice."""

_RULES_OPENED = PageKind("opened", _CASE, CASE_SHOW, "node-failed", PageUrgency.NOTICE)
_ESCALATED = PageKind("escalated", _CASE, CASE_SHOW, "stuck-case")
_APPROVAL = PageKind("approval", _NOTE, CASE_SHOW, "approval")
_WAITING = PageKind("waiting", _NOTE, CASE_SHOW, "reason-capacity")
_ISOLATION = PageKind("isolation", _NOTE, NODE_SHOW, "isolation")
_RECURRENCE = PageKind("recurrence", _NOTE, CLUSTER_SHOW, "incident", PageUrgency.NOTICE)


CASE_RULES: tuple[PageRule, ...] = (
    _RULES_OPENED.triggered(
        # Not at `open`: a case that a cluster incident absorbs during its wait must send no page of its own.
        {"from": frozenset({"open", "escalated", "absorbed"}), **_to("queued"), **_REPAIRABLE},
        "node unusable, repair queued",
    ),
    _RULES_OPENED.resolved({**_to(*_CLOSED), **_REPAIRABLE}, "case closed, resolution: {resolution}", _CASE_CLOSED),
    replace(
        _RULES_OPENED.resolved(
            {**_to("escalated"), **_REPAIRABLE},
            "repair stopped, an urgent page follows",
            "Stops the automatic repair ({reason}).",
            "None, unless you receive urgent pages.",
        ),
        by_operator=False,
        runbook="stuck-case",
    ),
    replace(
        _RULES_OPENED.resolved(
            {**_to("absorbed"), **_REPAIRABLE},
            "case absorbed by a cluster incident",
            "Holds the repair until the incident closes ({reason}).",
            _INCIDENT_PAGES,
        ),
        runbook="incident",
    ),
    replace(_ESCALATED.triggered(_to("escalated"), "repair stopped, operator needed"), by_operator=False),
    _ESCALATED.resolved(_to(*_CLOSED), "case closed, resolution: {resolution}", _CASE_CLOSED),
    _ESCALATED.resolved(
        {"from": frozenset({"escalated"}), **_to("queued")},
        "automation resumed",
        "Continues the case: it is {to} ({reason}).",
    ),
    replace(
        _ESCALATED.resolved(
            {"from": frozenset({"escalated"}), **_to("absorbed")},
            "case absorbed by a cluster incident",
            "Holds the case until the incident closes ({reason}).",
            _INCIDENT_PAGES,
        ),
        runbook="incident",
    ),
    _APPROVAL.triggered(_note("approval", "begun"), "approval required"),
    _APPROVAL.resolved(
        _note("approval", "over"), "approval no longer required", "The approval request is closed ({text})."
    ),
    replace(
        _APPROVAL.resolved(_to(*_CLOSED, "escalated", "absorbed"), "approval no longer required", _CASE_IS),
        event_type=_CASE,
    ),
    _WAITING.triggered(_note("waiting", "overdue"), "node out of service, waits for {waiting_for}"),
    _WAITING.resolved(_note("waiting", "over"), "node no longer waits", "Continues the repair ({text})."),
    replace(
        _WAITING.resolved(_to(*_CLOSED, "escalated", "absorbed"), "node no longer waits", _CASE_IS),
        event_type=_CASE,
    ),
    _RECURRENCE.triggered(_note("recurrence", "begun"), "failure recurs: {failure_mode} in {place}"),
    _RECURRENCE.resolved(_note("recurrence", "over"), "failure no longer recurs", "Continues as before ({text})."),
    _ISOLATION.triggered(_note("isolation", "overdue"), "faulty node not isolated"),
    _ISOLATION.resolved(
        _note("isolation", "over"), "orchestrator responds again", "The isolation request is closed ({text})."
    ),
    replace(
        _ISOLATION.resolved(_to(*_CLOSED), "isolation no longer required", _CASE_IS),
        event_type=_CASE,
    ),
)


def test_page_kind(urgency: PageUrgency) -> str:
    """Return the kind of a test page, which is part of its key."""
    return f"test-{urgency.value}"


def _test_rules(urgency: PageUrgency) -> tuple[PageRule, ...]:
    kind = PageKind(test_page_kind(urgency), _NOTE, CLUSTER_SHOW, "many-pages", urgency)
    about: Condition = {"kind": frozenset({"test_page"}), "text": frozenset({f"test of {urgency.value} pages"})}
    return (
        kind.triggered({**about, "stage": frozenset({"begun"})}, "{text}"),
        kind.resolved({**about, "stage": frozenset({"over"})}, "{text} is over", "No further action."),
    )


TEST_RULES = tuple(rule for urgency in PageUrgency for rule in _test_rules(urgency))

RULES: tuple[PageRule, ...] = (*TEST_RULES, *CASE_RULES, *OPERATOR_RULES, *CLUSTER_RULES)
EVENT_TYPES = tuple(dict.fromkeys(rule.event_type for rule in RULES))


def rules_for(event: PagedEvent) -> Iterator[PageRule]:
    """Return the rules that apply to an event; those that resolve a page precede those that trigger one.

    An event can resolve one page of a case and trigger another. In this order, the first page is resolved before the
    second page is triggered.
    """
    found = (rule for rule in RULES if rule.applies_to(event))
    return iter(sorted(found, key=lambda rule: rule.state is PageState.TRIGGERED))

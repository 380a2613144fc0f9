"""Answers: what a state means, what Faultbridge does next, and what an operator should do, from one table.

`answers.json` has one row for each state of a case, node, incident, breaker, pause, provider and intake. The command
line, the API, the console, the pages and the runbooks print the same row. A placeholder is the name of a field of a
document or of an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from faultbridge.decide.case_moves import FOREVER, LABEL, is_absence, opted_out_until
from faultbridge.model.cases import DENIED, Case
from faultbridge.model.cluster.config import ClusterConfig, Mode
from faultbridge.model.cluster.state import Control, domain_of
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.event_data import doc
from faultbridge.model.fault_enums import Action
from faultbridge.model.nodes import NodeState

Fields = Mapping[str, Any]
"""The fields of documents and events by which a row is found, and which its texts insert."""

MAX_LISTED = 12
NO_VALUE = "-"
QUARANTINE = "operator.quarantine"
_ENDLESS = frozenset({"ignored", "label", "tag"})
"""The exclusions of a node from repair that have no end."""


class Step(Struct, frozen=True):
    """One step of an operator: what to do, the command that does it, and the operation of the API."""

    do: str
    command: Annotated[str | None, doc("The command that does it; null if none does.")] = None
    order: Annotated[str | None, doc("The operation id of the same order in the API; null if there is none.")] = None


class Answer(Struct, frozen=True):
    """What a state means (`what`), what Faultbridge does next (`system`), and the steps of an operator (`you`)."""

    row: Annotated[str, doc("Name of the row in the table of answers, such as `case.escalated.denied`.")]
    what: str
    system: str
    you: Annotated[tuple[Step, ...], doc("Steps in their order; empty if nothing is to be done.")]
    needs_you: Annotated[bool, doc("Whether an operator must act before it continues.")]
    runbook: Annotated[str, doc("Name of the runbook, such as `stuck-case`.")]

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the steps, in their order."""
        return tuple(step.command for step in self.you if step.command)

    @property
    def action(self) -> str:
        """The steps as sentences, without their commands."""
        return " ".join(step.do for step in self.you) or "Nothing."


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table: an answer whose texts have placeholders."""

    what: str
    system: str
    runbook: str
    you: tuple[Step, ...] = ()
    needs_you: bool = False


class SharedStep(Step, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A step of every row whose name starts with one of `rows`, if the fields have the values of `when`."""

    rows: tuple[str, ...]
    when: Mapping[str, tuple[str | bool | None, ...]]

    def is_of(self, name: str, fields: Fields) -> bool:
        """Return whether the step belongs to a row, given the fields."""
        return name.startswith(self.rows) and all(fields.get(one) in allowed for one, allowed in self.when.items())


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The rows by name, and the steps that precede or follow those of several rows."""

    rows: Mapping[str, Row]
    before: tuple[SharedStep, ...]
    after: tuple[SharedStep, ...]


@cache
def answer_table() -> Table:
    """Return the table of answers."""
    text = files("faultbridge.decide").joinpath("answers.json").read_bytes()
    return msgspec.json.decode(text, type=Table)


def answer(name: str, fields: Fields) -> Answer:
    """Return the answer of one row, with the values of the fields; a missing value is shown as `-`."""
    table, texts = answer_table(), _Texts(fields)
    row = table.rows[name]
    before, after = ((one for one in steps if one.is_of(name, fields)) for steps in (table.before, table.after))
    you = tuple(
        Step(step.do.format_map(texts), _command(step.command, fields), step.order)
        for step in (*before, *row.you, *after)
    )
    return Answer(
        name, sentence(row.what.format_map(texts)), row.system.format_map(texts), you, row.needs_you, row.runbook
    )


def case_answer(state: NodeState, case: Case, config: ClusterConfig, control: Control | None, now: datetime) -> Answer:
    """Return the answer for a case of a node."""
    fields = {**cluster_fields(config), **node_fields(state, config, now), **case_fields(case)}
    if control is not None:
        fields |= _control_fields(state, case, control, now)
    return answer(case_row(fields), fields)


def node_answer(
    state: NodeState, config: ClusterConfig, control: Control | None, now: datetime, *, no_data: bool = False
) -> Answer:
    """Return the answer for a node: that of its live case or its status; `no_data` if no report of it arrives."""
    if state.live_case is not None and state.status not in {None, NodeStatus.RETIRED}:
        return case_answer(state, state.live_case, config, control, now)
    fields = {**cluster_fields(config), **node_fields(state, config, now)}
    return answer(f"node.{_node_situation(state, fields | {'no_data': no_data})}", fields)


def case_row(fields: Fields) -> str:
    """Return the name of the row of a case: its status, with what it waits for, why it stopped or how it ended."""
    status = str(fields.get("status"))
    match status:
        case CaseStatus.OPEN:
            situation = "correlation" if fields.get("waiting_for") == WaitingFor.CORRELATION else "wait"
        case CaseStatus.QUEUED:
            situation = _queued(fields)
        case CaseStatus.IN_PROGRESS:
            held = fields.get("node_status") in {NodeStatus.DRAINING, NodeStatus.REPLACING}
            situation = ("drain" if held else "overdue") if fields.get("wait_paged") else "running"
        case CaseStatus.ESCALATED:
            situation = _stopped(fields)
        case CaseStatus.RESOLVED:
            known = fields.get("resolution") in set(Resolution)
            situation = str(fields["resolution"]) if known else Resolution.BY_OPERATOR.value
        case CaseStatus.ABSORBED | CaseStatus.EXPIRED:
            return f"case.{status}"
        case _:
            return "case.unknown"
    return f"case.{status}.{situation}"


def _queued(fields: Fields) -> str:
    """Return what a queued case waits for: an order of an operator first, then what admission recorded."""
    waiting, again = str(fields.get("waiting_for") or WaitingFor.ADMISSION), int(fields.get("attempt") or 0) > 0
    asked, breaker = fields.get("answer", "unknown"), fields.get("breaker_state")
    asks = asked is None or (asked == "unknown" and waiting == WaitingFor.APPROVAL)
    blocked = _blocked(fields)
    # A failed attempt is followed by a wait; an order or a stronger action leads to the queue at once.
    situations = (
        ("dry_run", bool(fields.get("dry_run_ends"))),
        (str(blocked), blocked is not None),
        ("unproven", asks and fields.get("by_rule") is False),
        ("approval", asks),
        ("paused", bool(fields.get("paused"))),
        ("breaker_stays_open", bool(fields.get("stays_open")) and fields.get("repair_action") != RepairAction.VERIFY),
        (f"breaker_{breaker}", waiting == WaitingFor.BREAKER and breaker is not None),
        ("excluded", waiting == WaitingFor.PAUSE and fields.get("exclusion") is not None),
        ("overdue", waiting == WaitingFor.CAPACITY and fields.get("wait_paged") is True),
        ("held", waiting == WaitingFor.IDLE and fields.get("wait_paged") is True),
        ("retry", waiting == WaitingFor.WAIT and again),
        ("again", again and waiting in {WaitingFor.ADMISSION, WaitingFor.APPROVAL}),
        ("admission", waiting in {WaitingFor.APPROVAL, WaitingFor.CORRELATION}),
    )
    return _first(situations, waiting if waiting in set(WaitingFor) else WaitingFor.WAIT.value)


def _first(situations: Iterable[tuple[str, bool]], otherwise: str) -> str:
    """Return the first situation that applies."""
    return next((name for name, applies in situations if applies), otherwise)


def _blocked(fields: Fields) -> str | None:
    """Return the permission or the unlimited exclusion without whose end no repair starts, or None."""
    if fields.get("permitted") is False:
        return "not_permitted"
    exclusion = fields.get("exclusion")
    return exclusion if exclusion in _ENDLESS else None


def _stopped(fields: Fields) -> str:
    """Return why a case was escalated to an operator."""
    attempts, failure = int(fields.get("attempt") or 0), str(fields.get("failure") or "").lower()
    replaced = fields.get("repair_action") == RepairAction.REPLACE_NODE and attempts > 0
    situations = (
        ("denied", fields.get("answer") == DENIED),
        ("quarantined", fields.get("code") == QUARANTINE),
        ("relapse", fields.get("relapse_of") is not None and not attempts),
        ("no_group", replaced and fields.get("acts") is True and fields.get("group", "unknown") is None),
        (failure, f"case.escalated.{failure}" in answer_table().rows),
        ("unanswered", fields.get("answer", "unknown") is None),
        ("support", fields.get("action") == Action.CONTACT_SUPPORT and not attempts),
    )
    return _first(situations, "other")


def _node_situation(state: NodeState, fields: Fields) -> str:
    """Return what distinguishes a node without a live case."""
    blocked, exclusion, faults = _blocked(fields), fields["exclusion"], tuple(state.active())
    repaired = [one for one in faults if one.action.opens_case]
    isolated = state.isolation in {Isolation.REQUESTED, Isolation.CONFIRMED}
    situations = (
        ("retired", state.status in {None, NodeStatus.RETIRED}),
        ("provisioning", state.status is NodeStatus.PROVISIONING),
        ("out_of_service", state.status is not None and not state.status.in_service),
        (f"isolated_{blocked}", isolated and blocked is not None),  # only an acting cluster ends the isolation
        ("isolated", isolated and not faults),
        (str(exclusion), not faults and exclusion in _ENDLESS),
        ("no_data", not faults and fields["no_data"]),
        ("healthy", not faults),
        ("no_action", not repaired),
        (str(blocked), blocked is not None),
        ("excluded", exclusion is not None),
        ("update", fields["update_until"] is not None and all(map(is_absence, repaired))),
        ("no_report", any(one.known_incarnation for one in repaired)),
    )
    return _first(situations, "uncertain")


def case_fields(case: Case) -> Fields:
    """Return the fields of a case by which its row is found, and which the row inserts."""
    approval = case.approval
    names = ("status", "waiting_for", "resolution", "code", "action", "repair_action", "rule", "incident", "relapse_of")
    asked = ("answer", "by_rule", "operator", "asked_at", "answer_by") if approval else ()
    return {
        **{name: getattr(case, name) for name in (*names, "not_before", "wait_paged")},
        "case_id": case.id,
        "attempt": case.attempts,
        "reason": case.reason,
        "failure": case.because.failure,
        "detail": case.because.detail,
        **{name: getattr(approval, name) for name in asked},
    }


def node_fields(state: NodeState, config: ClusterConfig, now: datetime) -> Fields:
    """Return the fields of a node by which a row is found, and which the row inserts."""
    hold, until = config.update_hold(state.placement.group, now), opted_out_until(state, config, now)
    ignored = state.ignored
    faults = sorted({f"{one.code} (action {words(one.action.value)})" for one in state.active()})
    serves = state.status is not None and state.status.in_service
    return {
        "cluster": state.key.cluster,
        "node": state.key.node,
        "node_status": state.status,
        "group": state.placement.group,
        "instance_id": state.instance_id,
        "faults": faults,
        "exclusion": _exclusion(state, until),
        "excluded_until": until,
        "ignored_reason": ignored.reason if ignored else None,
        "kubernetes_node": ignored.kubernetes_node if ignored else None,
        "update_until": hold.until if hold else None,
        "dry_run_ends": config.mode is Mode.DRY_RUN and config.opens_cases and serves,
    }


def _exclusion(state: NodeState, until: datetime | None) -> str | None:
    """Return what excludes a node from repair: `ignored`, `label` or `tag` without an end, `until` with one."""
    if until != FOREVER or state.ignored is None:
        return "until" if until is not None else None
    if state.ignored.by != LABEL:
        return "ignored"
    return "tag" if state.ignored.kubernetes_node is None else "label"


def cluster_fields(config: ClusterConfig) -> Fields:
    """Return the fields of a cluster by which a row is found, and which the row inserts."""
    names = ("cluster", "mode", "repair_owner", "orchestrator", "repairs", "acts")
    return {name: getattr(config, name) for name in names} | {"permitted": config.permits_repairs}


def _control_fields(state: NodeState, case: Case, control: Control, now: datetime) -> Fields:
    """Return the fields of what limits the repairs of a cluster: its pause, the strictest breaker, and its slots."""
    waits = (case.not_before, control.no_capacity_until.get(state.placement.group or ""), now)
    fields = {"paused": control.paused, "slots": tuple(control.holders), "next_try": max(filter(None, waits))}
    breaker = control.breaker(state.placement.domain)
    if breaker is None:
        return fields
    name = next(name for name, one in control.breakers.items() if one is breaker)
    return fields | {
        "breaker": domain_of(name) or "the cluster",
        "breaker_state": breaker.state.value,
        "breaker_since": breaker.since,
        "stays_open": breaker.stays_open,
        "openings": len(breaker.opened),
        "failing": breaker.failing,
        "of": breaker.of,
    }


ACTION_TEXTS: Mapping[str, str] = {
    "verify": "run diagnostics",
    "run_diagnostics": "run diagnostics",
    "reset_gpu": "reset the GPU",
    "reboot_node": "reboot the node",
    "replace_node": "replace the node",
    "contact_support": "contact support, because no automatic repair is known",
}
_FAILURES: Mapping[str, str] = {
    "CAPACITY": "no capacity",
    "THROTTLED": "the provider throttles the calls",
    "PERMISSION_DENIED": "permission denied",
    "NOT_FOUND": "not found",
    "CONFLICT": "conflict with another change",
    "TIMEOUT": "no result in time",
    "AMBIGUOUS": "the result of a call is not known",
    "VERIFY_FAILED": "verification failed",
    "PROVIDER_ERROR": "error of the provider",
}
_NOUNS: Mapping[str, str] = {
    "replace_node": "node replacement",
    "reboot_node": "node reboot",
    "reset_gpu": "GPU reset",
    "run_diagnostics": "diagnostics",
    "contact_support": "contact with support",
    "in_progress": "in progress",
    "not_applicable": "not applicable",
    "dry_run": "dry run",
}
_NAME = re.compile(rf"(?<![\w.`/-])({'|'.join(_NOUNS)})(?![\w`-])")


def words(name: object) -> str:
    """Return a name from a document as words, such as `out of service` for `out_of_service`."""
    return str(name).replace("_", " ")


def action_text(action: object) -> str:
    """Return a repair action or recommended action in words."""
    return ACTION_TEXTS.get(str(action), words(action))


def reason_text(reason: object) -> str:
    """Return a recorded text with the names in it replaced by words."""
    return _NAME.sub(lambda found: _NOUNS[found[1]], str(reason or ""))


def why_text(reason: object, failure: object, detail: object) -> str:
    """Return the reason of a case or of an entry in words, with its failure code, if it has one, in words too."""
    code = _FAILURES.get(str(failure))
    return f"{code}: {reason_text(detail)}" if code else reason_text(reason)


def detail_text(reason: object, failure: object, detail: object) -> str:
    """Return the reason of a case or of an entry in words, without its failure code."""
    return reason_text(detail if failure in _FAILURES else reason)


def sentence(text: str) -> str:
    """Return a text as a sentence: it starts with a capital letter and ends with a period."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


_WORDS = frozenset({"node_status", "mode", "repair_owner", "status"})


class _Texts(dict[str, str]):
    """The values of placeholders in sentences."""

    def __init__(self, fields: Fields) -> None:
        super().__init__()
        self._fields = fields

    def __missing__(self, name: str) -> str:
        fields = self._fields
        value = fields.get(name)
        if name == "reason":
            value = why_text(value, fields.get("failure"), fields.get("detail"))
        elif name == "detail":
            value = reason_text(value or fields.get("reason"))
        elif name == "repair_action" and value:
            value = action_text(value)
        elif name == "operator" and value:
            value = str(value).rpartition("/")[2]
        elif name in _WORDS and value:
            value = words(value)
        return _shown(value).rstrip(".")


def _shown(value: object) -> str:
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, Mapping):  # a list of an event: the count of all, and the names of some
        return _listed(value["listed"], int(value["count"]))
    if isinstance(value, list | tuple):
        return _listed(value, len(value))
    return reason_text(value)


def _listed(names: Iterable[object], count: int) -> str:
    shown = [str(name) for name in names][:MAX_LISTED]
    return (", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")) or "none"


_OPTION = re.compile(r" --[a-z-]+ \{(\w+)\}")


def _command(template: str | None, fields: Fields) -> str | None:
    """Return a command without the options whose values are unknown; None if another value is unknown."""
    if template is None:
        return None
    known = {name: str(value) for name, value in fields.items() if value is not None}
    text = _OPTION.sub(lambda found: found[0] if found[1] in known else "", template)
    try:
        return text.format_map(known)
    except KeyError:
        return None

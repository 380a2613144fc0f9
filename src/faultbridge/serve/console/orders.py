"""Orders in the console: a page that names the exact effect of an order, and the order that a person then posts.

A form carries a token that is bound to the claims of the person, the order and its subject, and is valid for an hour.
Its number is the key of the order, so that a form that is posted twice is one order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

from msgspec import Struct

from faultbridge.decide.answers import action_text, words
from faultbridge.model import names
from faultbridge.model.enums import RepairAction
from faultbridge.model.errors import Rejected
from faultbridge.model.times import from_text, to_text
from faultbridge.record.timeline import Tokens
from faultbridge.repair.registry.documents import Case, ShownNode
from faultbridge.serve.api.requests import MAX_LENGTH, Caller, Request
from faultbridge.serve.console.facts import Facts
from faultbridge.serve.orders import CASE_ID, Orders, execute, order_of

VALID = timedelta(hours=1)
LENGTHS = {"1": "1 hour", "4": "4 hours", "12": "12 hours", "24": "1 day", "72": "3 days", "168": "7 days"}
"""How long a pause or a silence may last, by its hours as a form sends them."""

MAX_JOBS = 5
Fields = Mapping[str, Sequence[str]]
"""The fields of a posted form."""


class Subject(Struct, frozen=True):
    """What an order is about: a cluster, perhaps a node with its jobs, perhaps its case."""

    cluster: str
    node: ShownNode | None = None
    case: Case | None = None
    jobs: Sequence[str] = ()
    running: int = 0
    waiting: int = 0

    @property
    def work(self) -> str:
        """The jobs that run on the node, in words."""
        if not self.jobs:
            return "no job that Faultbridge knows runs there"
        named = ", ".join(self.jobs[:MAX_JOBS]) + (", ..." if self.jobs[MAX_JOBS:] else "")
        return f"{len(self.jobs)} job{'s run' if len(self.jobs) > 1 else ' runs'} there: {named}"


class Form(Struct, frozen=True):
    """An order that the console offers: its button, what it is about, its effect, and the fields that a person fills.

    `lasts` states whether it lasts for a time that the person chooses, `requires` whether the reason is required.
    """

    button: str
    about: str
    effect: Callable[[Subject], str]
    text: str = "reason"
    lasts: str = ""
    requires: bool = False


def _approve(of: Subject) -> str:
    approval = of.case.approval if of.case else None
    action = approval.repair_action if approval else RepairAction.VERIFY
    done = {
        RepairAction.REPLACE_NODE: "drains 1 node and replaces its instance",
        RepairAction.REBOOT_NODE: "drains 1 node and reboots it",
        RepairAction.RESET_GPU: "drains 1 node and resets its GPU",
    }.get(action, f"takes 1 node out of service: {action_text(action)}")
    instance = of.node.instance_id if of.node else None
    return f"The repair {done}{f' {instance}' if instance else ''}; {of.work}. It starts when all limits permit it."


def _deny(of: Subject) -> str:
    status = words(of.node.status) if of.node else "as it is"
    return f"No repair starts. The case is escalated, and the node stays {status} until an operator acts."


def _acknowledge(_of: Subject) -> str:
    return "You own the case, and urgent pages about it are not repeated for the time of the policy. Repairs continue."


def _silence(of: Subject) -> str:
    about = of.node.node if of.node else "every node"
    return f"Pages about {about} of {of.cluster} are not sent. Faults, events and repairs continue."


def _pause(of: Subject) -> str:
    waiting = f"{of.waiting} live case{'s' if of.waiting != 1 else ''}"
    running = "1 running repair continues" if of.running == 1 else f"{of.running} running repairs continue"
    return f"No new repair starts in {of.cluster}, which has {waiting}. {running}."


def _return(of: Subject) -> str:
    return f"Diagnostics verify 1 node; {of.work}. If they pass, the node takes new work again."


FORMS: Mapping[str, Form] = {
    "approve": Form("Approve", "case", _approve),
    "deny": Form("Deny", "case", _deny),
    "ack": Form("Acknowledge", "case", _acknowledge, text="note"),
    "silence": Form("Silence pages", "node", _silence, lasts="until", requires=True),
    "return": Form("Return to service", "node", _return),
    "pause": Form("Pause repairs", "cluster", _pause, lasts="until"),
}
"""The orders with a button, by the name of the order. Every other order prints its command."""


class OrderForms(Struct, frozen=True):
    """Shows the form of an order, and gives the order."""

    facts: Facts
    orders: Orders
    tokens: Tokens

    def subject(self, request: Request, kind: str) -> tuple[Form, Subject]:
        """Return the form of an order and what it is about; the caller must be an operator of the cluster."""
        form, cluster = FORMS.get(kind), names.cluster_name(request.cluster)
        if form is None:
            raise Rejected("unknown_route", "the console has no such order")
        request.caller.check(cluster)
        request.caller.check_operator(cluster)
        target = request.text("target") or ""
        if form.about == "cluster" or (form.about == "node" and not target and kind == "silence"):
            facts = self.facts.cluster(cluster, (None, None))
            return form, Subject(cluster, running=len(facts.cluster.holders), waiting=facts.live or 0)
        case = None
        if form.about == "case":
            case = self.facts.case(cluster, (CASE_ID.fullmatch(target) and target) or "none").case
            target = case.node
        found = self.facts.node(cluster, names.node_name(target), (None, None))
        jobs = [one.name or one.job_id for one in found.jobs if one.state in {"running", "stalled"}]
        return form, Subject(cluster, found.document, case, jobs)

    def token(self, caller: Caller, kind: str, subject: Subject) -> str:
        """Return the token of a form: bound to the person's claims, the order and its subject, for an hour."""
        until = to_text(self.facts.clock.now() + VALID)
        return self.tokens.sign(_scope(caller, kind, subject), f"{until}#{secrets.token_urlsafe(12)}")

    def give(self, request: Request, kind: str, fields: Fields, headers: Mapping[str, str]) -> Subject:
        """Give the order of a posted form, and return what it is about.

        A request of another site, and a token that is not of this person and order or is too old, raise Rejected.
        """
        check_origin(headers)
        form, subject = self.subject(request, kind)
        position = self.tokens.read(_scope(request.caller, kind, subject), _first(fields, "token"))
        until, _, number = position.partition("#")
        if from_text(until) < self.facts.clock.now():
            raise Rejected("bad_token", "the form is too old; load it again")
        body = dict(self._body(form, kind, subject, fields))
        target = subject.case.case_id if subject.case else subject.node.node if subject.node else ""
        order = order_of(kind, subject.cluster, target if form.about != "cluster" and kind != "silence" else "", body)
        execute(self.orders, order, request.caller.name, number)
        return subject

    def _body(self, form: Form, kind: str, subject: Subject, fields: Fields) -> Iterator[tuple[str, object]]:
        text = _first(fields, "reason").strip()[:MAX_LENGTH]
        yield form.text, text
        if form.lasts and (hours := _first(fields, "hours")) in LENGTHS:
            yield form.lasts, self.facts.clock.now() + timedelta(hours=int(hours))
        if kind == "silence" and subject.node:
            yield "node", subject.node.node
        if kind in {"approve", "deny"}:
            yield "attempt", int(_first(fields, "attempt") or 0)
            yield "repair_action", _first(fields, "repair_action")


def _scope(caller: Caller, kind: str, subject: Subject) -> str:
    claims = [caller.name, *sorted(caller.operated_clusters), subject.cluster, kind]
    about = subject.case.case_id if subject.case else subject.node.node if subject.node else ""
    return "\n".join(("console order", *claims, about))


def _first(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")


def check_origin(headers: Mapping[str, str]) -> None:
    """Raise Rejected (`forbidden`) unless a browser states that a page of this console sent the request."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin", "")
    if site == "same-origin" or (site is None and origin and urlsplit(origin).netloc == headers.get("host")):
        return
    raise Rejected("forbidden", "the request does not come from a page of this console")

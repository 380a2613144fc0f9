"""Orders from Slack and PagerDuty: proves each request by its signature, and gives the order of its person.

Slack: a button of a page approves or denies a repair, or acknowledges a case. The Slack user must be in the table of
people. PagerDuty: an incident that is acknowledged or resolved acknowledges its case, and never changes a repair.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Annotated, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Meta, Struct, field

from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.record.ports.table import Clock
from faultbridge.repair.registry.documents import Case
from faultbridge.serve.gateway.webhooks import MIN_SECRET_LENGTH, sign, signed_time
from faultbridge.serve.orders import CASE_ID, Orders, execute, order_of

SLACK_ORDERS = frozenset({"approve", "deny", "ack"})
PAGERDUTY_ACKS = frozenset({"incident.acknowledged", "incident.resolved"})
RETRIED_FOR = timedelta(hours=49)
"""PagerDuty repeats a webhook for 48 hours; an older one is a replay."""

DOCUMENT_TTL = timedelta(minutes=1)
MAX_TEXT = 500
ALL_CLUSTERS = "*"
SLACK_HOST = "hooks.slack.com"

Secret = Annotated[str, Meta(min_length=MIN_SECRET_LENGTH)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
T = TypeVar("T")


class Person(Struct, frozen=True, forbid_unknown_fields=True):
    """A person behind a user of Slack or PagerDuty: the name in entries, and the clusters that the person operates."""

    name: Name
    clusters: tuple[str, ...]

    def may_operate(self, cluster: str) -> bool:
        """Return whether the person may give orders about a cluster; `*` means all."""
        return not {ALL_CLUSTERS, cluster}.isdisjoint(self.clusters)


class Service(Struct, frozen=True, forbid_unknown_fields=True):
    """One service: the secrets with which it signs, several while one is replaced, and the people by user id."""

    secrets: tuple[Secret, ...]
    people: Mapping[str, Person] = field(default_factory=dict)


class OnCallDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """The document of the secret: who may give orders through Slack and PagerDuty."""

    slack: Service | None = None
    pagerduty: Service | None = None


def read_document(document: bytes) -> OnCallDocument:
    """Return the settings of a document; any other content raises Misconfigured, which contains no part of it."""
    try:
        return msgspec.json.decode(document or b"{}", type=OnCallDocument)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Misconfigured("the on-call services cannot be read; correct the JSON in the secret") from None


class SignedRequest(Struct, frozen=True):
    """A request as it arrived: its body, and its headers with names in lower case."""

    body: bytes
    headers: Mapping[str, str]


class OnCall(Struct):
    """Executes the orders that people give in Slack and PagerDuty.

    `read` returns the document of the services, which is cached for a minute. `reply` posts an answer to the URL that
    Slack sent with the button.
    """

    orders: Orders
    clock: Clock
    read: Callable[[], bytes]
    reply: Callable[[str, SlackAnswer], None]
    _document: OnCallDocument = field(default_factory=OnCallDocument)
    _read_at: datetime | None = None

    def slack(self, request: SignedRequest) -> str:
        """Execute the order of a pressed button, post its result to Slack, and return it.

        Raises Rejected (`unauthorised`) without a valid signature of the last five minutes, and `bad_body` for a body
        that is no interaction with a button of a page.
        """
        service = self._service("slack")
        timestamp = request.headers.get("x-slack-request-timestamp", "")
        content = b"v0:" + timestamp.encode(errors="replace") + b":" + request.body
        _check(request.headers.get("x-slack-signature", ""), "v0=", content, service.secrets)
        signed_time(timestamp, self.clock.now())
        press = _press_of(request.body)
        done, text = self._press(press, service.people.get(press.user))
        answer = SlackAnswer("in_channel" if done else "ephemeral", replace_original=False, text=text)
        try:
            self.reply(press.response_url, answer)
        except (Transient, Misconfigured) as error:  # the entry has the result
            log_cause("slack_answer_lost", reason=str(error), level=logging.WARNING, user=press.user)
        return text

    def pagerduty(self, request: SignedRequest) -> str:
        """Acknowledge the case of an incident that was acknowledged or resolved, and return what was done.

        Raises Rejected (`unauthorised`) without a valid signature, and `bad_body` for a body that is no webhook.
        """
        service = self._service("pagerduty")
        _check(request.headers.get("x-pagerduty-signature", ""), "v1=", request.body, service.secrets)
        event = _read(request.body, _Webhook).event
        case_id, kind = (event.data.incident_key or "").partition(":")[0], event.event_type
        # The agent of an incident that Faultbridge itself resolves is an integration.
        user = event.agent.id if event.agent and event.agent.type == "user_reference" else ""
        if kind not in PAGERDUTY_ACKS or not CASE_ID.fullmatch(case_id) or not user:
            return "ignored: not a person's acknowledgement of a case"
        if event.occurred_at is None:
            raise Rejected("bad_body", "`occurred_at` is not a time with a zone")
        if self.clock.now() - event.occurred_at > RETRIED_FOR:
            return "ignored: older than PagerDuty's last retry"
        person = service.people.get(user)
        cluster = self.orders.directory.case(case_id).key.cluster
        if person is not None and not person.may_operate(cluster):
            return f"refused: {person.name} may not operate {cluster}"
        name = person.name if person else f"pagerduty:{user}"
        order = order_of("ack", cluster, case_id, {"note": f"{kind.partition('.')[2]} in PagerDuty"})
        execute(self.orders, order, name, f"pagerduty:{event.id}")
        return f"acknowledged: {case_id}"

    def _service(self, name: str) -> Service:
        now = self.clock.now()
        if self._read_at is None or now - self._read_at >= DOCUMENT_TTL:
            self._document, self._read_at = read_document(self.read()), now
        found: Service | None = getattr(self._document, name)
        # A service that is not configured gets the same answer as a wrong signature.
        return found or Service((token_bytes(32).hex(),))

    def _press(self, press: Press, person: Person | None) -> tuple[bool, str]:
        if person is None:
            return False, f"Refused: the Slack user {_escaped(press.user)} is not in the table of people."
        if not person.may_operate(press.cluster):
            return False, f"Refused: {_escaped(person.name)} may not operate cluster {_escaped(press.cluster)}."
        try:
            order = order_of(press.order, press.cluster, press.case, press.fields)
            case = execute(self.orders, order, person.name, f"slack:{press.user}:{press.at}")
        except Rejected as error:
            return False, f"Refused: {_escaped(error.detail or error.reason)}"
        place = f"{case.cluster}/{case.node}" if isinstance(case, Case) else press.cluster
        did = {"approve": "approved the repair of", "deny": "denied the repair of", "ack": "acknowledged the case of"}
        return True, _escaped(f"{person.name} {did[press.order]} {place} ({press.case}).")


class SlackAnswer(Struct, frozen=True):
    """The answer to a pressed button: who sees it, and its text. The message with the button stays as it is."""

    response_type: str
    replace_original: bool
    text: str


class _User(Struct, frozen=True):
    id: str = ""


class _Action(Struct, frozen=True):
    action_id: str
    value: str
    action_ts: str = ""


class _Interaction(Struct, frozen=True):
    type: str
    actions: tuple[_Action, ...] = ()
    response_url: str = ""
    user: _User = _User()


class Press(Struct, frozen=True):
    """A pressed button: who, when, which order about which case, with which fields, and where to answer."""

    user: str
    at: str
    order: str
    cluster: str
    case: str
    fields: Mapping[str, str | int]
    response_url: str


def _press_of(body: bytes) -> Press:
    form = parse_qs(body.decode(errors="replace"), max_num_fields=10)
    found = _read(form.get("payload", [""])[0].encode(), _Interaction)
    action = found.actions[0] if len(found.actions) == 1 else None
    if found.type != "block_actions" or action is None or action.action_id not in SLACK_ORDERS:
        raise Rejected("bad_body", "no button of a page was pressed")
    # Answers go to Slack alone, whatever address a request contains.
    if not (found.response_url.startswith("https://") and urlsplit(found.response_url).hostname == SLACK_HOST):
        raise Rejected("bad_body", f"the response URL is not one of {SLACK_HOST}")
    fields = _read(action.value.encode(), dict[str, str | int])
    cluster, case = (str(fields.pop(name, "")) for name in ("cluster", "case"))
    return Press(found.user.id, action.action_ts, action.action_id, cluster, case, fields, found.response_url)


class _Agent(Struct, frozen=True):
    id: str = ""
    type: str = ""


class _PagedIncident(Struct, frozen=True):
    incident_key: str | None = None


class _PagerDutyEvent(Struct, frozen=True):
    event_type: str = ""
    id: str = ""
    occurred_at: Annotated[datetime, Meta(tz=True)] | None = None
    agent: _Agent | None = None
    data: _PagedIncident = _PagedIncident()


class _Webhook(Struct, frozen=True):
    event: _PagerDutyEvent


def _check(header: str, version: str, content: bytes, secrets: tuple[str, ...]) -> None:
    """Raise Rejected unless one of the signatures in a header was made with one of the secrets."""
    given = [one.strip() for one in header.split(",")[:10]]
    signed = [one.removeprefix(version).encode(errors="replace") for one in given if one.startswith(version)]
    expected = [sign(content, secret.encode()).encode() for secret in secrets]
    # Every pair is compared, so that the response time does not depend on which one matches.
    matches = [hmac.compare_digest(one, other) for one in expected for other in signed]
    if not any(matches):
        raise Rejected("unauthorised", "the signature does not match")


def _read(text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError):
        raise Rejected("bad_body", "the body is not a JSON object of the documented form") from None


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")[:MAX_TEXT]

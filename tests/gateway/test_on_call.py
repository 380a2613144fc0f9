"""Orders from Slack and PagerDuty: requests in the documented form, and every way in which one is refused."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.times import to_text
from faultbridge.serve.entrypoints import timeline
from faultbridge.serve.gateway.on_call import OnCall, SlackAnswer, read_document
from faultbridge.serve.wiring.services import wire_orders
from tests.api.builders import ANSWER, C, waiting
from tests.api.gateway import Gateway

SLACK_SECRET, PAGERDUTY_SECRET = "8f742231b10e8888abcd99yyyzzz85a5", "GDiRcp1s3R6dO9pXtmnb7AH9z2QKx0d1"
ADA = {"name": "ada@example.com", "clusters": ["train-a"]}
SERVICES = {
    "slack": {"secrets": [SLACK_SECRET], "people": {"U2CERLKJA": ADA, "U0OTHER": {**ADA, "clusters": ["train-b"]}}},
    "pagerduty": {"secrets": [PAGERDUTY_SECRET], "people": {"PLH1HKV": ADA}},
}
RESPONSE_URL = "https://hooks.slack.com/actions/T9TK3CUKW/1234/xyz"


class Hooks(Gateway):
    """A gateway with the paths of Slack and PagerDuty; `answers` are the posts to Slack."""

    def __init__(self) -> None:
        super().__init__()
        self.world.ports.services = SERVICES
        self.answers: list[tuple[str, SlackAnswer]] = []
        app = self.world.app

        def reply(url: str, answer: SlackAnswer) -> None:
            self.answers.append((url, answer))

        app.services[timeline.wire_on_call] = OnCall(wire_orders(app), app.ports.clock, app.ports.on_call, reply)

    def call(self, path: str, body: str, headers: Mapping[str, str]) -> int:
        event = {"rawPath": path, "headers": headers, "body": body, "isBase64Encoded": False, "requestContext": {}}
        return int(timeline.timeline(event, None, self.world.app)["statusCode"])

    def press(
        self, order: str, value: Mapping[str, Any], user: str = "U2CERLKJA", *, late: int = 0, **changes: Any
    ) -> int:
        """Press a button, as Slack sends it: a signed form with one field."""
        interaction = {
            "type": "block_actions",
            "user": {"id": user, "username": "ada", "team_id": "T9TK3CUKW"},
            "api_app_id": "AABA1ABCD",
            "container": {"type": "message", "message_ts": "1548261231.000200", "channel_id": "CBR2V3XEX"},
            "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
            "actions": [
                {
                    "action_id": order,
                    "block_id": "orders",
                    "value": json.dumps(value),
                    "type": "button",
                    "action_ts": "1548426417.840180",
                }
            ],
            "response_url": RESPONSE_URL,
            **changes,
        }
        body = urlencode({"payload": json.dumps(interaction)})
        stamp = str(int(self.world.now.timestamp()) - late)
        signature = hmac.new(SLACK_SECRET.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={signature}"}
        return self.call("/hooks/slack", body, headers)

    def incident(self, kind: str, key: str, secret: str = PAGERDUTY_SECRET, **changes: Any) -> int:
        """Send a webhook (v3) of PagerDuty about an incident."""
        event = {
            "id": "5ac64822-4adc-4fda-ade0-410becf0de4f",
            "event_type": f"incident.{kind}",
            "resource_type": "incident",
            "occurred_at": to_text(self.world.now),
            "agent": {"id": "PLH1HKV", "type": "user_reference", "summary": "Ada"},
            "client": None,
            "data": {"id": "PGR0VU2", "type": "incident", "number": 2, "status": kind, "incident_key": key},
            **changes,
        }
        body = json.dumps({"event": event})
        right = hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
        headers = {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={right}", "X-Webhook-Id": "PDEV"}
        return self.call("/hooks/pagerduty", body, headers)

    def persons(self) -> list[tuple[str, str]]:
        notes = (one["data"] for one in self.get(f"{C}/entries").json["items"])
        return [(one["operator"], one["text"]) for one in notes if one.get("operator")]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def value(case: str, **more: Any) -> dict[str, Any]:
    return {"cluster": "train-a", "case": case, **more}


@pytest.mark.parametrize(("order", "verb"), [("approve", "approved"), ("deny", "denied")])
def test_a_button_answers_the_approval_request_as_the_person_in_the_table(hooks: Hooks, order: str, verb: str) -> None:
    case = waiting(hooks)
    assert hooks.press(order, value(case, **ANSWER)) == 200
    assert hooks.persons() == [("ada@example.com", verb)]
    ((url, answer),) = hooks.answers
    assert (url, answer.response_type) == (RESPONSE_URL, "in_channel")
    assert answer.text == f"ada@example.com {verb} the repair of train-a/n-2 ({case})."


def test_a_repeated_button_orders_nothing_again(hooks: Hooks) -> None:
    case = waiting(hooks)
    for _ in range(2):
        assert hooks.press("ack", value(case)) == 200
    assert hooks.persons() == [("ada@example.com", "acknowledged")]


@pytest.mark.parametrize("user", ["U0STRANGER", "U0OTHER", ""])
def test_a_user_without_the_right_changes_nothing_and_gets_the_reason(hooks: Hooks, user: str) -> None:
    assert hooks.press("approve", value(waiting(hooks), **ANSWER), user) == 200
    assert hooks.persons() == []
    ((_, answer),) = hooks.answers
    assert (answer.response_type, answer.text.startswith("Refused: ")) == ("ephemeral", True)


def test_an_order_that_comes_too_late_is_refused_with_its_reason(hooks: Hooks) -> None:
    case = waiting(hooks)
    hooks.press("approve", value(case, **{**ANSWER, "attempt": 2}))
    assert "no approval is requested" in hooks.answers[0][1].text
    assert hooks.persons() == []


@pytest.mark.parametrize("late", [301, -301])
def test_a_request_that_is_more_than_five_minutes_off_is_refused(hooks: Hooks, late: int) -> None:
    assert hooks.press("ack", value(waiting(hooks)), late=late) == 401
    assert (hooks.persons(), hooks.answers) == ([], [])


@pytest.mark.parametrize("signature", ["", "v0=", "v0=" + "0" * 64, "v1=abc", "v0=\u00e9"])
@pytest.mark.parametrize("configured", [True, False])
def test_a_request_without_the_signature_is_refused(hooks: Hooks, signature: str, *, configured: bool) -> None:
    hooks.world.ports.services = SERVICES if configured else {}
    headers = {
        "x-slack-request-timestamp": str(int(hooks.world.now.timestamp())),
        "x-slack-signature": signature,
        "x-pagerduty-signature": signature,
    }
    for path in ("/hooks/slack", "/hooks/pagerduty"):
        assert hooks.call(path, "payload=%7B%7D", headers) == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "view_submission"},
        {"actions": []},
        {"actions": [{"action_id": "replace", "value": "{}"}]},
        {"actions": [{"action_id": "ack", "value": "["}]},
        {"response_url": "https://evil.example/hooks.slack.com"},
        {"response_url": "http://hooks.slack.com/x"},
        {"response_url": "https://hooks.slack.com@evil.example/"},
    ],
)
def test_a_signed_request_that_is_no_button_of_a_page_is_refused(hooks: Hooks, changes: dict[str, Any]) -> None:
    assert hooks.press("ack", value(waiting(hooks)), **changes) == 400
    assert (hooks.persons(), hooks.answers) == ([], [])


def test_an_answer_that_slack_does_not_take_undoes_no_order(hooks: Hooks) -> None:
    def fail(_url: str, _answer: SlackAnswer) -> None:
        raise Transient("no answer")

    hooks.world.app.services[timeline.wire_on_call].reply = fail
    assert hooks.press("ack", value(waiting(hooks))) == 200
    assert hooks.persons() == [("ada@example.com", "acknowledged")]


@pytest.mark.parametrize("kind", ["acknowledged", "resolved"])
def test_an_incident_that_a_person_acknowledges_or_resolves_acknowledges_its_case(hooks: Hooks, kind: str) -> None:
    case = waiting(hooks)
    for _ in range(2):
        assert hooks.incident(kind, f"{case}:escalated") == 200
    assert hooks.persons() == [("ada@example.com", f"acknowledged: {kind} in PagerDuty")]
    shown = hooks.get(f"{C}/cases/{case}").json
    assert (shown["owner"], shown["approval"]["answer"], shown["status"]) == ("ada@example.com", None, "queued")


def test_a_pagerduty_user_without_a_row_owns_the_case_by_their_id(hooks: Hooks) -> None:
    case = waiting(hooks)
    hooks.incident("acknowledged", f"{case}:approval", agent={"id": "PNEW", "type": "user_reference"})
    assert hooks.persons() == [("pagerduty:PNEW", "acknowledged: acknowledged in PagerDuty")]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("triggered", {}),
        ("acknowledged", {"agent": None}),
        ("resolved", {"agent": {"id": "PINT3GR", "type": "events_api_v2_inbound_integration_reference"}}),
        ("acknowledged", {"data": {"incident_key": "train-a:breaker"}}),
        ("acknowledged", {"occurred_at": "2026-01-01T00:00:00Z"}),
        ("acknowledged", {"data": {"incident_key": f"c-{'a' * 26}:escalated"}}),
    ],
)
def test_a_webhook_that_is_no_acknowledgement_of_a_case_is_taken_and_changes_nothing(
    hooks: Hooks, kind: str, changes: dict[str, Any]
) -> None:
    assert hooks.incident(kind, f"{waiting(hooks)}:escalated", **changes) == 200
    assert hooks.persons() == []


def test_a_webhook_with_another_secret_is_refused(hooks: Hooks) -> None:
    case = waiting(hooks)
    assert hooks.incident("acknowledged", f"{case}:escalated", secret="x" * 32) == 401


@pytest.mark.parametrize(
    "document", [b"[", b'{"slack": {"secrets": ["short"]}}', b'{"slack": {"secrets": [], "x": 1}}', b'{"teams": {}}']
)
def test_a_document_that_cannot_be_read_is_a_wrong_setting_and_is_not_quoted(document: bytes) -> None:
    with pytest.raises(Misconfigured) as raised:
        read_document(document)
    assert "short" not in str(raised.value)


def test_a_changed_secret_is_read_within_a_minute(hooks: Hooks) -> None:
    case = waiting(hooks)
    hooks.world.ports.services = {}
    assert hooks.press("ack", value(case)) == 401
    hooks.world.ports.services = SERVICES
    hooks.world.ports.clock.advance(timedelta(minutes=1))
    assert hooks.press("ack", value(case)) == 200

"""Calls of the agent at a server that validates each signature, and corrects a wrong clock of the node."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.model.values import replace
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.sender import SendFailed, ServiceClock
from faultbridge.node.agent.delivery.transport import (
    AwsTransport,
    Call,
    Credentials,
    HttpConnections,
    HttpResponse,
    NoCredentials,
    RoleCredentials,
    signed_headers,
)
from tests.agent.fakes import NOON, ManualClock
from tests.agent.signature_checker import SignatureChecker

KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "token+/=")
ONE = OutgoingRecord("r-1", "train-a/gpu-1", '{"v":1}')
OBJECT = "raw/train-a/2026-02-03/a+c~d=e"


@pytest.fixture
def checker() -> Iterator[SignatureChecker]:
    checker = SignatureChecker({KEYS.key: KEYS.secret}, lambda: NOON)
    yield checker
    checker.close()


def transport(checker: SignatureChecker, keys: Credentials = KEYS, wrong_by: timedelta = timedelta(0)) -> AwsTransport:
    clock = ManualClock()
    clock.wall += wrong_by
    endpoints = {"AWS_ENDPOINT_URL_SQS": checker.url, "AWS_ENDPOINT_URL_S3": checker.url}
    queue = f"{checker.url}/1/raw"
    return AwsTransport(queue, "bucket", "us-east-1", lambda: keys, ServiceClock(clock), environment=endpoints)


@pytest.mark.parametrize("token", [None, "token+/="])
def test_signed_calls_are_accepted(checker: SignatureChecker, token: str | None) -> None:
    sender = transport(checker, replace(KEYS, token=token))
    assert sender.send_batch([ONE]) == ({"r-1"}, set())
    sender.put_object(OBJECT, b"\x00large")
    assert (checker.messages, checker.objects) == ([ONE.text], {f"/bucket/{OBJECT}": b"\x00large"})
    assert checker.refusals == []


@pytest.mark.parametrize(
    "keys", [replace(KEYS, secret="another"), replace(KEYS, key="AKIDOTHER")], ids=["wrong secret", "unknown key"]
)
def test_a_call_with_other_keys_is_refused(checker: SignatureChecker, keys: Credentials) -> None:
    with pytest.raises(SendFailed, match="403"):
        transport(checker, keys).send_batch([ONE])
    assert checker.messages == []


@pytest.mark.parametrize("changed", ["body", "method", "path", "content-type", "x-amz-security-token"])
def test_a_call_that_was_changed_after_signing_is_refused(checker: SignatureChecker, changed: str) -> None:
    call = Call("PUT", f"{checker.url}/bucket/{OBJECT}", b"body", {"content-type": "text/x"}, "s3", "us-east-1")
    headers = signed_headers(call, KEYS, NOON)
    match changed:
        case "body":
            call = replace(call, body=b"other")
        case "method":
            call = replace(call, method="POST")
        case "path":
            call = replace(call, url=f"{call.url}x")
        case name:
            headers[name] += "x"
    assert HttpConnections()(call, headers).status == 403
    assert checker.objects == {}


@pytest.mark.parametrize("minutes", [-60 * 24 * 365, -20, -15, 15, 20, 60 * 24 * 365])
def test_a_wrong_clock_is_corrected_from_the_date_of_the_service(checker: SignatureChecker, minutes: int) -> None:
    sender = transport(checker, wrong_by=timedelta(minutes=minutes))
    assert sender.send_batch([ONE]) == ({"r-1"}, set())
    sender.put_object("raw/x", b"large")
    assert len(checker.refusals) == 1


def test_a_clock_that_is_set_right_again_is_corrected_again(checker: SignatureChecker) -> None:
    clock = ManualClock()
    clock.wall += timedelta(hours=1)
    endpoints, services = {"AWS_ENDPOINT_URL": checker.url}, ServiceClock(clock)
    sender = AwsTransport(f"{checker.url}/q", None, "us-east-1", lambda: KEYS, services, environment=endpoints)
    sender.send_batch([ONE])
    clock.wall = NOON
    assert sender.send_batch([ONE]) == ({"r-1"}, set())
    assert len(checker.refusals) == 2


@pytest.mark.parametrize("date", [None, "", "yesterday", "Tue, 03 Feb 2026 12:00:30 GMT"])
def test_without_a_date_that_differs_a_refused_call_is_not_repeated(date: str | None) -> None:
    calls = []

    def refuse(*call: object) -> HttpResponse:
        calls.append(call)
        return HttpResponse(403, b"AccessDenied", date)

    services = ServiceClock(ManualClock())
    sender = AwsTransport("http://q/q", None, "r", lambda: KEYS, services, http_call=refuse, environment={})
    with pytest.raises(SendFailed):
        sender.send_batch([ONE])
    assert len(calls) == 1


def test_credentials_that_cannot_be_refreshed_are_used_until_they_expire(capsys: pytest.CaptureFixture[str]) -> None:
    class Unreachable(RoleCredentials):
        down = False

        def _from_instance(self) -> Iterator[Credentials]:
            if self.down:
                raise OSError("no route to the metadata service")
            yield replace(KEYS, expires=NOON + timedelta(hours=1))

    clock = ManualClock()
    keys = Unreachable(clock, {})
    first = keys()
    Unreachable.down = True
    clock.advance(59 * 60)
    assert [keys(), keys()] == [first, first]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "faultbridge: AWS credentials were not refreshed and are used until 2026-02-03T13:00:00.000Z: "
        "no route to the metadata service"
    )
    clock.advance(60)
    with pytest.raises(NoCredentials, match="no route"):
        keys()


def test_a_failed_refresh_of_credentials_is_tried_again_after_half_a_minute() -> None:
    class Unreachable(RoleCredentials):
        tries = 0

        def _from_instance(self) -> Iterator[Credentials]:
            Unreachable.tries += 1
            if self.tries > 1:
                raise OSError("no route to the metadata service")
            yield replace(KEYS, expires=NOON + timedelta(hours=1))

    clock = ManualClock()
    keys = Unreachable(clock, {}, report=lambda _: None)
    keys()
    clock.advance(50 * 60)
    for _ in range(10):
        keys()
    assert Unreachable.tries == 2
    clock.advance(30)
    keys()
    assert Unreachable.tries == 3


def test_credentials_expire_by_the_corrected_clock() -> None:
    class Counted(RoleCredentials):
        loads = 0

        def _load(self) -> Credentials:
            type(self).loads += 1
            return replace(KEYS, expires=NOON + timedelta(hours=1))

    services = ServiceClock(ManualClock())
    keys = Counted(services, {})
    keys()
    services.offset = timedelta(minutes=55)
    keys()
    assert Counted.loads == 2

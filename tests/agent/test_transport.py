"""Calls to AWS without a client library: same signature as botocore, accepted by a fake server."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from datetime import timedelta

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as LibraryCredentials
from moto.server import ThreadedMotoServer

from faultbridge.model.storage.wire.decode_message import split_records
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.sender import SendFailed, ServiceClock
from faultbridge.node.agent.delivery.transport import (
    TIMEOUT_SECONDS,
    AwsTransport,
    Call,
    Credentials,
    HttpResponse,
    NoCredentials,
    RoleCredentials,
    region_of,
    signed_headers,
)
from tests.adapters.listener import listening
from tests.agent.fakes import NOON, ManualClock

KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "token+/=")
ONE = OutgoingRecord("r-1", "train-a/gpu-1", '{"v":1}')


@pytest.fixture(scope="module")
def server():
    """A fake SQS and S3 server."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


def library(service: str, server: str):
    return boto3.client(
        service,
        endpoint_url=server,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def transport_to(server: str, queue_url: str, bucket: str | None = None) -> AwsTransport:
    environment = {"AWS_ENDPOINT_URL_SQS": server, "AWS_ENDPOINT_URL_S3": server}
    return AwsTransport(
        queue_url, bucket, "us-east-1", lambda: KEYS, ServiceClock(ManualClock()), environment=environment
    )


def transport_that_receives(body: bytes) -> AwsTransport:
    return AwsTransport(
        "http://q/q",
        None,
        "us-east-1",
        lambda: KEYS,
        ServiceClock(ManualClock()),
        http_call=lambda *_: HttpResponse(200, body),
        environment={},
    )


@pytest.mark.parametrize("token", [None, "token+/="])
@pytest.mark.parametrize("service", ["sqs", "s3"])
def test_the_signature_equals_the_one_of_botocore(monkeypatch, service, token):
    url, body = "https://sqs.us-east-1.amazonaws.com/raw/train-a/2026-02-03/ab", b'{"a": 1}'
    keys = Credentials(KEYS.key, KEYS.secret, token)
    own = signed_headers(Call("POST", url, body, {"content-type": "text/x"}, service, "us-east-1"), keys, NOON)
    headers = {"content-type": "text/x"} | (
        {"x-amz-content-sha256": own["x-amz-content-sha256"]} if service == "s3" else {}
    )
    request = AWSRequest("POST", url, headers=headers, data=body)
    frozen = type("frozen", (), {"utcnow": staticmethod(lambda: NOON), "now": staticmethod(lambda *_: NOON)})
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: NOON, raising=False)
    monkeypatch.setattr("botocore.auth.datetime", type("module", (), {"datetime": frozen}), raising=False)
    SigV4Auth(LibraryCredentials(KEYS.key, KEYS.secret, token), service, "us-east-1").add_auth(request)
    assert own["authorization"] == request.headers["Authorization"]


def test_messages_arrive_in_the_queue_with_their_group(server):
    sqs = library("sqs", server)
    url = sqs.create_queue(QueueName="raw")["QueueUrl"]
    more = [OutgoingRecord(f"r-{number}", "train-a/gpu-2", f'{{"v":1,"n":{number}}}') for number in range(9)]
    transport = transport_to(server, url)
    assert transport.send_batch([ONE, *more]) == ({"r-1", *(one.record_id for one in more)}, set())
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"])
    found = {one["Attributes"]["MessageGroupId"]: split_records(one["Body"]) for one in got["Messages"]}
    assert found == {ONE.group: (ONE.text,), "train-a/gpu-2": tuple(one.text for one in more)}
    assert len(got["Messages"]) == 2, "the records of a group share a message"


def test_an_object_arrives_in_the_bucket(server):
    s3 = library("s3", server)
    s3.create_bucket(Bucket="raw-records")
    transport_to(server, "http://q/q", "raw-records").put_object("raw/train-a/2026-02-03/abc", b"\x00large")
    assert s3.get_object(Bucket="raw-records", Key="raw/train-a/2026-02-03/abc")["Body"].read() == b"\x00large"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "raw-records.s3.us-east-1.amazonaws.com"),
        ("cn-north-1", "raw-records.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_an_object_is_written_to_the_host_of_the_bucket_in_its_region(region, host):
    urls = []

    def accept(call: Call, _headers: object) -> HttpResponse:
        urls.append(call.url)
        return HttpResponse(200, b"")

    clock = ServiceClock(ManualClock())
    transport = AwsTransport("http://q/q", "raw-records", region, lambda: KEYS, clock, http_call=accept, environment={})
    transport.put_object("raw/train-a/2026-02-03/abc", b"large")
    assert urls == [f"https://{host}/raw/train-a/2026-02-03/abc"]


def test_a_missing_queue_raises_send_failed(server):
    with pytest.raises(SendFailed):
        transport_to(server, f"{server}/123456789012/missing").send_batch([ONE])


def test_a_refused_connection_raises_send_failed():
    with pytest.raises(SendFailed):
        transport_to("http://127.0.0.1:9", "http://127.0.0.1:9/q").send_batch([ONE])


def test_a_queue_that_does_not_answer_within_ten_seconds_raises_send_failed(monkeypatch):
    def keep_silent(connected: socket.socket) -> None:
        connected.settimeout(20)
        # A connection that is closed with unread bytes is reset, so everything is read until the client closes it.
        while connected.recv(65_536):
            pass

    assert TIMEOUT_SECONDS == 10
    monkeypatch.setattr("faultbridge.node.agent.delivery.transport.TIMEOUT_SECONDS", 0.2)
    with listening(keep_silent) as port, pytest.raises(SendFailed, match="timed out"):
        transport_to(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/q").send_batch([ONE])


@pytest.mark.parametrize("response", [b"", b"<html>", b"[]", b'{"Failed": [{"Id": "7"}]}', b'{"Failed": 3}'])
def test_an_invalid_response_raises_send_failed(response):
    transport = transport_that_receives(response)
    with pytest.raises(SendFailed):
        transport.send_batch([ONE])


def test_permanently_refused_messages_are_separate_from_retriable_ones():
    failed = [{"Id": "0", "Code": "InvalidMessageContents"}, {"Id": "1", "Code": "ServiceUnavailable"}]
    transport = transport_that_receives(json.dumps({"Failed": failed}).encode())
    records = [OutgoingRecord(f"r-{number}", f"g-{number % 3}", "{}") for number in range(6)]
    assert transport.send_batch(records) == ({"r-2", "r-5"}, {"r-0", "r-3"})


class Metadata(http.server.BaseHTTPRequestHandler):
    """A fake instance metadata service, version 2."""

    requests = 0

    def do_PUT(self):
        self._respond("token")

    def do_GET(self):
        if self.headers["X-aws-ec2-metadata-token"] != "token":
            self.send_error(401)
            return
        type(self).requests += 1
        keys = {"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T", "Expiration": "2026-02-03T18:00:00Z"}
        paths = {"security-credentials/": "node-role", "security-credentials/node-role": json.dumps(keys)}
        self._respond(paths[self.path.partition("iam/")[2]])

    def _respond(self, text: str):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        return


def test_credentials_of_an_instance_are_refreshed_before_they_expire():
    with http.server.HTTPServer(("127.0.0.1", 0), Metadata) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        clock = ManualClock()
        keys = RoleCredentials(clock, {}, f"http://127.0.0.1:{host.server_port}")
        assert keys() == Credentials("A", "S", "T", NOON + timedelta(hours=6))
        clock.advance(5 * 3600)
        keys()
        assert Metadata.requests == 2
        clock.advance(51 * 60)
        keys()
        assert Metadata.requests == 4
        host.shutdown()


def test_no_role_raises_no_credentials_and_an_unknown_container_host_is_refused():
    with pytest.raises(NoCredentials):
        RoleCredentials(ManualClock(), {}, "http://127.0.0.1:9")()
    with pytest.raises(NoCredentials, match="unknown host"):
        RoleCredentials(
            ManualClock(), {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://elsewhere.example/"}, "http://127.0.0.1:9"
        )()


def test_the_region_is_configured_or_read_from_the_queue_url():
    assert region_of("https://sqs.eu-west-1.amazonaws.com/1/q", None) == "eu-west-1"
    assert region_of("https://sqs.eu-west-1.amazonaws.com/1/q", "us-west-2") == "us-west-2"

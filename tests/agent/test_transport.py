"""The way to AWS without a client library: signed as the library signs, taken by a server."""

from __future__ import annotations

import http.server
import json
import threading
from datetime import timedelta

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as LibraryCredentials
from moto.server import ThreadedMotoServer

from faultbridge.agent.credentials import NoCredentials, RoleCredentials, region_of
from faultbridge.agent.outgoing import Outgoing
from faultbridge.agent.sender import NotSent
from faultbridge.agent.signing import Call, Credentials, signed
from faultbridge.agent.transport import AwsTransport
from tests.agent.fakes import NOON, MovedClock

KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "token+/=")
ONE = Outgoing("r-1", "train-a/gpu-1", '{"v":1}')


@pytest.fixture(scope="module")
def server():
    """A server that plays SQS and S3."""
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


def way(server: str, queue_url: str, bucket: str | None = None) -> AwsTransport:
    environment = {"AWS_ENDPOINT_URL_SQS": server, "AWS_ENDPOINT_URL_S3": server}
    return AwsTransport(queue_url, bucket, "us-east-1", lambda: KEYS, MovedClock(), environment=environment)


@pytest.mark.parametrize("token", [None, "token+/="])
@pytest.mark.parametrize("service", ["sqs", "s3"])
def test_a_call_is_signed_as_the_client_library_signs_it(monkeypatch, service, token):
    url, body = "https://sqs.us-east-1.amazonaws.com/raw/train-a/2026-02-03/ab", b'{"a": 1}'
    keys = Credentials(KEYS.key, KEYS.secret, token)
    own = signed(Call("POST", url, body, {"content-type": "text/x"}, service, "us-east-1"), keys, NOON)
    headers = {"content-type": "text/x"} | (
        {"x-amz-content-sha256": own["x-amz-content-sha256"]} if service == "s3" else {}
    )
    request = AWSRequest("POST", url, headers=headers, data=body)
    frozen = type("frozen", (), {"utcnow": staticmethod(lambda: NOON), "now": staticmethod(lambda *_: NOON)})
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: NOON, raising=False)
    monkeypatch.setattr("botocore.auth.datetime", type("module", (), {"datetime": frozen}), raising=False)
    SigV4Auth(LibraryCredentials(KEYS.key, KEYS.secret, token), service, "us-east-1").add_auth(request)
    assert own["authorization"] == request.headers["Authorization"]


def test_messages_reach_the_queue_with_their_group(server):
    sqs = library("sqs", server)
    url = sqs.create_queue(QueueName="raw")["QueueUrl"]
    more = [Outgoing(f"r-{number}", "train-a/gpu-2", f'{{"n":{number}}}') for number in range(9)]
    transport = way(server, url)
    assert transport.send([ONE, *more]) == ({"r-1", *(one.record_id for one in more)}, set())
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"])
    assert sorted(one["Body"] for one in got["Messages"]) == sorted([ONE.text, *(one.text for one in more)])
    assert {one["Attributes"]["MessageGroupId"] for one in got["Messages"]} == {ONE.group, "train-a/gpu-2"}


def test_a_body_reaches_the_bucket(server):
    s3 = library("s3", server)
    s3.create_bucket(Bucket="raw-records")
    way(server, "http://q/q", "raw-records").put("raw/train-a/2026-02-03/abc", b"\x00large")
    assert s3.get_object(Bucket="raw-records", Key="raw/train-a/2026-02-03/abc")["Body"].read() == b"\x00large"


def test_a_queue_that_is_not_there_is_not_sent(server):
    with pytest.raises(NotSent):
        way(server, f"{server}/123456789012/nowhere").send([ONE])


def test_a_network_that_is_not_there_is_not_sent():
    with pytest.raises(NotSent):
        way("http://127.0.0.1:9", "http://127.0.0.1:9/q").send([ONE])


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b'{"Failed": [{"Id": "7"}]}', b'{"Failed": 3}'])
def test_an_answer_that_makes_no_sense_is_not_sent(answer):
    transport = AwsTransport(
        "http://q/q", None, "us-east-1", lambda: KEYS, MovedClock(), wire=lambda *_: (200, answer), environment={}
    )
    with pytest.raises(NotSent):
        transport.send([ONE])


def test_what_the_queue_will_never_take_is_told_from_what_it_did_not_take_now():
    failed = [{"Id": "0", "Code": "InvalidMessageContents"}, {"Id": "1", "Code": "ServiceUnavailable"}]
    transport = AwsTransport(
        "http://q/q",
        None,
        "us-east-1",
        lambda: KEYS,
        MovedClock(),
        wire=lambda *_: (200, json.dumps({"Failed": failed}).encode()),
        environment={},
    )
    records = [Outgoing(f"r-{number}", "g", "{}") for number in range(3)]
    assert transport.send(records) == ({"r-2"}, {"r-0"})


class Metadata(http.server.BaseHTTPRequestHandler):
    """An instance metadata service, version 2."""

    asked = 0

    def do_PUT(self):
        self._answer("token")

    def do_GET(self):
        if self.headers["X-aws-ec2-metadata-token"] != "token":
            self.send_error(401)
            return
        type(self).asked += 1
        keys = {"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T", "Expiration": "2026-02-03T18:00:00Z"}
        paths = {"security-credentials/": "node-role", "security-credentials/node-role": json.dumps(keys)}
        self._answer(paths[self.path.partition("iam/")[2]])

    def _answer(self, text: str):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        return


def test_an_instances_keys_are_asked_for_again_before_they_end():
    with http.server.HTTPServer(("127.0.0.1", 0), Metadata) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        clock = MovedClock()
        keys = RoleCredentials(clock, {}, f"http://127.0.0.1:{host.server_port}")
        assert keys() == Credentials("A", "S", "T", NOON + timedelta(hours=6))
        clock.pass_(5 * 3600)
        keys()
        assert Metadata.asked == 2
        clock.pass_(51 * 60)
        keys()
        assert Metadata.asked == 4
        host.shutdown()


def test_without_a_role_there_are_no_keys_and_a_pods_keys_come_from_this_host_only():
    with pytest.raises(NoCredentials):
        RoleCredentials(MovedClock(), {}, "http://127.0.0.1:9")()
    with pytest.raises(NoCredentials, match="no place"):
        RoleCredentials(
            MovedClock(), {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://elsewhere.example/"}, "http://127.0.0.1:9"
        )()


def test_the_region_is_the_queues():
    assert region_of("https://sqs.eu-west-1.amazonaws.com/1/q", None) == "eu-west-1"
    assert region_of("https://sqs.eu-west-1.amazonaws.com/1/q", "us-west-2") == "us-west-2"

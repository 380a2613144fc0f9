"""An agent that cannot send: `agent --once` says why in one line, and an error of the sender ends any agent."""

from __future__ import annotations

import http.server
import threading

import pytest

from faultbridge.node.agent.__main__ import EXIT_NOT_SENT, main
from faultbridge.node.agent.resource_limits import MEMORY_BYTES
from tests.agent.builders import agent_with_records
from tests.agent.fakes import FakeTransport, ManualClock

KEYS = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S"}


class Answer(http.server.BaseHTTPRequestHandler):
    """A queue service that gives one answer to every call."""

    status, body = 200, b"{}"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        return


@pytest.fixture
def once(tmp_path, monkeypatch, capsys):
    """Return a function that runs the agent once: with AWS keys or not, and an answer of the queue."""
    monkeypatch.setattr("faultbridge.node.agent.host.instance_id", lambda *_: None)
    monkeypatch.setattr("faultbridge.node.agent.delivery.transport.RoleCredentials._from_instance", lambda _: iter(()))
    monkeypatch.setattr("faultbridge.node.agent.resource_limits.lower_priority", lambda: None)
    monkeypatch.setattr("faultbridge.node.agent.__main__.signal.signal", lambda *_: None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = {"CLUSTER": "train-a", "NODE": "gpu-1", "SPOOL": str(tmp_path), "KMSG": str(tmp_path / "kmsg")}
    settings |= {f"{name}_SECONDS": "0" for name in ("SMI", "HEALTH", "EXPORTER", "LINK", "COUNTER")}
    (tmp_path / "agent.toml").write_text("[journal_units]\n", encoding="utf-8")

    def run(keys=KEYS, status=200, body=b"{}"):
        handler = type("Handler", (Answer,), {"status": status, "body": body})
        with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            environment = settings | {"QUEUE_URL": f"http://127.0.0.1:{server.server_port}/1/raw"}
            for name, value in environment.items():
                monkeypatch.setenv(f"FAULTBRIDGE_AGENT_{name}", value)
            for name, value in keys.items():
                monkeypatch.setenv(name, value)
            code = main(["--once", "--config", str(tmp_path / "agent.toml")])
            server.shutdown()
        return code, capsys.readouterr().err

    return run


def test_with_credentials_and_a_queue_it_sends_and_ends_with_0(once):
    assert once() == (0, "")


def test_without_credentials_it_says_so(once):
    code, message = once(keys={})
    assert code == EXIT_NOT_SENT
    assert message.startswith("faultbridge: no AWS credentials: no role was found")
    assert message.count("\n") == 1


def test_without_its_queue_it_names_the_queue_and_the_answer(once):
    code, message = once(status=400, body=b'{"__type": "com.amazonaws.sqs#QueueDoesNotExist",\n"message": "no"}')
    assert code == EXIT_NOT_SENT
    assert "QueueDoesNotExist" in message
    assert message.count("\n") == 1


def test_a_record_that_the_queue_refuses_is_counted_among_the_records_that_wait(once, tmp_path):
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "training-log.job-1").write_text("loss: nan", encoding="utf-8")
    code, message = once(body=b'{"Failed": [{"Id": "0", "Code": "InvalidMessageContents"}]}')
    assert code == EXIT_NOT_SENT
    # The other record is the notice about the first one.
    assert message == "faultbridge: the queue refuses its content; 2 records wait on disk\n"


def test_records_for_which_the_time_is_not_sufficient_are_a_problem(tmp_path):
    clock, transport = ManualClock(), FakeTransport()
    agent = agent_with_records(tmp_path, transport, clock, 30)
    accept = transport.send_batch

    def send_slowly(records):
        clock.advance(30)
        return accept(records)

    transport.send_batch = send_slowly
    assert agent.run_once(45) == "the time was not sufficient to send all records"
    assert agent.outbox.unsent == 11


def test_a_postponed_record_is_a_problem_although_later_calls_succeed(tmp_path):
    transport = FakeTransport()
    transport.throttled = {"r-1"}
    agent = agent_with_records(tmp_path, transport, ManualClock(), 30)
    assert agent.run_once(45) == "the queue did not accept it"
    assert (agent.outbox.unsent, len(transport.accepted)) == (1, 30)


def test_a_record_in_quarantine_is_a_problem_although_later_calls_succeed(tmp_path):
    transport = FakeTransport()
    transport.refused = {"r-1"}
    agent = agent_with_records(tmp_path, transport, ManualClock(), 30)
    assert agent.run_once(45) == "the queue refuses its content"
    assert (agent.outbox.waiting, agent.outbox.unsent) == (0, 1)


def test_an_error_of_the_sender_ends_the_agent_with_that_error(tmp_path):
    def fail(_records):
        raise RuntimeError("a defect")

    transport = FakeTransport()
    transport.send_batch = fail
    agent = agent_with_records(tmp_path, transport, ManualClock(), 1)
    # An agent that is not stopped ends with MemoryExceeded.
    agent.resident_bytes = lambda: 0 if agent.stopping.wait(20) else MEMORY_BYTES + 1
    with pytest.raises(RuntimeError, match="a defect"):
        agent.run()

"""Runs the command line on an in-memory installation."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge.cli.app import run
from faultbridge.cli.commands.fleet import node
from faultbridge.cli.stack.session import Session
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.ingest.outcomes import outcome_line
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.sim.fakes import FakeReceipts
from tests.world import World

OPERATOR = "arn:aws:iam::123456789012:user/ada"


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of one call."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Desk:
    """Runs commands on a stack of fakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self.world = World()
        self.receipts = FakeReceipts(self.world.ports.clock)
        self._capture = capfdbinary
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(Session, "application", property(lambda _session: self.world.app))
        monkeypatch.setattr(Session, "operator", property(lambda _session: OPERATOR))
        monkeypatch.setattr(node, "wait", lambda: wire_react(self.world.app).run([(KEY.cluster, KEY.node)]))
        monkeypatch.setattr(Session, "receipts", property(lambda _session: self.receipts))

    def __call__(self, *arguments: str, given: str | bytes = b"") -> Ran:
        body = given.encode() if isinstance(given, str) else given
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        self._capture.readouterr()
        code = run(arguments)
        out, err = self._capture.readouterr()
        return Ran(code, out.decode(), err.decode())

    def json(self, *arguments: str, given: str | bytes = b"") -> Any:
        """Run a command that must succeed, and return its JSON output."""
        ran = self(*arguments, "--json", given=given)
        assert ran.code == 0, ran.err
        return ran.document

    def run_ingest(self) -> None:
        """Ingest every queued record, as the ingest function does, and write the receipts."""
        queue = self.world.ports.queue
        while received := queue.receive():
            deliveries = [Delivery(one.handle, one.body, one.sent_at) for one in received]
            ingested = wire_ingest(self.world.app).ingest(deliveries)
            self.receipts.write(outcome_line(ingested.outcomes))
            for one in received:
                queue.delete(one)

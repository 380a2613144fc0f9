"""Workers: the Lambda functions of the simulated system, which run the real code on fake ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

from faultbridge.model.errors import Misconfigured, Rejected, Transient
from faultbridge.model.settings import Settings
from faultbridge.model.storage.writes import Item
from faultbridge.record.append import Stack
from faultbridge.repair.registry.groups import SyncResult
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.intake import wire_webhooks
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.entrypoints.pager import wire_pages, wire_reminders
from faultbridge.serve.entrypoints.publish import wire_publish
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.gateway.webhooks import WebhookRequest, request_content, sign
from faultbridge.serve.ingest.outcomes import outcome_line
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ingest.send import RawInput, Send
from faultbridge.serve.ops.react import status_causes
from faultbridge.serve.wiring.installation import Installation, Timing
from faultbridge.serve.wiring.services import wire_step_runner
from tests.sim.fakes.messaging import FakeQueue, QueuedMessage
from tests.sim.fault_injection import Crash, FaultInjector
from tests.sim.journal import Journal
from tests.sim.simulated_ports import SECRET, SIGNER, SimulatedPorts
from tests.sim.situations.versions import TableOfVersion, Version

STACK = Stack("simulated-stack", "faultbridge")
SETTINGS = Settings(
    {
        "FAULTBRIDGE_STACK_ID": STACK.id,
        "FAULTBRIDGE_SENDER_PROOF": "off",
        "FAULTBRIDGE_REMINDER_HOURS": str(90 * 24),
    }
)
"""Settings with every sender accepted. A reminder of a page is sent only after 90 days, as no invariant covers it."""
OWN_ROLE, NODE_ROLE, COLLECTOR_ROLE = "AROAFUNCTION", "AROANODE", "AROACOLLECTOR"
OWN, COLLECTOR = f"{OWN_ROLE}:intake", f"{COLLECTOR_ROLE}:metrics"
"""Senders: a function of the installation, and a listed collector."""

PROVING = Settings(
    {
        "FAULTBRIDGE_STACK_ID": STACK.id,
        "FAULTBRIDGE_OWN_SENDERS": OWN_ROLE,
        "FAULTBRIDGE_REMINDER_HOURS": str(90 * 24),
    }
)
"""Settings with which each sender must prove to be the node, or is only believed after a verification."""
EXPECTED_ERRORS = ("Transient", "Conflict")
"""The errors with which a part of `sweep` or `react` may fail, because injected faults cause them."""


class Workers:
    """Runs the Lambda functions with their events, and handles the results as AWS does.

    `leaked_slots` counts the repair slots that the sweep had to release. `swept_at` is the time of the last sweep that
    did all its work, or None. `clock_errors` has the error of the clock of each process, in seconds (`clocks_differed`:
    one ever had an error, so that times of entries may not show their order), and
    `versions` the version of each process that runs another one. `misconfigured` is True once the
    current policy was not stored, so that functions may fail because of it.
    """

    def __init__(self, ports: SimulatedPorts, injector: FaultInjector, journal: Journal, random: Random) -> None:
        self._ports = ports
        self._injector = injector
        self._journal = journal
        self._random = random
        self._records = 0
        self._batches = 0
        self.leaked_slots = 0
        self.swept_at: datetime | None = None
        self.settings = SETTINGS
        self.clock_errors: dict[str, float] = {}
        self.clocks_differed = False
        self.versions: dict[str, Version] = {}
        self.misconfigured = self.own_ports = False
        ports.queue.sender = OWN
        self._applications: dict[str, Installation] = {}

    def application(self, name: str = "operator") -> Installation:
        """Return the services of the process with this name; the process starts if it does not run.

        A crash ends a process. The next call with this name therefore starts a new process, without cached state.
        """
        if name not in self._applications:
            timing = Timing(self._injector.schedule.run_others, self._random)
            ports: Any = _PortsOfProcess(self._ports, self, name) if self.own_ports else self._ports
            self._applications[name] = Installation(ports, self.settings, timing)
        return self._applications[name]

    def ingest(self, batch: Sequence[QueuedMessage]) -> set[str]:
        """Ingest a batch of the raw queue; returns the ids of the messages that must be delivered again.

        Two processes alternate, so that their caches differ.
        """
        self._batches += 1
        with self._process(f"ingest-{self._batches % 2}") as application:
            found = wire_ingest(application).ingest([self._delivery(message) for message in batch])
            self._ports.receipts.write(outcome_line(found.outcomes))
            return set(found.failed)

    def publish(self, entries: Sequence[Item]) -> None:
        """Run the publish function with new entries from the table stream."""
        with self._process("publish") as application:
            wire_publish(application).publish(entries)

    def react(self, entries: Sequence[Item]) -> None:
        """Run the react function for the nodes and clusters that have new entries."""
        with self._process("react") as application:
            changed = [(str(one["cluster"]), None if one["node"] is None else str(one["node"])) for one in entries]
            try:
                wire_react(application).run(set(changed), status_causes(entries))
            except Transient as error:
                if not self.misconfigured:  # the text of such a failure cannot be divided
                    self._check_failures("react", str(error).split("; "))
                raise

    def page(self, detail: dict[str, Any]) -> None:
        """Run the pager function with `detail`, the detail of one event."""
        with self._process("pager") as application:
            wire_pages(application).deliver(detail)

    def step(self, payload: dict[str, Any]) -> Mapping[str, Any]:
        """Run one step of a repair attempt, and return its result; a crash is raised as `RuntimeError`."""
        try:
            with self._process("step") as application:
                return wire_step_runner(application).run_step(payload, payload.get("token"))
        except Crash as crash:
            raise RuntimeError(f"the function ended: {crash}") from None

    def sweep(self) -> None:
        """Run the sweep function once, and record unexpected failures as violations."""
        with self._process("sweep") as application:
            swept = wire_sweep(application).run()
            self.leaked_slots += swept.released_slots
            self._check_failures("sweep", swept.failures)
            whole = not (swept.failures or swept.unfinished)
            self.swept_at = self._ports.clock.now() if whole else self.swept_at

    def sync_inventory(self) -> tuple[SyncResult, ...]:
        """Run the inventory function, which compares the providers' instances with the registered nodes."""
        with self._process("inventory") as application:
            return wire_inventory(application).sync_all()

    def remind(self) -> None:
        """Send the summaries and the reminders of pages that are due.

        The first reminder of a page is due after 90 days, so that reminders do not keep a run from becoming idle.
        """
        with self._process("pager") as application:
            wire_reminders(application).remind()

    def send(self, raw_input: RawInput, skew: float = 0.0, sender: str = OWN) -> tuple[str, ...]:
        """Send a raw record as an agent; returns the ids of the accepted records.

        `skew` is the error of the agent's clock, in seconds. `sender` is the sender that the queue stores.
        """
        clock = _SkewedClock(self._ports, skew)
        queue: Any = _SenderQueue(self._ports.queue, sender)
        with self._process("source"):
            send = Send(queue, self._ports.objects, self._ports.receipts, clock, self._new_id, "agent")
            return send([raw_input]).accepted

    def post(self, sender: str, source: str, body: bytes, at: datetime) -> bool:
        """Post a body to the webhook, signed at a time or with a token; returns whether it need not be sent again."""
        stamp = str(int(at.timestamp())) if sender == SIGNER else ""
        content = request_content(stamp, "POST", f"/intake/{sender}/{source}", body)
        signature = sign(content, SECRET.encode()) if stamp else ""
        authorization = "" if stamp else f"Bearer {SECRET}"
        with self._process("intake") as application:
            post = WebhookRequest("POST", sender, source, body, stamp, signature, authorization)
            try:
                wire_webhooks(application).accept(post)
            except Rejected as refused:
                return refused.reason == "replayed"
            return True

    def deploy(self, versions: Mapping[str, Version]) -> None:
        """Let processes run other versions. Those whose version changes start again; all others keep their caches."""
        for name in {*versions, *self.versions}:
            if versions.get(name) is not self.versions.get(name):
                self._applications.pop(name, None)
        self.versions = dict(versions)

    def stop(self) -> None:
        """End all processes, so that the next call of each starts a new one without cached state."""
        self._applications.clear()

    def operate(self, command: Callable[[Installation], object]) -> None:
        """Run a command of an operator; the caller must repeat it after a failure."""
        with self._process("operator") as application:
            command(application)

    def _delivery(self, message: QueuedMessage) -> Delivery:
        """Return a message as Lambda receives it; its sender counts only if senders must prove to be the node."""
        sender = message.sender if self.settings is PROVING else None
        return Delivery(
            str(message.number), message.body, message.sent_at, sender=sender, receives=message.receive_count
        )

    def _new_id(self) -> str:
        self._records += 1
        return f"record-{self._records}"

    @contextmanager
    def _process(self, name: str) -> Iterator[Installation]:
        """Run the body of a `with` block as a process with this name.

        A crash ends the process. An error that no injected fault can cause is recorded as a violation, and raised.
        """
        with self._injector.worker(name):
            try:
                yield self.application(name)
            except Crash:
                self._applications.pop(name, None)
                raise
            except Transient:
                raise
            except Exception as error:
                if self.misconfigured and isinstance(error, Misconfigured):
                    raise
                self._add_violation(name, f"{type(error).__name__}: {error}")
                raise

    def _check_failures(self, name: str, failures: Sequence[str]) -> None:
        for failure in failures:
            expected = (*EXPECTED_ERRORS, *([Misconfigured.__name__] if self.misconfigured else []))
            if not any(f": {kind}: " in failure for kind in expected):
                self._add_violation(name, failure)

    def _add_violation(self, name: str, text: str) -> None:
        self._journal.add_violation("a function fails only because of an injected fault", f"{name}: {text[:300]}")


class _SenderQueue:
    """The queue as one sender uses it."""

    def __init__(self, queue: FakeQueue, sender: str) -> None:
        self._queue = queue
        self._sender = sender

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send messages; the queue stores the sender."""
        before, self._queue.sender = self._queue.sender, self._sender
        try:
            return self._queue.send(messages)
        finally:
            self._queue.sender = before


class _PortsOfProcess:
    """The ports as one process uses them: with a clock and a version of the code of its own."""

    def __init__(self, ports: SimulatedPorts, workers: Workers, name: str) -> None:
        self._ports = ports
        self.clock = _ClockOfProcess(ports, workers, name)
        self.table = TableOfVersion(ports.table, lambda: workers.versions.get(name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ports, name)


class _ClockOfProcess:
    def __init__(self, ports: SimulatedPorts, workers: Workers, name: str) -> None:
        self._ports, self._workers, self._name = ports, workers, name

    def now(self) -> datetime:
        return self._ports.clock.now() + timedelta(seconds=self._workers.clock_errors.get(self._name, 0.0))


class _SkewedClock:
    def __init__(self, ports: SimulatedPorts, skew: float) -> None:
        self._ports = ports
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        return self._ports.clock.now() + self._skew

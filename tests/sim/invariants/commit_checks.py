"""Commit checks: invariants that are checked at each table change and before each call to a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cases import Intent
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.cluster.vacancies import vacant_since
from faultbridge.model.enums import NodeStatus, RepairAction
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.storage import keys
from faultbridge.model.storage.items import stored_value
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.record.ports.compute import LaunchRequest
from faultbridge.repair.attempt.step_context import StepOutcome
from faultbridge.repair.spares.pool import SparePool
from tests.sim.fakes.item_size import item_bytes, max_bytes
from tests.sim.fakes.seam import Call
from tests.sim.fakes.stored_values import body_of
from tests.sim.fakes.table import StreamRecord
from tests.sim.invariants.domain_faults import DomainFaultChecks
from tests.sim.invariants.incidents import IncidentChecks
from tests.sim.journal import Journal, Kind
from tests.sim.simulated_ports import SimulatedPorts

HOUR = timedelta(hours=1)
MAX_WRITES, MAX_STATE_BYTES = 90, 200_000
FOLLOWED_ONLY = "no action is taken on an instance that its provider repairs"


READ_BEFORE = 60
"""How many records another process may write between the reads and the write of a dispatcher, within seconds."""


def _is_node(record: StreamRecord) -> bool:
    return record.key.sk == "STATE" and record.key.pk.startswith("NODE#")


def _waiting(items: Iterable[Item]) -> set[str]:
    states = (stored_value(NodeState, item, "state") for item in items)
    waiting = (state for state in states if vacant_since(state) and state.status is not NodeStatus.REPLACING)
    return {state.case.id for state in waiting if state.case}


class CommitChecks:
    """Checks changes of the table and calls to ports, and records violations in the journal.

    - `has_scheduler`: the cluster has an orchestrator. `dead_instances`: EC2 reports these instances as impaired.
    - `followed`: the names of the nodes that the provider repairs, and of their group.
    - `limits`: the limits of the default policy, and all limits that operators set in the run, in order.
    - `released`: the instances in all calls of `provider.replace`.
    - `incidents` and `domain_faults`: further checks, of incidents and of faults of failure domains such as racks.
    - `activity`: the number of changes of table items. Changes of most cluster items do not count, because they also
      occur in an idle system.
    """

    def __init__(self, ports: SimulatedPorts, journal: Journal) -> None:
        self._ports = ports
        self._journal = journal
        self.incidents = IncidentChecks(journal, ports.bus)
        self.domain_faults = DomainFaultChecks(journal)
        self.limits: list[Limits] = [default_policy().limits]
        self.released: list[str] = []
        self.activity = 0
        self.has_scheduler = False
        self.dead_instances: set[str] = set()
        self.followed: frozenset[str] = frozenset()

    def item_changed(self, record: StreamRecord) -> None:
        """Check that a change of an item is allowed, and record violations in the journal."""
        sk = record.key.sk
        self.activity += not record.key.pk.startswith("CLUSTER#") or sk == "CONTROL" or sk.startswith(keys.SPARE)
        if sk.startswith(keys.ENTRY):
            self._check_entry(record)
        elif sk == "STATE":
            self._check_version(record)
        elif sk == "CONTROL":
            self._check_slots(record)

    def before_call(self, call: Call) -> None:
        """Check a call to a port before its effect; record instance changes and pages in the journal."""
        if call.port == "table":
            if call.operation == "transact":
                self._check_writes(len(call.argument))
        elif call.name == "provider.replace":
            instance, token = call.argument
            self._journal.add(Kind.CALL, f"replace {instance} ({token[-8:]})")
            self._check_release(instance, token)
        elif call.name == "verifier.start":
            self._check_verification(call.argument[0])
        elif call.name == "launcher.launch":
            self._journal.add(Kind.CALL, f"launch ({call.argument.token[-10:]})")
            self._check_launch(call.argument)
        elif call.name == "launcher.terminate":
            self._journal.add(Kind.CALL, f"end {call.argument}")
            self._check_termination(call.argument)
        elif call.name == "restarter.restart":
            repair_action, instance, token = call.argument
            self._journal.add(Kind.CALL, f"{repair_action.value} {instance} ({token[-8:]})")
            self._check_restart(repair_action, instance, token)
        elif call.port == "orchestrator" and call.argument in self.followed:
            self._journal.add_violation(FOLLOWED_ONLY, f"{call.name} {call.argument}")
        elif call.name == "pager.send":
            self._journal.add(Kind.CALL, f"page {call.argument.key} {call.argument.attributes['state']}")

    def _check_entry(self, record: StreamRecord) -> None:
        if record.event == "INSERT" and record.new is not None:
            self._journal.add(Kind.ENTRY, entry_text(record.new))
            self.incidents.entry_added(record.new)
            self.domain_faults.entry_added(record.new)
        elif record.new is None or record.old is None or _immutable_part(record.new) != _immutable_part(record.old):
            self._journal.add_violation("an entry never changes", f"{record.key.pk} {record.key.sk}")

    def _check_writes(self, number: int) -> None:
        if number > MAX_WRITES:
            self._journal.add_violation("a commit has at most 90 writes", f"{number}")

    def _check_version(self, record: StreamRecord) -> None:
        if record.new is None:
            self._journal.add_violation("a state is never deleted", record.key.pk)
        elif max_bytes(record.new) > MAX_STATE_BYTES and item_bytes(record.new) > MAX_STATE_BYTES:
            self._journal.add_violation("a state has at most 200 KB", f"{record.key.pk}: {item_bytes(record.new)}")
        elif record.old is not None and _version(record.new) != _version(record.old) + 1:
            versions = f"{record.key.pk}: {_version(record.old)} -> {_version(record.new)}"
            self._journal.add_violation("each commit of a state increases its version by one", versions)

    def _check_slots(self, record: StreamRecord) -> None:
        """Check that the repairs of a cluster do not exceed the highest limits of the last three policies.

        A repair that waits for a successor when another one starts does not count: it gives its slot to repairs that
        release no instance. Its successor may be attached while these still run.
        """
        new, old = record.new or {}, record.old or {}
        holders, before = _holders(new), _holders(old)
        if _version(new) <= _version(old) and old:
            self._journal.add_violation("each commit of the repair slots increases their version", f"{old} -> {new}")
        # A dispatcher may still use a policy that was replaced just now.
        limit = max(limits.concurrent for limits in self.limits[-3:])
        running = holders if len(holders) > len(before) else set()
        if len(running) > limit and len(running - self._waiting_cases(record) - self._waited_lately(record)) > limit:
            self._journal.add_violation("concurrent repairs never exceed the policy limit", f"{sorted(holders)}")
        starts = _starts(new)
        recent = [start for start in starts if starts and start > max(starts) - HOUR]
        if starts != _starts(old) and len(recent) > max(limits.per_hour for limits in self.limits[-3:]):
            self._journal.add_violation("repairs an hour never exceed the policy limit", f"{len(recent)}")

    def _check_release(self, instance: str, token: str) -> None:
        self.released.append(instance)
        self._check_not_followed(instance)
        cordoned = not self.has_scheduler or instance in self._ports.orchestrator.cordoned_instances
        alive = self._ports.fleet.is_alive(instance)
        if not cordoned and instance not in self.dead_instances and alive:
            self._journal.add_violation("an instance is released only if it is cordoned or dead", instance)
        for state, intent in self._intents():
            if (intent.instance_id, intent.token) != (instance, token):
                continue
            current = state.incarnation.instance_id if state.incarnation else None
            if current != instance and alive:
                details = f"{instance}, but {current} backs the node"
                self._journal.add_violation("only the instance that backs the node is released", details)
            return
        if alive:
            self._journal.add_violation("an instance is released only after its intent is recorded", instance)

    def _check_verification(self, instance: str) -> None:
        """Check that a successor is cordoned while it is verified, so that no job runs on it."""
        if not self.has_scheduler or instance in self._ports.orchestrator.cordoned_instances:
            return
        for state in self._states():
            attempt = state.live_case.attempt if state.live_case else None
            if attempt is not None and attempt.successor == instance:
                self._journal.add_violation("a successor is verified only while it is cordoned", instance)

    def _check_launch(self, launch_request: LaunchRequest) -> None:
        """Check that a launch follows an intent, replaces a lost instance, fills the pool, or is repeated."""
        for state in self._states():
            case = state.live_case
            attempt = case.attempt if case and case.id == launch_request.case else None
            if attempt is not None and (attempt.intent is not None or StepOutcome.GONE in attempt.steps.values()):
                return
        if not self._is_for_pool(launch_request) and not self._is_repeated(launch_request):
            self._journal.add_violation(
                "an instance is launched only for a node without instance or for the spare pool", launch_request.token
            )

    def _check_termination(self, instance: str) -> None:
        if self._ports.table.get(keys.claim(instance)) is not None and self._ports.fleet.is_alive(instance):
            self._journal.add_violation("a spare is terminated only if it never backed a node", instance)

    def _is_for_pool(self, launch_request: LaunchRequest) -> bool:
        spares = SparePool(self._ports.table, self._ports.clock).spares(launch_request.cluster.cluster)
        return any(one.owner == launch_request.case and one.status is SpareStatus.LAUNCHING for one in spares)

    def _is_repeated(self, launch_request: LaunchRequest) -> bool:
        """Return whether an earlier launch call used the token of this launch; each token launches once."""
        return any(token == launch_request.token for _, token in self._ports.launcher.launch_calls)

    def _check_not_followed(self, instance: str) -> None:
        if self._ports.fleet.instances[instance].group in self.followed:
            self._journal.add_violation(FOLLOWED_ONLY, instance)

    def _check_restart(self, repair_action: RepairAction, instance: str, token: str) -> None:
        self._check_not_followed(instance)
        intended = ((one.repair_action, one.instance_id, one.token) for _, one in self._intents())
        if (repair_action, instance, token) not in intended:
            self._journal.add_violation("an instance is restarted only after its intent is recorded", instance)

    def _intents(self) -> Iterator[tuple[NodeState, Intent]]:
        for state in self._states():
            attempt = state.live_case.attempt if state.live_case else None
            if attempt is not None and attempt.intent is not None:
                yield state, attempt.intent

    def _waiting_cases(self, record: StreamRecord) -> set[str]:
        """Return the cases that waited for a successor at a record; the table may contain later changes."""
        later: dict[str, Item | None] = {}
        for one in reversed(self._ports.table.stream):
            if one is record:
                break
            if one.key.sk == "STATE":
                later[one.key.pk] = one.old
        items = (later.get(str(item["pk"]), item) for item in self._ports.table.items_at("NODE#", "STATE"))
        return _waiting(item for item in items if item is not None)

    def _waited_lately(self, record: StreamRecord) -> set[str]:
        """Return the cases that waited for a successor right before a record, when its writer read the nodes."""
        stream = self._ports.table.stream
        place = next(number for number, one in enumerate(stream) if one is record)
        states = (one for one in stream[max(0, place - READ_BEFORE) : place] if _is_node(one))
        return _waiting(one.new for one in states if one.new is not None)

    def _states(self) -> Iterator[NodeState]:
        for item in self._ports.table.items_at("NODE#", "STATE"):
            yield stored_value(NodeState, item, "state")


def entry_text(item: Item) -> str:
    """Return a summary of an entry for the journal as one line: stream, sequence, type and some fields."""
    body = body_of(item)
    data = body["data"]
    move = f"{data.get('from')} -> {data.get('to')}" if "to" in data else ""
    step = f"{data['step']} {data['outcome']}" if "step" in data else ""
    subject = data.get("code") or data.get("kind") or ""
    reason = data.get("reason") or data.get("text") or ""
    stream = f"{item['cluster']}/{item['node']}" if item["node"] else str(item["cluster"])
    parts = (
        stream,
        f"{item['sequence']}",
        str(item["type"]),
        subject,
        move,
        step,
        reason,
        f"({body['metadata']['recorded_by']})",
    )
    return " ".join(part for part in parts if part)


def _immutable_part(item: Item) -> tuple[object, ...]:
    return item["body"], item["hash"], item["event_id"]


def _version(item: Item) -> int:
    return int(str(item.get("version", 0)))


def _holders(item: Item) -> set[str]:
    """Return the ids of the cases that occupy a repair slot, from the control item of a cluster."""
    holders = item.get("holders") or {}
    return set(holders) if isinstance(holders, dict) else set()


def _starts(item: Item) -> list[datetime]:
    """Return the start times of recent repairs, from the control item of a cluster."""
    starts = item.get("starts") or []
    return [from_text(str(start)) for start in starts] if isinstance(starts, list) else []

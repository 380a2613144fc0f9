"""Watch: what must hold at every commit and at every call that destroys, not only when all is quiet."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from faultbridge.data.policies import default_policy
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.domain.spares import SpareStatus
from faultbridge.domain.times import from_text
from faultbridge.ports import LaunchRequest
from faultbridge.repair.attempt.contract import Outcome
from faultbridge.repair.spares.pool import Pool
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.fakes.table import StreamRecord
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.ports import SimulatedPorts
from faultbridge.storage import keys
from faultbridge.storage.codec import load
from faultbridge.storage.writes import Item

HOUR = timedelta(hours=1)


FOLLOWED_ONLY = "nothing is done to a machine that its provider repairs"


class Watch:
    """Hears every change of the table and every call to the world.

    `scheduled` says that a scheduler brings work to the nodes, `dead` holds the machines that the cloud calls dead,
    `followed` the groups and nodes that are left to their provider.
    """

    def __init__(self, ports: SimulatedPorts, journal: Journal) -> None:
        self._ports = ports
        self._journal = journal
        self.limits: list[Limits] = [default_policy().limits]
        self.bodies: dict[str, str] = {}
        self.released: list[str] = []
        self.activity = 0
        self.scheduled = False
        self.dead: set[str] = set()
        self.followed: frozenset[str] = frozenset()

    def changed(self, record: StreamRecord) -> None:
        """Judge one change of one item."""
        sk = record.key.sk
        self.activity += not record.key.pk.startswith("CLUSTER#") or sk == "CONTROL" or sk.startswith(keys.SPARE)
        if sk.startswith(keys.ENTRY):
            self._entry(record)
        elif sk == "STATE":
            self._version(record)
        elif sk == "CONTROL":
            self._slots(record)

    def before(self, call: Call) -> None:
        """Judge one call before it has its effect."""
        if call.name == "provider.replace":
            instance, token = call.argument
            self._journal.note(Kind.CALL, f"replace {instance} ({token[-8:]})")
            self._give_up(instance, token)
        elif call.name == "launcher.launch":
            self._journal.note(Kind.CALL, f"launch ({call.argument.token[-10:]})")
            self._launch(call.argument)
        elif call.name == "launcher.terminate":
            self._journal.note(Kind.CALL, f"end {call.argument}")
            self._end(call.argument)
        elif call.name == "restarter.restart":
            repair_action, instance, token = call.argument
            self._journal.note(Kind.CALL, f"{repair_action.value} {instance} ({token[-8:]})")
            self._restart(repair_action, instance, token)
        elif call.port == "orchestrator" and call.argument in self.followed:
            self._journal.problem(FOLLOWED_ONLY, f"{call.name} {call.argument}")
        elif call.name == "pager.send":
            self._journal.note(Kind.CALL, f"page {call.argument.key} {call.argument.attributes['state']}")

    def _entry(self, record: StreamRecord) -> None:
        if record.event == "INSERT" and record.new is not None:
            self.bodies[str(record.new["event_id"])] = str(record.new["body"])
            self._journal.note(Kind.ENTRY, told(record.new))
        elif record.new is None or record.old is None or _kept(record.new) != _kept(record.old):
            self._journal.problem("an entry never changes", f"{record.key.pk} {record.key.sk}")

    def _version(self, record: StreamRecord) -> None:
        if record.new is None:
            self._journal.problem("a state is never deleted", record.key.pk)
        elif record.old is not None and _number(record.new) != _number(record.old) + 1:
            told_ = f"{record.key.pk}: {_number(record.old)} -> {_number(record.new)}"
            self._journal.problem("each commit of a state raises its version by one", told_)

    def _slots(self, record: StreamRecord) -> None:
        new, old = record.new or {}, record.old or {}
        held, before = _holders(new), _holders(old)
        if _number(new) <= _number(old) and old:
            self._journal.problem("each commit of the slots raises their version", f"{old} -> {new}")
        # A policy put in this moment may not be read yet by who admits.
        most = max(limits.concurrent for limits in self.limits[-3:])
        if len(held) > len(before) and len(held) > most:
            self._journal.problem("no more repairs at a time than the policy allows", f"{sorted(held)}")
        starts = _starts(new)
        begun = [start for start in starts if starts and start > max(starts) - HOUR]
        if starts != _starts(old) and len(begun) > max(limits.per_hour for limits in self.limits[-3:]):
            self._journal.problem("no more repairs an hour than the policy allows", f"{len(begun)}")

    def _give_up(self, instance: str, token: str) -> None:
        self.released.append(instance)
        self._leave_alone(instance)
        reachable = self.scheduled and instance not in self._ports.orchestrator.kept_off
        if reachable and instance not in self.dead and self._ports.fleet.instances[instance].alive:
            self._journal.problem("no machine is given up to which work may still come, unless it is dead", instance)
        for item in self._states():
            state = load(NodeState, item["state"])  # type: ignore[arg-type]  # a state is a mapping
            attempt = state.live_case.attempt if state.live_case else None
            intent = attempt.intent if attempt else None
            if intent is None or (intent.instance_id, intent.token) != (instance, token):
                continue
            seated = state.incarnation.instance_id if state.incarnation else None
            alive = self._ports.fleet.instances[instance].alive
            if seated != instance and alive:
                self._journal.problem("only the instance in the node is given up", f"{instance}, seated is {seated}")
            return
        if self._ports.fleet.instances[instance].alive:
            self._journal.problem("an instance is given up only after its intent is on the record", instance)

    def _launch(self, launch_request: LaunchRequest) -> None:
        for item in self._states():
            case = load(NodeState, item["state"]).live_case  # type: ignore[arg-type]  # a state is a mapping
            attempt = case.attempt if case and case.id == launch_request.case else None
            if attempt is not None and (attempt.intent is not None or Outcome.GONE in attempt.steps.values()):
                return
        if not self._place(launch_request) and not self._launched_before(launch_request):
            self._journal.problem(
                "a machine is launched only for a node that is given up, or empty", launch_request.token
            )

    def _end(self, instance: str) -> None:
        if self._ports.table.get(keys.claim(instance)) is not None and self._ports.fleet.is_alive(instance):
            self._journal.problem("a spare is ended only if it never had a node", instance)

    def _place(self, launch_request: LaunchRequest) -> bool:
        """Tell whether a place of the pool waits for the machine."""
        places = Pool(self._ports.table, self._ports.clock).places(launch_request.cluster.cluster)
        return any(one.owner == launch_request.case and one.status is SpareStatus.LAUNCHING for one in places)

    def _launched_before(self, launch_request: LaunchRequest) -> bool:
        """Tell whether a late call has no effect any more."""
        return any(token == launch_request.token for _, token in self._ports.launcher.asked)

    def _leave_alone(self, instance: str) -> None:
        if self._ports.fleet.instances[instance].group in self.followed:
            self._journal.problem(FOLLOWED_ONLY, instance)

    def _restart(self, repair_action: RepairAction, instance: str, token: str) -> None:
        self._leave_alone(instance)
        wanted = (repair_action, instance, token)
        for item in self._states():
            state = load(NodeState, item["state"])  # type: ignore[arg-type]  # a state is a mapping
            attempt = state.live_case.attempt if state.live_case else None
            meant = attempt.intent if attempt else None
            if meant is not None and (meant.repair_action, meant.instance_id, meant.token) == wanted:
                return
        self._journal.problem("an instance is restarted only after its intent is on the record", instance)

    def _states(self) -> list[Item]:
        return [item for item in self._ports.table.items() if item["sk"] == "STATE" and "NODE#" in str(item["pk"])]


def told(item: Item) -> str:
    """Tell an entry in a few words."""
    body = json.loads(str(item["body"]))
    data = body["data"]
    moved = f"{data.get('from')} -> {data.get('to')}" if "to" in data else ""
    step = f"{data['step']} {data['outcome']}" if "step" in data else ""
    which = data.get("code") or data.get("kind") or ""
    why = data.get("reason") or data.get("text") or ""
    stream = f"{item['cluster']}/{item['node']}" if item["node"] else str(item["cluster"])
    words = (
        stream,
        f"{item['sequence']}",
        str(item["type"]),
        which,
        moved,
        step,
        why,
        f"({body['metadata']['recorded_by']})",
    )
    return " ".join(word for word in words if word)


def _kept(item: Item) -> tuple[object, ...]:
    return item["body"], item["hash"], item["event_id"]


def _number(item: Item) -> int:
    return int(str(item.get("version", 0)))


def _holders(item: Item) -> set[str]:
    holders = item.get("holders") or {}
    return set(holders) if isinstance(holders, dict) else set()


def _starts(item: Item) -> list[datetime]:
    starts = item.get("starts") or []
    return [from_text(str(start)) for start in starts] if isinstance(starts, list) else []

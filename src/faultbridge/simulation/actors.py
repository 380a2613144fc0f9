"""Who acts in a history: agents on instances, operators, and the cloud with its failures; one method a kind of act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from faultbridge.composition.installation import Installation
from faultbridge.errors import Rejected
from faultbridge.ingest.send import Parcel
from faultbridge.registry.registration import NewNode
from faultbridge.rules.policies import Policies
from faultbridge.simulation.acts import Act
from faultbridge.simulation.chaos import Crash
from faultbridge.simulation.cloud import Cloud, pick
from faultbridge.simulation.fakes.fleet import Instance
from faultbridge.simulation.samples import HARD, SAMPLES, host_impaired
from faultbridge.simulation.scene import ACTING, FOLLOWED, GROUPS, WATCHED, Scene
from faultbridge.storage import keys
from faultbridge.storage.codec import dump
from faultbridge.storage.wire.message import decode_message, encode_message
from faultbridge.storage.writes import Update

HOUR = 3600.0
TICK = timedelta(milliseconds=1)
TRUE_ALARMS = 0.8
"""The share of hard faults behind which the machine is broken; the rest are false alarms."""

_SKEWS = (0.0, 0.0, 0.0, 0.0, 30.0, -90.0, 1800.0, -7200.0)


class Actors(Cloud):
    """Makes acts come true in a scene."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.sent: list[tuple[str, str, datetime]] = []

    def play(self, act: Act) -> None:
        """Let one act happen, now."""
        getattr(self, f"_{act.kind}")(act)

    # ------------------------------------------------------------------ agents

    def _report(self, act: Act) -> None:
        sits = [*self.scene.fleet.running(GROUPS[ACTING])]
        watched = [*self.scene.fleet.running(GROUPS[WATCHED])]
        followed = [*self.scene.fleet.running(GROUPS[FOLLOWED])]
        instance = pick([*sits, *sits, *watched, *followed], act.which)
        if act.what in HARD and act.amount < TRUE_ALARMS:
            self._break(instance)
            if self.scene.own_repair is not None and instance in followed:
                self.scene.own_repair.notices(instance.instance_id, act.amount / TRUE_ALARMS)
        self._send(instance, act)

    def _break(self, instance: Instance) -> None:
        self.scene.lemons.add(instance.instance_id)
        self.scene.grade(instance.instance_id)

    def _orchestrator(self, act: Act) -> None:
        super()._orchestrator(act)
        if act.amount > 0.6:  # noqa: PLR2004 - two times in five
            minutes = 5 + 150 * (act.amount - 0.6)
            self._tell(f"the scheduler answers nobody for {minutes:.0f} minutes")
            self.scene.ports.orchestrator.silent_until = self.scene.clock.now() + timedelta(minutes=minutes)
            if sits := [*self.scene.fleet.running(GROUPS[ACTING])]:
                self._die(pick(sits, act.which))

    def _die(self, instance: Instance) -> None:
        """Let a host fail under its instance: EC2 says so, the instance says nothing more."""
        self._break(instance)
        self.scene.dead.add(instance.instance_id)
        name = self._name(instance)
        self._tell(f"EC2 finds the host of {instance.instance_id} ({name}) impaired")
        body = host_impaired(instance.instance_id)
        self._until_sent(Parcel("ec2-status", ACTING, body, node=name, instance_id=instance.instance_id), 0.0, 3)

    def _name(self, instance: Instance) -> str:
        return self.scene.hosts.get(instance.instance_id, f"{instance.instance_id}.internal")

    def _repeat(self, act: Act) -> None:
        for _ in range(2 + act.which % 4):
            self._report(replace(act, amount=1.0))

    def _tail(self, act: Act) -> None:
        gone = [one for one in self.scene.fleet.instances.values() if not one.alive]
        if gone:
            self._send(pick(gone, act.which), act)

    def _send(self, instance: Instance, act: Act) -> None:
        cluster = next(cluster for cluster, group in GROUPS.items() if group == instance.group)
        if cluster == WATCHED:
            # There records are compared in the order of their instants: no two of one burst have the same.
            self.scene.pass_time(TICK)
        name = self._name(instance)
        known = instance.instance_id if act.which % 3 else None
        now = self.scene.clock.now()
        source, make = SAMPLES[act.what]
        body = make(act.which // 7, now - timedelta(seconds=act.which % 5) if act.which % 2 else None)
        self._tell(f"{instance.instance_id} ({name}) says: {act.what}")
        parcel = Parcel(source, cluster, body, node=name, instance_id=known)
        self._until_sent(parcel, _SKEWS[act.which % len(_SKEWS)], 3)

    def _until_sent(self, parcel: Parcel, skew: float, tries: int) -> None:
        before = len(self.scene.ports.queue.messages)
        try:
            accepted = bool(self.scene.workers.send(parcel, skew))
        except (Crash, Exception):  # noqa: BLE001 - an agent that got no answer sends again
            accepted = False
        messages = self.scene.ports.queue.messages
        self.sent += [(message.group, message.body, message.sent_at) for message in messages[before:]]
        self.scene.queue.wake()
        if not accepted and tries:
            self.scene.schedule.after(20, "agent", lambda: self._until_sent(parcel, skew, tries - 1))

    def _unknown(self, act: Act) -> None:
        self._tell(f"new-{act.which % 3}, which nobody registered, says: {act.what}")
        source, make = SAMPLES[act.what]
        self._until_sent(Parcel(source, ACTING, make(0, None), node=f"new-{act.which % 3}"), 0.0, 2)

    def _noise(self, act: Act) -> None:
        text = ('{"v": 1', '{"v": 9}', "", '{"v": 1, "record_id": "x", "source": "kernel-log", "body": 3}')[
            act.which % 4
        ]
        self._tell(f"a message that is none arrives: {text!r}")
        self._put_raw("train/noise", text)

    def _redrive(self, act: Act) -> None:
        if self.sent:
            self._tell("an old record is redriven")
            group, text, at = self.sent[act.which % len(self.sent)]
            try:
                message = decode_message(text)
            except Rejected:
                return
            # As the product redrives: the first time of receipt travels along, or a fast clock would make it newer.
            self._put_raw(group, encode_message(replace(message, received_at=message.received_at or at)))

    def _put_raw(self, group: str, text: str) -> None:
        self.scene.ports.queue.send([(group, text)])
        self.scene.queue.wake()

    # ------------------------------------------------------------------ operators

    def _register(self, act: Act) -> None:
        name = f"new-{act.which % 3}"
        self._tell(f"an operator registers {name}")
        instance = self.scene.fleet.launch(GROUPS[ACTING])
        self.scene.hosts[instance] = name
        self._order(lambda app: _registered(app, NewNode(name, instance, GROUPS[ACTING])))

    def _pause(self, _act: Act) -> None:
        self._set_paused(paused=True)

    def _resume(self, _act: Act) -> None:
        self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> None:
        self._tell("repairs are paused" if paused else "repairs go on")
        place = keys.cluster_control(ACTING)
        self._order(lambda app: app.ports.table.write(Update(place, set={("paused",): paused}, add={"version": 1})))

    def _policy(self, act: Act) -> None:
        limits = replace(
            self.scene.policy.limits,
            concurrent=1 + act.which % 3,
            per_hour=1 + act.which % 7,
            attempts=1 + act.which % 4,
        )
        version = f"policy-{act.which % 84}"
        self._tell(f"{version}: {limits.concurrent} at a time, {limits.per_hour} an hour, {limits.attempts} attempts")
        document: Any = dump(replace(self.scene.policy, version=version, limits=limits))
        self.scene.watch.limits.append(limits)
        self._order(lambda app: Policies(app.ports.table, app.ports.clock).put(document))

    def _retry(self, _act: Act) -> None:
        self._tell("an operator retries the rejects")
        self._order(_retried)
        self.scene.queue.wake()

    def _order(self, do: Callable[[Installation], object], tries: int = 20) -> None:
        try:
            self.scene.workers.operate(do)
        except (Crash, Exception):  # noqa: BLE001 - an operator who got no answer orders it again
            if tries:
                self.scene.schedule.after(30, "operator", lambda: self._order(do, tries - 1))


def _registered(app: Installation, node: NewNode) -> None:
    try:
        app.registry.registration.add_node(ACTING, node)
    except Rejected as error:
        if error.reason not in {"node_exists", "alias_taken"}:
            raise


def _retried(app: Installation) -> None:
    for reject in [*app.ingestion.rejects.list(ACTING), *app.ingestion.rejects.list(keys.NO_CLUSTER)]:
        app.ingestion.rejects.retry(reject)

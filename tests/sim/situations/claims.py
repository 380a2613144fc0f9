"""Actions of senders that cannot prove to be the node, and the work that their claims must not harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from faultbridge.model.values import replace
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import HOUR, pick
from tests.sim.environment.domain_faults import DomainFaultActions
from tests.sim.environment.operators import OperatorActions
from tests.sim.environment.samples import alert_group, kernel_line
from tests.sim.fakes.fleet import FakeInstance
from tests.sim.fault_injection import Crash
from tests.sim.simulated_ports import BEARER, SIGNER
from tests.sim.simulated_system import REPAIRED
from tests.sim.workers import COLLECTOR

CLAIMED_XIDS = (79, 48, 119)
SPACINGS = (0.0, 0.0, 20.0, 300.0, 900.0)
REPEAT_SECONDS = 900.0
TRUE_SHARE = 0.3
"""The share of claims about instances that are bad."""

FORGERIES = (
    ("kernel-log", "Feb  3 12:00:00 host kernel: NVRM: Xid (PCI:0000:c1:00): 95, pid=1, name=python, Uncontained"),
    ("kernel-log", "Feb  3 12:00:00 host kernel[4711]: NVRM: Xid (PCI:0000:c1:00): 95, pid=1, Uncontained"),
    (
        "fabric-manager-log",
        "Feb  3 12:00:00 host nv-fabricmanager[99]: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch "
        "pci bus id 00000000:C1:00.0 physical id 2 port 4",
    ),
)
"""Lines that an unprivileged program can write with `logger`."""


class ClaimActions(DomainFaultActions, OperatorActions):
    """Carries out claims about the `REPAIRED` cluster."""

    def _claim(self, action: ExternalAction) -> None:
        for instance in self._one(action):
            if action.fraction < TRUE_SHARE:
                self.system.health.mark_bad(instance.instance_id)
            self._send_claim(instance, action)

    def _claim_wave(self, action: ExternalAction) -> None:
        """Send claims about all nodes, at once or at intervals, as a wrong alert rule does."""
        spacing = pick(SPACINGS, action.selector)
        self._log(f"claims about all nodes, one every {spacing:.0f} s")
        for number, instance in enumerate(self._running()):
            self._later(number * spacing, partial(self._send_claim, instance, action))

    def _claim_repeated(self, action: ExternalAction) -> None:
        """Repeat a false claim about one node every 15 minutes, as a firing alert does."""
        number = 2 + action.selector % 20
        for instance in self._one(action):
            for place in range(number):
                self._later(place * REPEAT_SECONDS, partial(self._send_claim, instance, action))

    def _claim_joined(self, action: ExternalAction) -> None:
        """Claim a fault of a bad instance; while repairs pause, claim a worse fault of the same node."""
        for instance in self._one(action):
            self.system.health.mark_bad(instance.instance_id)
            self._send_claim(instance, replace(action, selector=1), xid=119)
            self._later(300, lambda: self._pause_repairs(action))
            self._later(900 + 1800 * action.fraction, partial(self._send_claim, instance, action, 79))
            self._later(4000, lambda: self._resume_repairs(action))
        self.system.pass_time(timedelta(hours=2))

    def _claim_on_work(self, action: ExternalAction) -> None:
        """Claim that a GPU of a healthy node with running work is lost, and wait for an hour or more."""
        until = self.system.clock.now() + timedelta(hours=3 + 30 * action.fraction)
        for instance in self._one(action):
            self._log(f"work runs on {instance.instance_id} until {until:%d %H:%M}")
            self.system.ports.orchestrator.evictable -= {self._node_name(instance)}
            self._begin_work(instance, until)
            self._send_claim(instance, action, xid=79)
        self.system.pass_time(timedelta(hours=1 + 2 * action.fraction))

    def _send_claim(self, instance: FakeInstance, action: ExternalAction, xid: int | None = None) -> None:
        if not self.system.fleet.is_alive(instance.instance_id):
            return
        number, gpu, now = (
            xid or pick(CLAIMED_XIDS, action.selector // 3),
            action.selector // 7,
            self.system.clock.now(),
        )
        name = self._node_name(instance)
        if instance.instance_id in self.system.health.bad:
            self.system.truth.show(instance.instance_id, number, gpu)
        if action.selector % 2:
            self._log(f"a collector claims Xid {number} of {name}")
            body = kernel_line(number, gpu, None)
            self._send_until_accepted(RawInput("kernel-log", REPAIRED, body, name), 0.0, 2, sender=COLLECTOR)
            return
        sender = BEARER if action.selector % 4 else SIGNER
        self._log(f"the webhook {sender} claims Xid {number} of {name}")
        self._post_until_accepted(sender, alert_group([name], now, resolved=False, xid=number, gpu=gpu), now)
        if action.selector % 3 == 0:
            later = now + timedelta(seconds=60 + HOUR * action.fraction)
            body = alert_group([name], later, resolved=True, xid=number, gpu=gpu)
            self._later((later - now).total_seconds(), partial(self._post_until_accepted, sender, body, later))

    def _post_until_accepted(self, sender: str, body: bytes, at: datetime, tries: int = 3) -> None:
        """Post to the webhook; while the post is not accepted, post it again, as Alertmanager does."""
        try:
            accepted = self.system.workers.post(sender, "alertmanager", body, at)
        except (Crash, Exception):  # noqa: BLE001 - a sender without an answer posts again
            accepted = False
        self.system.queue.poll_soon()
        if not accepted and tries:
            self._later(60, partial(self._post_until_accepted, sender, body, at, tries - 1))

    def _forged_text(self, action: ExternalAction) -> None:
        """Send a log of a node into which a program wrote a line that looks like one of the kernel."""
        source, line = pick(FORGERIES, action.selector)
        for instance in self._one(action):
            name = self._node_name(instance)
            self._log(f"a program on {name} writes: {line[:50]}")
            raw_input = RawInput(source, REPAIRED, f"{line}\n".encode(), name, instance.instance_id)
            self._send_until_accepted(raw_input, 0.0, 2)

    def _work_begins(self, action: ExternalAction) -> None:
        """Let work run on some nodes or all nodes, for up to two days; half of it can be evicted."""
        until = self.system.clock.now() + timedelta(seconds=48 * HOUR * action.fraction**2)
        instances = self._running() if action.selector % 2 else self._one(action)
        orchestrator = self.system.ports.orchestrator
        names = {self._node_name(one) for one in instances}
        if action.selector % 4 < 2:
            orchestrator.evictable |= names
        else:
            orchestrator.evictable -= names
        self._log(f"work runs on {len(instances)} nodes until {until:%d %H:%M}")
        for instance in instances:
            self._begin_work(instance, until)

    def _begin_work(self, instance: FakeInstance, until: datetime) -> None:
        """Let work run on an instance, unless it is a spare, or its node is cordoned or out of service."""
        if self._instance_that_takes_work(self._node_name(instance)) == instance.instance_id:
            self.system.truth.begin_work(instance.instance_id, until)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self.system.schedule.after(seconds, "agent", act)

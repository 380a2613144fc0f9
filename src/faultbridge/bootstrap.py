"""The composition root: settings to ports to services; the only place that knows what is made of what.

A service is imported and put together when it is first asked for, so that a function pays only for what it does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING

from faultbridge import data
from faultbridge.composition import PagePeople, RecordIntake, RecordKeeping, pager_settings
from faultbridge.data.policies import default_policy
from faultbridge.ledger.append import Append, Stack
from faultbridge.pipeline.normalize.trust import BELIEVE_ALL, Trust
from faultbridge.rules.rulebook import Rulebook
from faultbridge.self_monitoring import SelfMonitoring
from faultbridge.settings import Settings

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.domain.clusters import ProviderRole
    from faultbridge.jobs.job_impact import JobImpact
    from faultbridge.ops.react import React
    from faultbridge.ops.sweep import Sweep
    from faultbridge.ports import Ports
    from faultbridge.registry.registration import Registration
    from faultbridge.registry.retirement import Retirement
    from faultbridge.repair.attempt.compute_access import ComputeAccess
    from faultbridge.repair.attempt.step_runner import StepRunner
    from faultbridge.repair.breakers import Breakers
    from faultbridge.repair.case_orders import CaseOrders
    from faultbridge.repair.cluster_status import ClusterRollup
    from faultbridge.repair.controls import Controls
    from faultbridge.repair.dispatch import Dispatch
    from faultbridge.repair.isolate import Isolate
    from faultbridge.repair.node_orders import NodeOrders
    from faultbridge.repair.opt_out import OptOut


@dataclass(frozen=True, slots=True)
class Timing:
    """How an installation waits and rolls dice; a simulation brings its own."""

    pause: Callable[[float], None] = time.sleep
    random: random.Random = random.Random()  # noqa: RUF009, S311 - jitter, not secrets; one for the whole process


class Application(RecordIntake, RecordKeeping, PagePeople, SelfMonitoring):
    """Every service of one installation, over its ports."""

    elsewhere: Callable[[ProviderRole], ComputeAccess] | None = None
    """Returns what reaches the machines of another account, where an installation can."""

    def __init__(
        self,
        ports: Ports,
        stack: Stack,
        *,
        probe_seconds: int = 30,
        chance: Timing | None = None,
        trust: Trust = BELIEVE_ALL,
    ) -> None:
        """Take the world, the installation's name, how often slow work is looked at, and whom to believe."""
        self.trust = trust
        self.ports = ports
        self.stack = stack
        self.probe_seconds = probe_seconds
        self.chance = chance or Timing()

    @cached_property
    def rulebook(self) -> Rulebook:
        """Read registrations and policies."""
        return Rulebook(self.ports.table, self.stack.id, data.load_catalog, default_policy, data.gpus_by_instance_type)

    @cached_property
    def append(self) -> Append:
        """Write nodes."""
        return Append(self.ports.table, self.ports.clock, self.stack, self.chance.pause, self.chance.random)

    @cached_property
    def registration(self) -> Registration:
        """Register clusters and nodes."""
        from faultbridge.registry.registration import Registration

        return Registration(self.ports.table, self.append, self.ports.clock)

    @cached_property
    def rollup(self) -> ClusterRollup:
        """Bring clusters up to date."""
        from faultbridge.repair.cluster_status import ClusterRollup

        return ClusterRollup(self.ports.table, self.ports.clock, self.stack, self.rulebook)

    @cached_property
    def isolate(self) -> Isolate:
        """Keep work off nodes."""
        from faultbridge.repair.isolate import Isolate

        return Isolate(self.append, self.rulebook, self.ports.orchestrators, self.controls)

    @cached_property
    def controls(self) -> Controls:
        """Change what bounds repairs."""
        from faultbridge.repair.controls import Controls

        return Controls(self.ports.table, self.ports.clock, self.stack)

    @cached_property
    def orders(self) -> CaseOrders:
        """Take what people decide about cases."""
        from faultbridge.repair.case_orders import CaseOrders

        return CaseOrders(self.ports.table, self.append, self.rulebook)

    @cached_property
    def node_orders(self) -> NodeOrders:
        """Take what people order about nodes."""
        from faultbridge.repair.node_orders import NodeOrders

        return NodeOrders(self.append, self.rulebook)

    @cached_property
    def retire(self) -> Retirement:
        """Take nodes out of their cluster."""
        from faultbridge.registry.retirement import Retirement

        return Retirement(self.ports.table, self.append, self.rulebook)

    @cached_property
    def ignore(self) -> OptOut:
        """Let nodes be left alone."""
        from faultbridge.repair.opt_out import OptOut

        return OptOut(self.append, self.rulebook)

    @cached_property
    def guard(self) -> Breakers:
        """Judge breakers."""
        from faultbridge.repair.breakers import Breakers

        return Breakers(self.ports.table, self.rulebook, self.controls)

    @cached_property
    def dispatch(self) -> Dispatch:
        """Give out repair slots."""
        from faultbridge.repair.dispatch import Dispatch

        ports = self.ports
        return Dispatch(ports.table, ports.clock, self.append, self.isolate, ports.workflow, self.rulebook)

    @cached_property
    def react(self) -> React:
        """Answer the doorbell of new entries."""
        from faultbridge.ops.react import React

        return React(self.guard, self.isolate, self.rollup, self.dispatch, self._job_impact)

    @property
    def _job_impact(self) -> JobImpact:
        from faultbridge.jobs.job_impact import JobImpact
        from faultbridge.jobs.jobs import Jobs

        return JobImpact(self.append, Jobs(self.ports.table, self.ports.clock, self.stack))

    @cached_property
    def replacement(self) -> StepRunner:
        """Run the steps of repairs."""
        from faultbridge.repair.attempt.compute_access import nowhere
        from faultbridge.repair.attempt.step_context import Tools
        from faultbridge.repair.attempt.step_runner import StepRunner

        tools = Tools(
            table=self.ports.table,
            clock=self.ports.clock,
            append=self.append,
            workflow=self.ports.workflow,
            rulebook=self.rulebook,
            objects=self.ports.objects,
            providers=self.ports.providers,
            launchers=self.ports.launchers,
            restarters=self.ports.restarters,
            collector=self.ports.collector,
            orchestrators=self.ports.orchestrators,
            verifiers=self.ports.verifiers,
            elsewhere=self.elsewhere or nowhere,
            probe=timedelta(seconds=self.probe_seconds),
        )
        return StepRunner(tools)

    @cached_property
    def sweep(self) -> Sweep:
        """Do what time brings about and what was left undone."""
        from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor
        from faultbridge.ops.sweep import Sweep
        from faultbridge.repair.attempt.leaked_slots import ReleaseLeakedSlots
        from faultbridge.repair.attempt.recovery import RecoverAttempts
        from faultbridge.repair.spares.pool import Pool
        from faultbridge.repair.spares.reconcile import ReconcileSpares

        return Sweep(
            table=self.ports.table,
            clock=self.ports.clock,
            append=self.append,
            rulebook=self.rulebook,
            guard=self.guard,
            isolate=self.isolate,
            rollup=self.rollup,
            dispatch=self.dispatch,
            poke=RecoverAttempts(self.replacement),
            silence=HeartbeatMonitor(self.ports.table, self.append, self.rulebook),
            job_impact=self._job_impact,
            release=ReleaseLeakedSlots(self.ports.table),
            reconcile_spares=ReconcileSpares(Pool(self.ports.table, self.ports.clock), self.replacement.tools),
            publish=self.publish.from_table,
            retry_reject=self.rejects.retry_at,
        )


@cache
def application() -> Application:
    """Put the deployment together that the environment describes, once a process."""
    return of_settings(Settings.from_environment())


def of_settings(settings: Settings, clients: Clients | None = None) -> Application:
    """Put the deployment together that settings describe; `clients` other than the environment's if given."""
    from faultbridge.adapters.aws.ports import AwsPorts

    ports = AwsPorts(settings, clients)
    stack = Stack(settings.stack_id, settings.stack)
    trust = Trust(settings.sender_proof, settings.own_senders, settings.events_queue)
    made = Application(ports, stack, probe_seconds=settings.probe_seconds, trust=trust)
    made.webhook_senders = lambda: ports.webhook_senders
    made.inventories, made.roll = (lambda: ports.inventories), (lambda: ports.roll)
    made.pager_settings = lambda: pager_settings(settings)
    made.archive_ports, made.entry_days = ports, settings.entry_days
    made.elsewhere = ports.for_role
    made.mirrored = lambda: settings.hyperpod_mirror
    return made

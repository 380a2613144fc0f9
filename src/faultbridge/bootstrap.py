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
from faultbridge.services.append import Append, Stack
from faultbridge.services.rulebook import Rulebook
from faultbridge.settings import Settings
from faultbridge.stages.trust import BELIEVE_ALL, Trust
from faultbridge.watching import WatchItself

if TYPE_CHECKING:
    from faultbridge.adapters.clients import Clients
    from faultbridge.domain.clusters import ProviderRole
    from faultbridge.ports import Ports
    from faultbridge.services.controls import Controls
    from faultbridge.services.dispatch import Dispatch
    from faultbridge.services.guard import Guard
    from faultbridge.services.ignore import Ignore
    from faultbridge.services.isolate import Isolate
    from faultbridge.services.node_orders import NodeOrders
    from faultbridge.services.orders import Orders
    from faultbridge.services.react import React
    from faultbridge.services.registration import Registration
    from faultbridge.services.replacement.machine import Replacement
    from faultbridge.services.replacement.reach import Reach
    from faultbridge.services.retire import Retire
    from faultbridge.services.rollup import Rollup
    from faultbridge.services.strikes import TellJobs
    from faultbridge.services.sweep import Sweep


@dataclass(frozen=True, slots=True)
class Chance:
    """How an installation waits and rolls dice; a simulation brings its own."""

    pause: Callable[[float], None] = time.sleep
    random: random.Random = random.Random()  # noqa: RUF009, S311 - jitter, not secrets; one for the whole process


class Application(RecordIntake, RecordKeeping, PagePeople, WatchItself):
    """Every service of one installation, over its ports."""

    elsewhere: Callable[[ProviderRole], Reach] | None = None
    """Returns what reaches the machines of another account, where an installation can."""

    def __init__(
        self,
        ports: Ports,
        stack: Stack,
        *,
        probe_seconds: int = 30,
        chance: Chance | None = None,
        trust: Trust = BELIEVE_ALL,
    ) -> None:
        """Take the world, the installation's name, how often slow work is looked at, and whom to believe."""
        self.trust = trust
        self.ports = ports
        self.stack = stack
        self.probe_seconds = probe_seconds
        self.chance = chance or Chance()

    @cached_property
    def rulebook(self) -> Rulebook:
        """Read registrations and policies."""
        return Rulebook(self.ports.table, self.stack.id, data.catalogue, default_policy, data.gpus_by_instance_type)

    @cached_property
    def append(self) -> Append:
        """Write nodes."""
        return Append(self.ports.table, self.ports.clock, self.stack, self.chance.pause, self.chance.random)

    @cached_property
    def registration(self) -> Registration:
        """Register clusters and nodes."""
        from faultbridge.services.registration import Registration

        return Registration(self.ports.table, self.append, self.ports.clock)

    @cached_property
    def rollup(self) -> Rollup:
        """Bring clusters up to date."""
        from faultbridge.services.rollup import Rollup

        return Rollup(self.ports.table, self.ports.clock, self.stack, self.rulebook)

    @cached_property
    def isolate(self) -> Isolate:
        """Keep work off nodes."""
        from faultbridge.services.isolate import Isolate

        return Isolate(self.append, self.rulebook, self.ports.orchestrators, self.controls)

    @cached_property
    def controls(self) -> Controls:
        """Change what bounds repairs."""
        from faultbridge.services.controls import Controls

        return Controls(self.ports.table, self.ports.clock, self.stack)

    @cached_property
    def orders(self) -> Orders:
        """Take what people decide about cases."""
        from faultbridge.services.orders import Orders

        return Orders(self.ports.table, self.append, self.rulebook)

    @cached_property
    def node_orders(self) -> NodeOrders:
        """Take what people order about nodes."""
        from faultbridge.services.node_orders import NodeOrders

        return NodeOrders(self.append, self.rulebook)

    @cached_property
    def retire(self) -> Retire:
        """Take seats out of their cluster."""
        from faultbridge.services.retire import Retire

        return Retire(self.ports.table, self.append, self.rulebook)

    @cached_property
    def ignore(self) -> Ignore:
        """Let nodes be left alone."""
        from faultbridge.services.ignore import Ignore

        return Ignore(self.append, self.rulebook)

    @cached_property
    def guard(self) -> Guard:
        """Judge breakers."""
        from faultbridge.services.guard import Guard

        return Guard(self.ports.table, self.rulebook, self.controls)

    @cached_property
    def dispatch(self) -> Dispatch:
        """Give out repair slots."""
        from faultbridge.services.dispatch import Dispatch

        ports = self.ports
        return Dispatch(ports.table, ports.clock, self.append, self.isolate, ports.workflow, self.rulebook)

    @cached_property
    def react(self) -> React:
        """Answer the doorbell of new entries."""
        from faultbridge.services.react import React

        return React(self.guard, self.isolate, self.rollup, self.dispatch, self._tell_jobs)

    @property
    def _tell_jobs(self) -> TellJobs:
        from faultbridge.services.jobs import Jobs
        from faultbridge.services.strikes import TellJobs

        return TellJobs(self.append, Jobs(self.ports.table, self.ports.clock, self.stack))

    @cached_property
    def replacement(self) -> Replacement:
        """Run the steps of repairs."""
        from faultbridge.services.replacement.machine import Replacement
        from faultbridge.services.replacement.reach import nowhere
        from faultbridge.services.replacement.work import Tools

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
        return Replacement(tools)

    @cached_property
    def sweep(self) -> Sweep:
        """Do what time brings about and what was left undone."""
        from faultbridge.services.orphans import ReleaseOrphans
        from faultbridge.services.replacement.poke import Poke
        from faultbridge.services.silence import Silence
        from faultbridge.services.spares.pool import Pool
        from faultbridge.services.spares.tend import TendSpares
        from faultbridge.services.sweep import Sweep

        return Sweep(
            table=self.ports.table,
            clock=self.ports.clock,
            append=self.append,
            rulebook=self.rulebook,
            guard=self.guard,
            isolate=self.isolate,
            rollup=self.rollup,
            dispatch=self.dispatch,
            poke=Poke(self.replacement),
            silence=Silence(self.ports.table, self.append, self.rulebook),
            tell_jobs=self._tell_jobs,
            release=ReleaseOrphans(self.ports.table),
            tend_spares=TendSpares(Pool(self.ports.table, self.ports.clock), self.replacement.tools),
            publish=self.publish.from_table,
            retry_reject=self.rejects.retry_at,
        )


@cache
def application() -> Application:
    """Put the deployment together that the environment describes, once a process."""
    return of_settings(Settings.from_environment())


def of_settings(settings: Settings, clients: Clients | None = None) -> Application:
    """Put the deployment together that settings describe; `clients` other than the environment's if given."""
    from faultbridge.adapters.aws import AwsPorts
    from faultbridge.adapters.aws_archive import AwsArchivePorts

    ports = AwsPorts(settings, clients)
    stack = Stack(settings.stack_id, settings.stack)
    trust = Trust(settings.sender_proof, settings.own_senders, settings.events_queue)
    made = Application(ports, stack, probe_seconds=settings.probe_seconds, trust=trust)
    made.webhook_senders = lambda: ports.webhook_senders
    made.inventories, made.roll = (lambda: ports.inventories), (lambda: ports.roll)
    made.pager_settings = lambda: pager_settings(settings)
    made.archive_ports, made.entry_days = AwsArchivePorts(ports), settings.entry_days
    made.elsewhere = ports.elsewhere
    made.mirrored = lambda: settings.hyperpod_mirror
    return made

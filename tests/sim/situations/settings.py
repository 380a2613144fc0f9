"""Actions on settings, clocks and schedules: policies and modes that change, clocks that jump, sweeps that stop."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.policy import Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Update
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.serve.wiring.services import wire_registration
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import HOUR, pick
from tests.sim.environment.operators import OperatorActions
from tests.sim.policies import LOST, hashed
from tests.sim.simulated_system import GROUPS, REPAIRED
from tests.sim.situations.versions import Version

MAX_HOURS = 3
PROCESSES = ("ingest-0", "ingest-1", "react", "step", "sweep", "publish", "pager", "operator")
CLOCK_ERRORS = (-1.5, -0.5, 0.0, 0.5, 1.5)
"""Errors of the clocks of functions in seconds, as of hosts that AWS keeps in time."""

JUMPS = (-3600.0, -90.0, 30.0, 900.0, 86400.0)
"""Jumps of the clock of an instance in seconds, when a time server corrects or breaks it."""

_CHANGES: tuple[Callable[[Rule], Rule], ...] = (
    lambda rule: replace(rule, wait_seconds=rule.wait_seconds + 600),
    lambda rule: replace(rule, isolate=False),
    lambda rule: replace(rule, repair_actions=(RepairAction.VERIFY, RepairAction.REPLACE_NODE)),
    lambda rule: replace(rule, verify_level=4),
)
"""Changes of each rule of a policy."""


class SettingActions(OperatorActions):
    """Changes settings of the `REPAIRED` cluster for up to three hours, and disturbs clocks and schedules."""

    def _policy_change(self, action: ExternalAction) -> None:
        """Change all rules, or leave out the first one, for a while."""
        policy, number = self.system.policy, action.selector % (len(_CHANGES) + 1)
        changed = tuple(map(_CHANGES[number], policy.rules)) if number < len(_CHANGES) else policy.rules[1:]
        self._log(f"the policy changes: variant {number}")
        self.system.policy_changed = True
        self.system.replaces_only |= all(RepairAction.RESET_GPU not in rule.repair_actions for rule in changed)
        self._put_policy(changed)
        self._until_undone(action, lambda: self._put_policy(policy.rules))

    def _put_policy(self, rules: tuple[Rule, ...]) -> None:
        limits = self.system.checks.limits[-1]
        document = hashed(replace(self.system.policy, rules=rules, limits=limits))
        self.run_command(lambda app: PolicyStore(app.ports.table, app.ports.clock).put(document))

    def _policy_broken(self, action: ExternalAction) -> None:
        """Let the pointer to the current policy name a version that is not stored, for up to an hour."""
        self._log("the current policy is not stored")
        self.system.workers.misconfigured = True
        table = self.system.ports.table
        table.write(Update(keys.CURRENT_POLICY, set={("version",): LOST}))
        self.system.schedule.after(
            HOUR * action.fraction, "operator", lambda: self._put_policy(self.system.policy.rules)
        )

    def _mode_change(self, action: ExternalAction) -> None:
        """Let Faultbridge only observe the cluster, or only report its decisions, for a while."""
        mode = Mode.OBSERVE if action.selector % 2 else Mode.DRY_RUN
        self._log(f"the mode is {mode.value}")
        self.system.only_laws = True
        self._set_mode(mode)
        self._until_undone(action, lambda: self._set_mode(Mode.ACT))

    def _set_mode(self, mode: Mode) -> None:
        self.run_command(lambda app: wire_registration(app).set_cluster(REPAIRED, {"mode": mode}))

    def _until_undone(self, action: ExternalAction, undo: Callable[[], None]) -> None:
        self.system.schedule.after(HOUR * MAX_HOURS * action.fraction, "operator", undo)

    def _sweeps_stop(self, action: ExternalAction) -> None:
        """Let the schedule start no sweep for up to three hours, or in one of three cases for up to a day."""
        hours = MAX_HOURS * action.fraction if action.selector % 3 else MAX_HOURS + (24 - MAX_HOURS) * action.fraction
        until = self.system.clock.now() + timedelta(hours=hours)
        self._log(f"no sweep runs until {until:%d %H:%M:%S}")
        self.system.stopped_until = until

    def _worker_clocks(self, action: ExternalAction) -> None:
        """Change the clock of each function by up to 1.5 seconds, forward or back."""
        errors = {name: pick(CLOCK_ERRORS, action.selector + 3 * place) for place, name in enumerate(PROCESSES)}
        self._log(f"the clocks of the functions are ahead by {errors}")
        self.system.workers.clock_errors, self.system.workers.clocks_differed = errors, True

    def _deployment(self, action: ExternalAction) -> None:
        """Let some functions run an older or a newer version of the code; up to two hours later, all run this one."""
        version = Version.OLDER if action.selector % 2 else Version.NEWER
        changed = [name for place, name in enumerate(PROCESSES) if action.selector >> place & 2]
        self._log(f"a deployment: {', '.join(changed) or 'nothing'} run the {version.value} version")
        self.system.workers.deploy(dict.fromkeys(changed, version))
        ends = 2 * HOUR * action.fraction
        self.system.schedule.after(ends, "operator", lambda: self.system.workers.deploy({}))

    def _clock_jump(self, action: ExternalAction) -> None:
        """Let the clock of one instance jump."""
        running = [*self.system.fleet.running(GROUPS[REPAIRED])]
        if running:
            instance, seconds = pick(running, action.selector).instance_id, pick(JUMPS, action.selector // 7)
            self._log(f"the clock of {instance} jumps by {seconds:.0f} s")
            self.system.clocks.jump(instance, seconds)

    def _not_found(self, _action: ExternalAction) -> None:
        """Let the provider know nothing about the next instance that is released."""
        self._log("the provider's next call fails: not found")
        self.system.ports.provider.fail_next(ProviderFailure.NOT_FOUND)

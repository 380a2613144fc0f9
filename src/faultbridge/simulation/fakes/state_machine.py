"""The state machine in memory: it runs the product's own definition, with the few kinds of state that it uses.

Waiting for a task token, choices on text, retries, catches and time-outs behave as Amazon States Language says.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from faultbridge.ports import Clock, ExecutionStatus
from faultbridge.simulation.fakes.seams import Seam

# An installed package carries a copy of what lies in the checkout.
PACKAGED = Path(__file__).resolve().parents[1] / "replacement.asl.yaml"
CHECKED_OUT = Path(__file__).resolve().parents[4] / "infra" / "statemachines" / "replacement.asl.yaml"
CALLBACK = ".waitForTaskToken"

Handler = Callable[[dict[str, Any]], Mapping[str, Any]]


@cache
def definition() -> dict[str, Any]:
    """Read the definition as it is deployed, once; nobody changes it."""
    source = PACKAGED if PACKAGED.is_file() else CHECKED_OUT
    loaded: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    return loaded


@dataclass
class Execution:
    """One execution: where it stands, with what, and what it went through."""

    name: str
    data: dict[str, Any]
    state: str
    status: ExecutionStatus = ExecutionStatus.RUNNING
    token: str | None = None
    since: datetime | None = None
    retries: int = 0
    transitions: int = 1
    visited: list[str] = field(default_factory=list)
    busy: bool = False


class TaskFailed(Exception):  # noqa: N818 - the name that Amazon States Language gives it
    """A task raised or ran out of time."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(error)
        self.error = error
        self.cause = cause


class FakeStateMachine:
    """A Workflow (fake) that executes a definition, calling `handler` for each task, at once and in this thread."""

    def __init__(self, clock: Clock, *, seam: Seam | None = None) -> None:
        self.clock = clock
        self.seam = seam or Seam()
        self.definition = definition()
        self.handler: Handler | None = None
        self.executions: dict[str, Execution] = {}
        self._answers: dict[str, Any] = {}
        self._tokens = 0

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution, once a name."""
        with self.seam.around("workflow", "start", name):
            if name not in self.executions:
                data = json.loads(json.dumps(payload))
                self.executions[name] = Execution(name, data, self.definition["StartAt"])
                self.drive(self.executions[name])

    def status(self, name: str) -> ExecutionStatus:
        """Tell how an execution is doing."""
        with self.seam.around("workflow", "status", name):
            found = self.executions.get(name)
            return found.status if found else ExecutionStatus.MISSING

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Answer a token."""
        with self.seam.around("workflow", "resume", token):
            waiting = next((one for one in self.executions.values() if one.token == token), None)
            if waiting is None or waiting.status is not ExecutionStatus.RUNNING:
                return False
            self._answers[token] = json.loads(json.dumps(output))
            self.drive(waiting)
            return True

    def abort(self, name: str) -> None:
        """End an execution as an operator or an outage does: no catch runs."""
        self.executions[name].status = ExecutionStatus.FAILED
        self.executions[name].token = None

    def let_time_out(self) -> None:
        """Fail every task that has waited for its token longer than it may."""
        for execution in list(self.executions.values()):
            if execution.token is None or execution.since is None:
                continue
            limit = timedelta(seconds=self.definition["States"][execution.state]["TimeoutSeconds"])
            if self.clock.now() - execution.since > limit:
                execution.token = None
                self._fail(execution, TaskFailed("States.Timeout", ""))
                self.drive(execution)

    def drive(self, execution: Execution) -> None:
        """Run until the execution waits or ends; a call from within a task changes nothing but the answers."""
        if execution.busy:
            return
        execution.busy = True
        try:
            while execution.status is ExecutionStatus.RUNNING and self._step(execution):
                pass
        finally:
            execution.busy = False

    def _step(self, execution: Execution) -> bool:
        state = self.definition["States"][execution.state]
        if state["Type"] == "Succeed":
            execution.visited.append(execution.state)
            execution.status = ExecutionStatus.SUCCEEDED
            return False
        if state["Type"] == "Choice":
            self._go(execution, choose(state, execution.data))
            return True
        assert state["Type"] == "Task"
        try:
            result = self._task(execution, state)
        except TaskFailed as failed:
            self._fail(execution, failed)
            return True
        if result is None:
            return False
        self._finish(execution, state, result)
        return True

    def _task(self, execution: Execution, state: dict[str, Any]) -> dict[str, Any] | None:
        if execution.token is None:
            result = self._invoke(execution, state)
            if CALLBACK not in state["Resource"]:
                return {"Payload": result}
        assert execution.token is not None
        answer = self._answers.pop(execution.token, None)
        return None if answer is None else dict(answer)

    def _invoke(self, execution: Execution, state: dict[str, Any]) -> dict[str, Any]:
        assert self.handler is not None, "tell the machine what its function is"
        context: dict[str, Any] = {}
        if CALLBACK in state["Resource"]:
            self._tokens += 1
            execution.token = f"token-{self._tokens}"
            execution.since = self.clock.now()
            context = {"Task": {"Token": execution.token}}
        payload = resolved(state["Parameters"]["Payload"], execution.data, context)
        try:
            return json.loads(json.dumps(self.handler(payload)))  # type: ignore[no-any-return]  # JSON of a mapping
        except Exception as error:
            execution.token = None
            raise TaskFailed(type(error).__name__, str(error)) from error

    def _fail(self, execution: Execution, failed: TaskFailed) -> None:
        state = self.definition["States"][execution.state]
        retrier = matching(state.get("Retry", []), failed.error)
        if retrier is not None and execution.retries < retrier["MaxAttempts"]:
            execution.retries += 1
            execution.transitions += 1
            return
        catcher = matching(state.get("Catch", []), failed.error)
        if catcher is None:
            execution.status = ExecutionStatus.FAILED
            return
        told = {"Error": failed.error, "Cause": failed.cause}
        put(execution.data, catcher["ResultPath"], told)
        self._go(execution, catcher["Next"])

    def _finish(self, execution: Execution, state: dict[str, Any], result: dict[str, Any]) -> None:
        execution.token = None
        if "ResultSelector" in state:
            result = resolved(state["ResultSelector"], result, {})
        put(execution.data, state["ResultPath"], result)
        self._go(execution, state["Next"])

    def _go(self, execution: Execution, target: str) -> None:
        execution.visited.append(execution.state)
        execution.state = target
        execution.retries = 0
        execution.transitions += 1


def matching(handlers: list[dict[str, Any]], error: str) -> dict[str, Any] | None:
    """Find the first retrier or catcher that names the error, as the language says."""
    return next((one for one in handlers if {error, "States.ALL"} & set(one["ErrorEquals"])), None)


def choose(state: dict[str, Any], data: dict[str, Any]) -> str:
    """Where a choice leads."""
    for choice in state["Choices"]:
        if at(choice["Variable"], data) == choice["StringEquals"]:
            return str(choice["Next"])
    return str(state["Default"])


def resolved(template: dict[str, Any], data: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Follow the paths of a payload template."""
    made: dict[str, Any] = {}
    for name, value in template.items():
        if not name.endswith(".$"):
            made[name] = copy.deepcopy(value)
        elif value.startswith("$$."):
            made[name[:-2]] = at(value[1:], context)
        else:
            made[name[:-2]] = at(value, data)
    return made


def at(path: str, data: dict[str, Any]) -> Any:
    """Return what stands at a reference path; KeyError where nothing does."""
    found: Any = data
    for part in path.removeprefix("$").split("."):
        found = found[part] if part else found
    return found


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a result where a path of one part says."""
    data[path.removeprefix("$.")] = value

"""A fake of Step Functions that executes the definition of the deployed state machine.

It supports the states that the definition uses: Task (with task token, Retry, Catch and timeout), Choice on a string,
and Succeed, each as Amazon States Language specifies.
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

from faultbridge.record.ports.messaging import ExecutionStatus
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.seam import Seam

DEFINITION = Path(__file__).resolve().parents[3] / "infra" / "statemachines" / "replacement.asl.yaml"
CALLBACK = ".waitForTaskToken"

Handler = Callable[[dict[str, Any]], Mapping[str, Any]]


@cache
def definition() -> dict[str, Any]:
    """Return the definition of the deployed state machine; it is loaded once and must not be modified."""
    loaded: dict[str, Any] = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    return loaded


@dataclass
class Execution:
    """One execution: its current state, its data, and the states that it has left (`visited`).

    After a success, `visited` also has the last state. `token` is the task token for which the execution waits since
    the time `since`, or None. `retries` counts the retries of the current state. `busy` is True while a task of the
    execution runs.
    """

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


class TaskFailed(Exception):  # noqa: N818 - the error name in Amazon States Language
    """Raised when a task fails or times out, with the name and the cause of the error."""

    def __init__(self, error: str, cause: str) -> None:
        super().__init__(error)
        self.error = error
        self.cause = cause


class FakeStateMachine:
    """Implements `Workflow` (fake): runs each state immediately, and calls `handler` for each task."""

    def __init__(self, clock: Clock, *, seam: Seam | None = None) -> None:
        self.clock = clock
        self.seam = seam or Seam()
        self.definition = definition()
        self.handler: Handler | None = None
        self.executions: dict[str, Execution] = {}
        self._answers: dict[str, Any] = {}
        self._waiting: dict[str, Execution] = {}
        self._tokens = 0

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution; a second start with the same name has no effect."""
        with self.seam.around("workflow", "start", name):
            if name not in self.executions:
                data = json.loads(json.dumps(payload))
                self.executions[name] = Execution(name, data, self.definition["StartAt"])
                self.advance(self.executions[name])

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of an execution; MISSING if it was never started."""
        with self.seam.around("workflow", "status", name):
            found = self.executions.get(name)
            return found.status if found else ExecutionStatus.MISSING

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Complete the task that waits for a task token; returns False if no execution waits for it."""
        with self.seam.around("workflow", "resume", token):
            waiting = self._waiting.get(token)
            if waiting is None or waiting.token != token or waiting.status is not ExecutionStatus.RUNNING:
                return False
            self._answers[token] = json.loads(json.dumps(output))
            self.advance(waiting)
            return True

    def abort(self, name: str) -> None:
        """Fail an execution from outside, as an operator does; no Catch of the definition runs."""
        self.executions[name].status = ExecutionStatus.FAILED
        self.executions[name].token = None

    def expire_tokens(self) -> None:
        """Fail every task that has waited for its task token longer than its state's TimeoutSeconds."""
        self._waiting = {token: one for token, one in self._waiting.items() if one.token == token}
        for execution in list(self._waiting.values()):
            if execution.since is None:
                continue
            limit = timedelta(seconds=self.definition["States"][execution.state]["TimeoutSeconds"])
            if self.clock.now() - execution.since > limit:
                execution.token = None
                self._fail(execution, TaskFailed("States.Timeout", ""))
                self.advance(execution)

    def advance(self, execution: Execution) -> None:
        """Run an execution until it waits or ends; a call by a task of the same execution has no effect."""
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
            self._enter(execution, choose(state, execution.data))
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
        assert self.handler is not None, "set `handler` before the first execution"
        context: dict[str, Any] = {}
        if CALLBACK in state["Resource"]:
            self._tokens += 1
            execution.token = f"token-{self._tokens}"
            self._waiting[execution.token] = execution
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
        put(execution.data, catcher["ResultPath"], {"Error": failed.error, "Cause": failed.cause})
        self._enter(execution, catcher["Next"])

    def _finish(self, execution: Execution, state: dict[str, Any], result: dict[str, Any]) -> None:
        execution.token = None
        if "ResultSelector" in state:
            result = resolved(state["ResultSelector"], result, {})
        put(execution.data, state["ResultPath"], result)
        self._enter(execution, state["Next"])

    def _enter(self, execution: Execution, target: str) -> None:
        execution.visited.append(execution.state)
        execution.state = target
        execution.retries = 0
        execution.transitions += 1


def matching(handlers: list[dict[str, Any]], error: str) -> dict[str, Any] | None:
    """Return the first Retry or Catch entry that lists `error` or States.ALL; None if no entry does."""
    return next((one for one in handlers if {error, "States.ALL"} & set(one["ErrorEquals"])), None)


def choose(state: dict[str, Any], data: dict[str, Any]) -> str:
    """Return the name of the next state that a Choice state selects for the data of an execution."""
    for choice in state["Choices"]:
        if at(choice["Variable"], data) == choice["StringEquals"]:
            return str(choice["Next"])
    return str(state["Default"])


def resolved(template: dict[str, Any], data: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a template: a field `name.$` becomes `name` with the value at its path."""
    payload: dict[str, Any] = {}
    for name, value in template.items():
        if not name.endswith(".$"):
            payload[name] = copy.deepcopy(value)
        elif value.startswith("$$."):
            payload[name[:-2]] = at(value[1:], context)
        else:
            payload[name[:-2]] = at(value, data)
    return payload


def at(path: str, data: dict[str, Any]) -> Any:
    """Return the value at a reference path; a path without a value raises `KeyError`."""
    found: Any = data
    for part in path.removeprefix("$").split("."):
        found = found[part] if part else found
    return found


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Store a value in the data of an execution at a reference path with one part, such as `$.drain`."""
    data[path.removeprefix("$.")] = value

"""Missing heartbeat: the fault of a node without heartbeats, and what its provider reports."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.dataclass import dataclass
from faultbridge.decoders.native.heartbeat import SILENT
from faultbridge.decoders.native.heartbeat import SOURCE as HEARTBEAT
from faultbridge.domain.faults import NODE_COMPONENT, Fault
from faultbridge.domain.times import to_text
from faultbridge.ports import CheckResult, InstanceChecks, Presence


class Answer(StrEnum):
    """What is known about the instance of a node without heartbeats. Earlier members take precedence."""

    GONE = "gone"
    HOST_IMPAIRED = "host_impaired"
    IMPAIRED = "impaired"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"
    ALIVE = "alive"
    UNKNOWN = "unknown"


_TEXTS = {
    Answer.GONE: "The provider has no such instance any more.",
    Answer.HOST_IMPAIRED: "The system status check of its instance failed: the host, its power or its network.",
    Answer.IMPAIRED: "The instance status check of its instance failed: the operating system or its network settings.",
    Answer.UNREACHABLE: "Its SSM agent lost its connection: the operating system or the network path failed.",
    Answer.REACHABLE: "Its SSM agent is connected: the agent of Faultbridge or its path to the queue failed.",
    Answer.ALIVE: "The provider still has its instance: the agent, the operating system or the network path failed.",
}


@dataclass(frozen=True, slots=True)
class ProbedInstance:
    """What the provider reports about an instance: whether it exists, and its status checks.

    `orchestrator` states whether the orchestrator reports the node as ready; `answer` ignores it.
    """

    presence: Presence = Presence.UNKNOWN
    checks: InstanceChecks = field(default_factory=InstanceChecks)
    orchestrator: CheckResult = CheckResult.UNKNOWN

    @property
    def answer(self) -> Answer:
        """Return the first member of `Answer` that the provider's report supports.

        A failed status check therefore takes precedence over a connected SSM agent. The answer is UNKNOWN if the report
        supports no other member.
        """
        if self.presence.is_gone:
            return Answer.GONE
        known = (
            (self.checks.system is CheckResult.FAILED, Answer.HOST_IMPAIRED),
            (self.checks.instance is CheckResult.FAILED, Answer.IMPAIRED),
            (self.checks.agent is CheckResult.FAILED, Answer.UNREACHABLE),
            (self.checks.agent is CheckResult.PASSED, Answer.REACHABLE),
            (self.presence is Presence.ALIVE, Answer.ALIVE),
        )
        return next((answer for holds, answer in known if holds), Answer.UNKNOWN)


def missing_heartbeat_fault(last: datetime, timeout: timedelta, due: datetime, probed: ProbedInstance) -> Fault:
    """Return the fault `host.silent` for a node whose last heartbeat (`last`) is older than the timeout.

    `due` is the time at which the timeout ended; the fault starts then. `probed` is what the provider reports about the
    instance. The message and the attributes of the fault contain this report.
    """
    answer, checks = probed.answer, probed.checks
    text = f"No heartbeat for {int(timeout.total_seconds())} s."
    return Fault(
        HEARTBEAT,
        SILENT,
        NODE_COMPONENT,
        f"{text} {_TEXTS[answer]}" if answer in _TEXTS else text,
        observed_at=due,
        evidence=f"last heartbeat at {to_text(last)}",
        attributes={
            "last_heartbeat": to_text(last),
            "instance": answer.value,
            "system_status": checks.system.value,
            "instance_status": checks.instance.value,
            "ssm_agent": checks.agent.value,
            "orchestrator": probed.orchestrator.value,
        },
    )

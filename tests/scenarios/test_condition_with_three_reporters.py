"""A HyperPod fault reported by kernel, agent and event is one condition with three reporters."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import permutations

import pytest

from faultbridge.model.fault_enums import Action
from faultbridge.model.times import to_text
from faultbridge.serve.entrypoints.ingest import wire_ingest
from tests.builders import KEY
from tests.world import XID_79, World

NAMED = "gpu.lost@gpu/pci=0000:c1:00"
REPORTERS = ["hyperpod-agent-log", "hyperpod-event", "kernel-log"]
Body = dict[str, object]


class HyperPod(World):
    """A HyperPod cluster with three sources that report a fault: kernel, agent and event."""

    def kernel(self) -> None:
        self.ingest("kernel-log", f"kern  :err   : {to_text(self.now).replace('.', ',')} {XID_79}")

    def agent(self, **shape: object) -> None:
        marked = {"level": "info", "ts": to_text(self.now), "HealthMonitoringAgentDetectionEvent": "HealthEvent"}
        self.ingest("hyperpod-agent-log", json.dumps(marked | (shape or POSITIVE)))

    def event(self, status: str = "Unhealthy", repair: str = "Replace", reason: str | None = None) -> None:
        summary = {"HealthStatus": status, "HealthStatusReason": reason, "RepairAction": repair, "Recommendation": ""}
        instance = self.node().incarnation.instance_id
        self.ingest(
            "hyperpod-event",
            json.dumps(
                {
                    "source": "aws.sagemaker",
                    "detail-type": "SageMaker HyperPod Cluster Node Health Event",
                    "id": to_text(self.now),
                    "time": to_text(self.now),
                    "detail": {"InstanceId": instance, "HealthSummary": summary, "EventTime": None, "Tags": {}},
                }
            ),
        )

    def ingest(self, source: str, text: str) -> None:
        node = None if source == "hyperpod-event" else KEY.node
        assert not wire_ingest(self.app).ingest([self.message(text, source=source, node=node)]).reasons

    def reporters_by_condition(self) -> dict[str, list[str]]:
        """Return the sources that assert each condition."""
        return {key: sorted(one.sources) for key, one in self.node().conditions.items()}


POSITIVE: Body = {
    "msg": "NPD caught positive condition",
    "condition details": {"type": "NvidiaGPUUnhealthy", "status": "True"},
}
NEGATIVE: Body = {
    "msg": "NPD caught positive condition",
    "condition details": {"type": "NvidiaGPUUnhealthy", "status": "False"},
}
NUMBERED: Body = {"msg": "DCGM Policy Violation found ", "condition: ": "XID Error", "data: ": {"ErrNum": 79}}
QUOTED: Body = {
    "Event detail": {
        "Action": "replace",
        "Type": "NvidiaGPUUnhealthy",
        "Reason": "XidHardwareFailure",
        "Message": XID_79,
    }
}
NVIDIA_SMI_XML = (
    '<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:C1:00.0"><fan_speed>{}</fan_speed></gpu>'
    "</nvidia_smi_log>"
)
DETECTED = "HyperPod Health Monitoring Agent (HMA) has detected fault type NvidiaGPUUnhealthy on this node."


@pytest.mark.parametrize("order", list(permutations(("kernel", "agent", "event"))), ids="-".join)
@pytest.mark.parametrize("shape", [POSITIVE, NUMBERED, QUOTED], ids=["positive", "numbered", "quoted"])
@pytest.mark.parametrize("reason", [None, DETECTED], ids=["null", "fault-type"])
def test_three_reporters_in_any_order_assert_one_condition(order, shape, reason):
    world = HyperPod()
    for voice in order:
        {"kernel": world.kernel, "agent": lambda: world.agent(**shape), "event": lambda: world.event(reason=reason)}[
            voice
        ]()
        world.ports.clock.advance(timedelta(seconds=20))
    assert world.reporters_by_condition() == {NAMED: REPORTERS}
    assert world.node().conditions[NAMED].count == 1
    assert world.node().live_case is not None


def test_reports_without_a_code_assert_one_condition():
    world = HyperPod()
    world.agent()
    world.event()
    assert world.reporters_by_condition() == {"gpu.unnamed_fault@gpu/any": REPORTERS[:2]}
    assert world.node().conditions["gpu.unnamed_fault@gpu/any"].action is Action.REPLACE_NODE


def test_each_reporter_clears_only_its_own_assertion():
    world = HyperPod()
    world.kernel()
    world.agent()
    world.event()
    world.ports.clock.advance(timedelta(minutes=40))
    world.event("Healthy", "None")
    assert world.reporters_by_condition() == {NAMED: ["hyperpod-agent-log", "kernel-log"]}
    world.agent(**NEGATIVE)
    assert world.reporters_by_condition() == {NAMED: ["kernel-log"]}


def test_a_report_repeated_after_an_hour_asserts_the_same_condition():
    world = HyperPod()
    world.kernel()
    world.event()
    world.ports.clock.advance(timedelta(hours=1))
    world.event()
    assert world.reporters_by_condition() == {NAMED: ["hyperpod-event", "kernel-log"]}


def test_a_report_long_after_a_fault_asserts_another_condition():
    world = HyperPod()
    world.kernel()
    world.ports.clock.advance(timedelta(hours=1))
    world.event()
    assert world.reporters_by_condition().keys() == {NAMED, "provider.replace_requested@node"}


def test_a_warning_does_not_give_its_code_to_a_fatal_report():
    world = HyperPod()
    world.ingest("kernel-log", "NVRM: Xid (PCI:0000:c1:00): 92, pid=1, name=python, High single-bit ECC error rate")
    world.event()
    assert world.reporters_by_condition().keys() == {
        "gpu.ecc_corrected_rate@gpu/pci=0000:c1:00",
        "provider.replace_requested@node",
    }


def test_a_report_of_a_condition_that_has_ended_opens_nothing():
    world = HyperPod()
    world.ingest("nvidia-smi-xml", NVIDIA_SMI_XML.format("GPU is lost"))
    written = {"level": "info", "ts": to_text(world.now), "HealthMonitoringAgentDetectionEvent": "HealthEvent"}
    late = world.message(json.dumps(written | POSITIVE), source="hyperpod-agent-log")
    world.ports.clock.advance(timedelta(minutes=5))
    world.ingest("nvidia-smi-xml", NVIDIA_SMI_XML.format("30 %"))
    wire_ingest(world.app).ingest([late])
    assert world.reporters_by_condition() == {}

"""What peers' users reported about sources of faults: each scenario is named after what must happen."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import version_of
from faultbridge.model.cases import Case
from faultbridge.model.enums import NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.times import to_text
from faultbridge.record.policies import PolicyStore
from faultbridge.repair.jobs.jobs import Jobs
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.builders import KEY
from tests.world import XID_79, World

XID_79_ON_GPU = "gpu.lost@gpu/pci=0000:c1:00"
LABELS = '{gpu="0",UUID="GPU-0a",pci_bus_id="00000000:C1:00.0",hostname="' + KEY.node + '"'


class Sources(World):
    """A node that several sources report on; the time advances after each record."""

    def receive(self, source: str, text: str, *, wait: timedelta = timedelta(seconds=30)) -> None:
        assert not wire_ingest(self.app).ingest([self.message(text, source=source)]).reasons
        self.ports.clock.advance(wait)

    def kernel_log(self, line: str = XID_79) -> None:
        self.receive("kernel-log", f"kern  :err   : {to_text(self.now).replace('.', ',')} {line}")

    def exporter(self, field: str, value: int, label: str = "") -> None:
        """Report one value of a scrape of dcgm-exporter, without a pod label."""
        self.receive("dcgm-metrics", f"{field}{LABELS}{label}}} {value}\n")

    def condition(self, source: str, name: str, status: str, reason: str, **others: Any) -> None:
        """Report one condition of the Kubernetes node."""
        changed = {"type": name, "status": status, "reason": reason, "lastTransitionTime": to_text(self.now)}
        self.receive(source, json.dumps([changed]), **others)

    def case(self) -> Case:
        found = self.node().case
        assert found is not None
        return found

    def reporters_by_condition(self) -> dict[str, list[str]]:
        """Return the sources that assert each active condition."""
        return {key: sorted(one.sources) for key, one in self.node().conditions.items()}


def test_a_sensor_outage_of_90_seconds_opens_no_case_and_its_end_clears_it() -> None:
    """aws/eks-node-monitoring-agent#275: a monitor that does not respond is no fault of a GPU."""
    world = Sources()
    outage = timedelta(seconds=90)
    world.condition("eks-node-condition", "AcceleratedHardwareReady", "False", "DCGMError", wait=outage)
    assert world.reporters_by_condition() == {"sensor.dcgm_unreachable@node": ["eks-node-condition"]}
    assert (world.node().status, world.node().case) == (NodeStatus.DEGRADED, None)
    world.condition("eks-node-condition", "AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady")
    assert (world.node().status, world.node().conditions) == (NodeStatus.HEALTHY, {})


def test_a_failed_diagnostic_of_dcgm_requests_a_diagnosis() -> None:
    """It finds a GPU faulty, so it is another fault than a host engine that does not respond."""
    world = Sources()
    world.condition("eks-node-condition", "AcceleratedHardwareReady", "False", "DCGMDiagnosticFailure")
    assert world.reporters_by_condition() == {"gpu.unnamed_fault@node": ["eks-node-condition"]}
    assert world.case().repair_action is RepairAction.VERIFY


def test_a_sensor_that_returns_does_not_clear_what_the_kernel_log_reported() -> None:
    """aws/eks-node-monitoring-agent#275."""
    world = Sources()
    world.kernel_log()
    world.condition("eks-node-condition", "AcceleratedHardwareReady", "False", "DCGMError")
    world.condition("eks-node-condition", "AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady")
    assert world.reporters_by_condition() == {XID_79_ON_GPU: ["kernel-log"]}
    assert world.node().live_case is not None


NPD_RULE = """
rules:
  - name: restarts
    match: {codes: [host.service_restarts], sources: [node-problem-detector]}
    severity: error
    action: reboot_node
"""


@pytest.mark.parametrize(("policy", "opened"), [(None, False), (NPD_RULE, True)])
def test_a_condition_of_node_problem_detector_opens_a_case_by_policy(policy: str | None, opened: bool) -> None:
    """NVIDIA/NVSentinel#1633."""
    world = Sources()
    if policy:
        document = read_policy(policy)
        PolicyStore(world.ports.table, world.ports.clock).put({**document, "version": version_of(document)})
    world.condition("node-problem-detector", "FrequentKubeletRestart", "True", "FrequentKubeletRestart")
    assert world.reporters_by_condition() == {"host.notice@node": ["node-problem-detector"]}
    assert (world.node().live_case is not None) is opened


def test_a_kernel_deadlock_that_node_problem_detector_reports_requests_a_reboot() -> None:
    """NVIDIA/NVSentinel#1633."""
    world = Sources()
    world.condition("node-problem-detector", "KernelDeadlock", "True", "DockerHung")
    assert (world.case().code, world.case().repair_action) == ("host.kernel_deadlock", RepairAction.REBOOT_NODE)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("Recovery action: 1", "gpu.reset_required"),
        ("Recovery action: 4", "gpu.reset_required"),
        ("GPU 0 had an uncontained error", "gpu.ecc_uncorrectable"),
        ("row remappings are pending", "gpu.row_remap_pending"),
    ],
)
def test_an_error_for_which_dcgm_recommends_a_reset_requests_a_reset(text: str, mode: str) -> None:
    """NVIDIA/NVSentinel#1826."""
    world = Sources()
    incident = {"Memory system": {"value": "Failure", "overflow": [text]}}
    gpus = {"children": {"0": {"children": {"Errors": {"children": incident}}, "value": "Failure"}}}
    report = {"body": {"GPU": gpus, "Overall Health": {"value": "Failure"}}, "header": ["Health Monitor Report"]}
    world.receive("dcgm-health", json.dumps(report))
    assert (world.case().mode, world.case().repair_action) == (mode, RepairAction.RESET_GPU)


def test_every_fault_that_dcgm_isolates_or_resets_with_a_reset_requests_at_least_a_reset() -> None:
    """NVIDIA/NVSentinel#1826."""
    recommended = {"isolate, reset gpu", "reset, reset gpu", "reset"}
    rows = [
        row
        for row in load_catalog().rows.values()
        if any(one.source == "DCGM" and one.says in recommended for one in row.recommendations)
    ]
    assert len(rows) > 10
    assert {row.action for row in rows} <= {Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE}


def test_a_repeated_xid_counts_and_a_gauge_that_keeps_its_last_xid_does_not() -> None:
    """NVIDIA/dcgm-exporter#190, NVIDIA/dcgm-exporter#500."""
    world = Sources()
    world.exporter("DCGM_EXP_XID_ERRORS_COUNT", 0, ',xid="79"')
    for count in (1, 2):
        world.exporter("DCGM_EXP_XID_ERRORS_COUNT", count, ',xid="79"')
    world.kernel_log()
    world.exporter("DCGM_FI_DEV_XID_ERRORS", 79)
    counted = world.node().conditions[XID_79_ON_GPU].count
    assert counted >= 3
    for _ in range(5):
        world.exporter("DCGM_FI_DEV_XID_ERRORS", 79)
    assert world.node().conditions[XID_79_ON_GPU].count == counted


def test_a_gauge_that_still_shows_an_old_xid_opens_no_case_of_a_healthy_node() -> None:
    """NVIDIA/dcgm-exporter#500."""
    world = Sources()
    for _ in range(5):
        world.exporter("DCGM_FI_DEV_XID_ERRORS", 79)
    assert (world.node().status, world.node().conditions, world.node().case) == (NodeStatus.HEALTHY, {}, None)


def test_exporter_and_kernel_log_report_one_condition_and_the_job_is_named_without_pod_labels() -> None:
    """NVIDIA/dcgm-exporter#342, NVIDIA/dcgm-exporter#620."""
    world = Sources()
    jobs = Jobs(world.app.append)
    jobs.start(KEY.cluster, "llama-17", [KEY.node])
    world.exporter("DCGM_FI_DEV_XID_ERRORS", 0)
    world.exporter("DCGM_FI_DEV_XID_ERRORS", 79)
    world.kernel_log()
    assert world.reporters_by_condition() == {XID_79_ON_GPU: ["dcgm-metrics", "kernel-log"]}
    wire_sweep(world.app).run()
    found = jobs.find(KEY.cluster, "llama-17")
    assert found is not None
    assert [XID_79_ON_GPU in hit and KEY.node in hit for hit in found.hits] == [True]


def test_sources_that_name_different_xids_of_one_gpu_are_both_shown_with_their_reporter() -> None:
    """NVIDIA/dcgm-exporter#620."""
    world = Sources()
    world.exporter("DCGM_FI_DEV_XID_ERRORS", 0)
    world.kernel_log()
    world.exporter("DCGM_FI_DEV_XID_ERRORS", 48)
    assert world.reporters_by_condition() == {
        XID_79_ON_GPU: ["kernel-log"],
        XID_79_ON_GPU.replace("lost", "ecc_uncorrectable"): ["dcgm-metrics"],
    }

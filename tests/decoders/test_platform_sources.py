"""The decoders of agents, clouds, schedulers, networks and training jobs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from faultbridge.cli.commands.offline.decode import documents
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.normalize.compare import differences
from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Clear, Component, CounterSample, Fault, Observation, Snapshot
from faultbridge.model.policy import Limits
from tests.builders import arrival, node
from tests.decoders.captures import HERE, faults_and_clears, held
from tests.decoders.captures import PLATFORM_SAMPLES as SAMPLES

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
GPU = ComponentType.GPU
SCHEMA = json.loads((HERE.parents[1] / "schemas/normalized-fault/v1.json").read_text("utf-8"))


def sample(source: str, file: str) -> tuple[Observation, ...]:
    return registry.decode(source, (SAMPLES / file).read_bytes())


def decoded(source: str, *written: Any) -> tuple[Observation, ...]:
    return registry.decode(source, "\n".join(json.dumps(one) for one in written).encode())


def snapshots(observations: tuple[Observation, ...]) -> list[Snapshot]:
    return [one for one in observations if isinstance(one, Snapshot)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-02-03T20:00:00.123456789+08:00", NOON.replace(microsecond=123456)),
        ("2026-02-03 12:00:00", NOON),
        ("Tue, 3 Feb 2026 12:00:00 GMT", NOON),
        (1770120000, NOON),
        (1770120000000, NOON),
        ("1770120000", NOON),
        ({"seconds": 1770120000, "nanos": 5000}, NOON.replace(microsecond=5)),
        ({"seconds": "1770120000"}, NOON),
        ("0001-01-01T00:00:00Z", None),
        (None, None),
        (True, None),
        (-5, None),
        ("yesterday", None),
        ("Tue, 31 Feb 2026 12:00:00 GMT", None),
    ],
)
def test_a_time_is_read_in_every_format_of_the_sources(written: Any, expected: datetime | None) -> None:
    assert instant(written) == expected


def test_a_healthy_node_event_clears_hyperpods_faults_of_the_node() -> None:
    summary = {"HealthStatus": "Healthy", "HealthStatusReason": None, "RepairAction": "None"}
    detail = {"InstanceId": "i-0123456789abcdef0", "HealthSummary": summary, "EventTime": 1770120000000}
    kind = "SageMaker HyperPod Cluster Node Health Event"
    (snapshot,) = snapshots(
        decoded("hyperpod-event", {"source": "aws.sagemaker", "detail-type": kind, "detail": detail})
    )
    assert (snapshot.node, snapshot.observed_at, snapshot.present) == ("i-0123456789abcdef0", NOON, ())
    assert {"agent.gpu_unhealthy", "agent.replace_required", "agent.node_unhealthy"} <= snapshot.covers.keys()


def test_hyperpods_repair_action_decides_the_action_and_the_instance_is_the_node() -> None:
    first, second, third = sample("hyperpod-event", "hyperpod-event.jsonl")
    assert isinstance(first, Fault)
    assert (first.action, first.node, first.attributes["fault_type"]) == (
        "reboot_node",
        "i-0123456789abcdef0",
        "NvidiaGPUUnhealthy",
    )
    assert (second.observed_at, third.node) == (
        datetime(2026, 2, 3, 4, 7, 8, 350000, UTC),
        "i-0123456789abcdef2",
    )


def test_a_ready_node_clears_its_loss_and_an_unknown_status_clears_nothing_else() -> None:
    first, lost, down = snapshots(sample("kubernetes-node", "kubernetes-node.json"))
    assert (first.node, lost.node, down.node) == ("i-0123456789abcdef0", "ip-10-0-0-8", "ip-10-0-0-9")
    assert {"host.not_ready", "host.unreachable", "agent.deep_check_failed"} <= first.covers.keys()
    assert "host.memory_pressure" not in lost.covers
    assert "host.not_ready" not in lost.covers


def test_a_healthy_eks_condition_clears_its_xid() -> None:
    (snapshot,) = snapshots(decoded("eks-node-condition", [{"type": "AcceleratedHardwareReady", "status": "True"}]))
    assert {"xid.79", "dcgm.nvlink_down", "host.gpu_count_mismatch"} <= snapshot.covers.keys()


def test_gpuds_suggestion_is_an_attribute_and_the_catalog_decides() -> None:
    fault = next(one for one in faults_and_clears(sample("gpud", "gpud-states.json")) if one.code == "xid.79")
    assert isinstance(fault, Fault)
    assert (fault.attributes["repair_actions"], fault.action) == ("REBOOT_SYSTEM", None)
    (snapshot,) = snapshots(sample("gpud", "gpud-states.json"))
    assert "host.gpu_count_mismatch" in snapshot.covers
    assert "train.nccl_error" not in snapshot.covers


def test_nvsentinels_recovery_clears_the_xids_of_its_devices() -> None:
    (snapshot,) = snapshots(sample("nvsentinel", "nvsentinel.jsonl"))
    (component,) = snapshot.covers["xid.149"]
    assert (component.pci, snapshot.node, snapshot.present) == ("0000:c1:00", "ip-10-0-0-7", ())
    assert "dcgm.nvlink_down" not in snapshot.covers


def test_an_unknown_error_of_nvsentinel_has_nvsentinels_severity_and_action() -> None:
    fault = next(
        one for one in sample("nvsentinel", "nvsentinel.jsonl") if getattr(one, "code", "") == "agent.condition"
    )
    assert isinstance(fault, Fault)
    assert (fault.severity, fault.action) == (Severity.WARNING, "reboot_node")


def test_an_alerts_node_has_no_port_and_a_resolved_alert_is_a_clear_at_its_end() -> None:
    fired, resolved, other = sample("alertmanager", "alertmanager.json")
    assert isinstance(fired, Fault)
    assert isinstance(resolved, Clear)
    assert (fired.node, resolved.node, other.node) == ("ip-10-0-0-7", "ip-10-0-0-8", "ip-10-0-0-9")
    assert fired.observed_at == datetime(2026, 2, 3, 4, 5, 6, 39625, UTC)
    assert resolved.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_a_running_instance_and_a_passed_check_clear_their_faults() -> None:
    (running,) = snapshots(sample("ec2-event", "ec2-event.jsonl"))
    assert (running.node, set(running.covers)) == (
        "i-0123456789abcdef1",
        {"cloud.instance_stopped", "cloud.instance_gone"},
    )
    impaired, starting, _ = snapshots(sample("ec2-status", "ec2-status.json"))
    assert {"cloud.system_impaired", "cloud.instance_impaired", "cloud.reboot_scheduled"} <= impaired.covers.keys()
    assert starting.covers == {}


def test_a_health_notice_has_its_own_time_and_not_the_scheduled_time() -> None:
    retirement, *_ = sample("health-event", "health-event.jsonl")
    assert isinstance(retirement, Fault)
    assert retirement.observed_at == datetime(2026, 2, 3, 4, 0, tzinfo=UTC)
    assert retirement.attributes["start_time"] == "2026-02-17T22:00:00.000Z"
    assert retirement.attributes["page"] == "1 of 2"
    assert "\\n" not in retirement.message


def test_expected_slurm_states_cover_nothing_and_a_working_node_clears_faults() -> None:
    found = {snapshot.node: snapshot for snapshot in snapshots(sample("slurm-node", "slurm-scontrol.txt"))}
    assert set(found) == {f"gpu-{number}" for number in (1, 2, 4, 5, 6, 7, 9)}
    assert found["gpu-6"].present == ()
    assert {"host.unreachable", "host.gpu_count_mismatch", "host.down"} <= found["gpu-6"].covers.keys()
    assert found["gpu-7"].present[0].severity is Severity.WARNING
    assert found["gpu-2"].present[0].attributes["set_by"] == "slurm"
    assert found["gpu-5"].present[0].attributes["reason"] == "key=value of a person"


def test_each_node_of_a_combined_sinfo_row_has_a_snapshot() -> None:
    body = "NODELIST STATE REASON\ngpu-[001-003,007] down* Not responding\nlogin-1,gpu-9 idle none\n"
    found = {snapshot.node: snapshot.present for snapshot in snapshots(registry.decode("slurm-node", body.encode()))}
    lost = {node for node, present in found.items() if [fault.code for fault in present] == ["host.unreachable"]}
    assert lost == {"gpu-001", "gpu-002", "gpu-003", "gpu-007"}
    assert found.keys() - lost == {"login-1", "gpu-9"}


def test_slurm_flags_mean_not_responding_booting_or_powered_down(shared: Path) -> None:
    states = (shared / "samples/slurm-states__parallelcluster-flag-combinations.txt").read_text("utf-8").split()
    body = "\n".join(f"NodeName=n-{number} State={state}" for number, state in enumerate(states))
    seen = {snapshot.node: snapshot.present for snapshot in snapshots(registry.decode("slurm-node", body.encode()))}
    lost = {
        state
        for number, state in enumerate(states)
        if any(fault.code == "host.unreachable" and not fault.severity for fault in seen.get(f"n-{number}", ()))
    }
    assert lost == {
        "DOWN+CLOUD+NOT_RESPONDING",
        "ALLOCATED+CLOUD+DRAIN+NOT_RESPONDING",
        "IDLE+CLOUD+DRAIN+NOT_RESPONDING",
    }
    for number, state in enumerate(states):
        if any(flag in state for flag in ("POWER", "MAINT", "REBOOT")):
            assert f"n-{number}" not in seen, state


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        ("IDLE+NOT_RESPONDING", Severity.WARNING),
        ("mix*", Severity.WARNING),
        ("IDLE+FAIL+NOT_RESPONDING", None),
        ("MIXED+FAIL+NOT_RESPONDING", None),
        ("fail*", None),
        ("failing*", None),
        ("failg*", None),
    ],
)
def test_a_node_that_does_not_respond_is_a_warning_only_while_slurm_uses_it(
    state: str, severity: Severity | None
) -> None:
    (snapshot,) = snapshots(registry.decode("slurm-node", f"NodeName=n-1 State={state}".encode()))
    assert [(fault.code, fault.severity) for fault in snapshot.present] == [("host.unreachable", severity)]


def test_the_state_of_an_efa_port_is_ignored_because_it_is_always_active() -> None:
    body = b"/sys/class/infiniband/rdmap0s6/ports/1/state: 4: ACTIVE\n/sys/class/infiniband/rdmap0s6/ports/1/rate: 100"
    (snapshot, *samples) = registry.decode("infiniband-state", body)
    assert isinstance(snapshot, Snapshot)
    assert (snapshot.covers, samples) == ({}, [])


def test_a_lost_link_and_a_slower_link_are_faults() -> None:
    def look(phys: str, rate: int) -> bytes:
        port = "/sys/class/infiniband/mlx5_0/ports/1/"
        return f"{port}state: 4: ACTIVE\n{port}phys_state: {phys}\n{port}rate: {rate} Gb/sec (4X HDR)\n".encode()

    def between(*looks: bytes) -> list[str]:
        seen = [one for look in looks for one in registry.decode("infiniband-state", look)]
        return [one.code for one in differences(seen) if isinstance(one, Fault)]

    up, slow, down = look("5: LinkUp", 200), look("5: LinkUp", 100), look("2: Polling", 10)
    assert between(down, down) == []
    assert between(up, down) == ["net.ib_port_down"]
    assert between(up, slow) == ["net.ib_rate_reduced"]
    assert between(down, up) == []


def test_only_counters_with_a_threshold_are_kept_and_unreadable_ones_are_absent() -> None:
    counters = [one for one in sample("rdma-counters", "rdma-counters.txt") if one.source == "rdma-counters"]
    (one,) = counters
    assert isinstance(one, CounterSample)
    assert set(one.values) == {
        "link_downed",
        "excessive_buffer_overrun_errors",
        "symbol_error",
        "local_ack_timeout_err",
    }
    ens5, ens6 = sample("ethtool-stats", "ethtool.txt")
    assert isinstance(ens5, CounterSample)
    assert (ens5.component.name, ens6.component.name) == ("ens5", "ens6")  # type: ignore[union-attr]  # both are counter samples
    assert "conntrack_allowance_available" not in ens5.values


def test_a_timeout_names_the_rank_that_lags_and_not_the_reporting_rank() -> None:
    hangs = [
        one for one in sample("training-log", "training.log") if isinstance(one, Fault) and "seqnum" in one.attributes
    ]
    assert [(one.count, one.attributes["ranks"]) for one in hangs] == [(2, "0, 1"), (1, "7")]
    assert {one.attributes["rank_behind"] for one in hangs} == {"7"}
    assert {load_catalog().classify(one).action for one in hangs} == {"none"}


def test_an_unreachable_peer_is_named_and_its_consequences_are_not_counted() -> None:
    (lost,) = [one for one in faults_and_clears(sample("training-log", "training.log")) if "peer" in one.attributes]
    assert lost.attributes["peer"] == "10.0.0.9"


def test_a_job_without_progress_is_stalled_and_a_finished_job_is_not() -> None:
    def line(iteration: int, minutes: int) -> CounterSample:
        text = f" iteration {iteration:8}/    8000 | elapsed time per iteration (ms): 7613.1 | lm loss: 1.0 |"
        (sample,) = registry.decode("training-log", text.encode())
        assert isinstance(sample, CounterSample)
        return CounterSample(sample.source, sample.component, sample.values, NOON + timedelta(minutes=minutes))

    def between(*samples: CounterSample) -> list[str]:
        return [one.code for one in differences(samples) if isinstance(one, Fault)]

    assert between(line(7, 0), line(7, 6)) == ["train.stalled"]
    assert between(line(7, 0), line(7, 1)) == []
    assert between(line(7, 0), line(8, 6)) == []
    assert between(line(8000, 0), line(8000, 6)) == []


def test_a_heartbeat_with_rates_that_no_device_can_have_still_counts_and_they_are_left_out() -> None:
    gpu, card = {"type": "gpu", "index": 5}, {"type": "nic", "name": "mlx5_3"}
    rates: list[object] = [
        {"component": gpu, "values": {"clock_mhz": 1980, "colour": 7}},
        {"component": card, "values": {"sent_bytes": 12, "gpus": "2,3"}},
        {"component": {"type": "heater"}, "values": {"clock_mhz": 1}},
        *({"component": gpu, "values": values} for values in ({"clock_mhz": -1}, {"clock_mhz": "1"}, [], None)),
        "text",
    ]
    document = {"heartbeat": 1, "at": "2026-02-03T12:03:00Z", "node": "n-1", "rates": rates}
    _, *found = registry.decode("heartbeat", json.dumps(document).encode())
    samples = [one for one in found if isinstance(one, CounterSample)]
    assert [(one.component.index, one.component.name, one.values) for one in samples] == [
        (5, None, {"clock_mhz": 1980}),
        (None, "mlx5_3", {"sent_bytes": 12, "gpus": "2,3"}),
    ]
    assert len(samples) == len(found)
    (only,) = registry.decode("heartbeat", json.dumps(document | {"rates": 7}).encode())
    assert isinstance(only, Snapshot)


def test_a_heartbeat_clears_a_missed_heartbeat_and_reports_a_wrong_clock() -> None:
    body = json.dumps({"heartbeat": 1, "at": "2026-02-03T12:03:00Z", "node": "n-1"}).encode()
    (right,) = snapshots(registry.decode("heartbeat", body, Hints(received_at=NOON + timedelta(minutes=2))))
    (wrong,) = snapshots(registry.decode("heartbeat", body, Hints(received_at=NOON)))
    assert (right.present, set(right.covers)) == ((), {"host.silent", "host.clock"})
    assert (wrong.present[0].code, wrong.present[0].attributes["seconds_off"]) == ("host.clock", "180")
    assert wrong.observed_at == NOON


def test_output_of_decode_is_valid_input_of_the_source_faultbridge() -> None:
    hints = Hints(None, "n-1", "train-a")
    check = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for file in sorted(SAMPLES.iterdir()):
        source = registry.recognize(file.read_bytes()) if file.suffix != ".toml" else None
        if source is None:
            continue
        written_documents = list(documents(registry.decode(source, file.read_bytes()), hints, everything=False))
        written = "\n".join(json.dumps(one) for one in written_documents).encode()
        for one in written_documents:
            check.validate(one)
        if written_documents:
            assert held(registry.decode("faultbridge", written)) == held(registry.decode(source, file.read_bytes()))


@pytest.mark.parametrize("path", sorted((HERE.parents[1] / "schemas/normalized-fault/samples/1.0").glob("*.json")))
def test_a_sample_of_the_schema_is_valid_and_decoded(path: Path) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(path.read_text("utf-8")))
    assert len(registry.decode("faultbridge", path.read_bytes())) == 1


LINE = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
AGENT = {
    "level": "info",
    "ts": "2026-02-03T12:00:04Z",
    "msg": "NPD caught event: %v",
    "details: ": {
        "reason": "NvidiaGpuXidErrorPendingReplacement",
        "message": f'Node condition NvidiaGPUUnhealthy is now: True, message: "{LINE}"',
    },
    "HealthMonitoringAgentDetectionEvent": "HealthEvent",
}
EVENT = {
    "source": "aws.sagemaker",
    "detail-type": "SageMaker HyperPod Cluster Node Health Event",
    "time": "2026-02-03T12:00:10Z",
    "detail": {
        "InstanceId": "i-0aaaaaaaaaaaaaaa1",
        "HealthSummary": {"HealthStatus": "Unhealthy", "HealthStatusReason": LINE, "RepairAction": "Replace"},
    },
}


def test_a_fault_from_kernel_log_agent_and_event_is_one_condition_with_three_reporters() -> None:
    observations = (
        *registry.decode("kernel-log", f"[Tue Feb  3 12:00:00 2026] {LINE}\n".encode()),
        *decoded("hyperpod-agent-log", AGENT),
        *decoded("hyperpod-event", EVENT),
    )
    arrivals = [arrival(one, one.observed_at or NOON, f"r-{number}") for number, one in enumerate(observations)]
    now = NOON + timedelta(minutes=1)
    folded = fold(node(), arrivals, now=now, catalog=load_catalog(), limits=Limits())
    (condition,) = folded.state.conditions.values()
    assert (condition.code, condition.component.pci, condition.action) == ("xid.79", "0000:c1:00", "replace_node")
    assert condition.sources == {"kernel-log", "hyperpod-agent-log", "hyperpod-event"}


WRONG = {
    "kind": "alarm",
    "code": "Xid 79",
    "component": {"type": "toaster"},
    "message": "",
    "observed_at": "yesterday",
    "severity": "bad",
    "action": "panic",
    "count": 0,
    "attributes": {"a": 1},
}


@pytest.mark.parametrize("field", WRONG)
def test_a_document_that_violates_the_schema_is_rejected(field: str) -> None:
    right = {"kind": "fault", "code": "xid.79", "component": {"type": "gpu"}, "message": "gone"}
    decoded("faultbridge", right)
    with pytest.raises(Rejected) as rejected:
        decoded("faultbridge", right | {field: WRONG[field]})
    assert rejected.value.reason == "wrong_shape"


FOREIGN = sorted(set(registry.names()) - {"kernel-log", "heartbeat"})


@pytest.mark.parametrize("source", FOREIGN)
def test_input_in_another_format_is_rejected(source: str) -> None:
    with pytest.raises(Rejected):
        registry.decode(source, b"just some words, and no more\n")


REPAIRS = (
    (
        "Instance {i} replacement in Cluster c and InstanceGroup g started as part of node recovery",
        "Info",
        "cloud.replacing",
    ),
    ("Instance {i} is starting as part of replacement of i-0aaaaaaaaaaaaaaaa", "Info", "cloud.replacing"),
    ("Instance replacement for {i} in Cluster c completed successfully", "Info", "cloud.replaced"),
    ("Instance {i} replacement failed to start", "Error", "cloud.replacement_failed"),
    ("Instance replacement failed: EFA health checks did not run successfully", "Error", "cloud.replacement_failed"),
    ("EC2 Instance {i} reboot is in progress", "Info", "cloud.rebooting"),
    ("Reboot of instance {i} completed", "Info", "cloud.rebooted"),
    ("Reboot request for instance {i} failed", "Warn", "cloud.reboot_failed"),
    ("Root volume replacement for instance {i} started", "Info", None),
    ("Failed instances queued for replacement", "Warn", None),
    ("Instance {i} deletion in Cluster c and InstanceGroup g completed successfully", "Info", None),
    ("Instance lifecycle script execution for EC2 Instance {i} has Succeeded", "Info", None),
)


@pytest.mark.parametrize(("description", "level", "code"), REPAIRS)
def test_hyperpods_own_repair_has_a_fault_code(description: str, level: str, code: str | None) -> None:
    instance = "i-0123456789abcdef0"
    record = {
        "EventId": "11111111-2222-3333-4444-555555555555",
        "ClusterName": "c",
        "InstanceId": instance,
        "ResourceType": "Instance",
        "EventTime": 1770091628350,
        "EventLevel": level,
        "Description": description.format(i=instance),
        "EventDetails": {"EventMetadata": {"Instance": {"NodeLogicalId": "seat-7", "FailureMessage": None}}},
    }
    event = {
        "source": "aws.sagemaker",
        "detail-type": "SageMaker HyperPod Cluster Event",
        "time": "2026-02-03T04:07:08Z",
        "detail": {"EventDetails": record},
    }
    found = registry.decode("hyperpod-event", "\n".join([json.dumps(event)] * 2).encode())
    assert [one.code for one in found if isinstance(one, Fault)] == ([code] if code else [])
    if code:
        assert (found[0].node, found[0].attributes["node_logical_id"]) == (instance, "seat-7")  # type: ignore[union-attr]  # a fault


def test_rows_of_sinfo_without_a_heading_are_nodes_if_every_line_is_one() -> None:
    rows = b"gpu-1 down* Not responding\ngpu-2 idle none\ngpu-[3-4]|drained|bad GPU\n"
    found = registry.decode("slurm-node", rows)
    assert [one.node for one in found] == ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    assert next(faults_and_clears(found)).code == "host.unreachable"
    with pytest.raises(Rejected):
        registry.decode("slurm-node", rows + b"the server went down\n")
    with pytest.raises(Rejected):
        registry.recognize(rows)


UUID = "GPU-0a1b2c3d-000"


def gpud(component: str, reason: str) -> list[Fault | Clear]:
    states = [{"time": "2026-02-03T04:05:06Z", "name": "x", "health": "Unhealthy", "reason": reason}]
    return faults_and_clears(decoded("gpud", [{"component": component, "states": states}]))


@pytest.mark.parametrize(
    ("component", "reason", "code", "name"),
    [
        ("error-xid", "XID 79 GPU lost detected on GPU PCI:0000:ca:00", "xid.79", "0000:ca:00"),
        ("error-xid", "XID 94 (Contained) detected on PCI:0000:1c:00", "xid.94", "0000:1c:00"),
        ("remapped-rows", f"GPU {UUID}1 needs reset (pending remapping true)", "smi.row_remap_pending", f"{UUID}1"),
        ("remapped-rows", f"{UUID}1 qualifies for RMA (remapping failed)", "smi.row_remap_failure", f"{UUID}1"),
        ("remapped-rows", f"{UUID}1 and {UUID}2: pending remapping", "smi.row_remap_pending", None),
        ("remapped-rows", "something else", "agent.row_remap", None),
    ],
)
def test_the_text_of_gpud_states_the_fault_and_its_gpu(
    component: str, reason: str, code: str, name: str | None
) -> None:
    (fault,) = gpud(f"accelerator-nvidia-{component}", reason)
    assert (fault.code, fault.component.pci or fault.attributes.get("uuid")) == (code, name)


def test_a_healthy_state_of_gpud_ends_the_remappings_that_it_reported() -> None:
    states = [{"health": "Healthy", "reason": "ok"}]
    (snapshot,) = snapshots(decoded("gpud", [{"component": "accelerator-nvidia-remapped-rows", "states": states}]))
    assert {"agent.row_remap", "smi.row_remap_pending", "smi.row_remap_failure"} <= snapshot.covers.keys()


def test_the_gpu_that_a_condition_names_is_an_attribute() -> None:
    condition = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID95Error"}
    for message, pci in (("Detected XID 95 on GPU 0000:97:00.0", "0000:97:00"), ("Detected XID 95", None)):
        (fault,) = faults_and_clears(decoded("eks-node-condition", [condition | {"message": message}]))
        assert (fault.code, fault.component, fault.attributes.get("pci")) == ("xid.95", Component(GPU), pci)


def test_a_double_bit_error_of_an_eks_node_is_one_of_an_unnamed_gpu_so_that_it_joins_the_others() -> None:
    condition = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaDoubleBitError"}
    (fault,) = faults_and_clears(decoded("eks-node-condition", [condition]))
    assert (fault.code, fault.component) == ("agent.double_bit_error", Component(GPU))


LABELS = {"alertname": "GPUThermalThrottling", "pci_bus_id": "00000000:3B:00.0", "Hostname": "ip-10-0-0-7"}
RULE = {"labels": LABELS, "annotations": {"summary": "hot"}, "value": "1e+00", "activeAt": "2026-02-03T12:00:00Z"}
LISTED = {"labels": LABELS, "annotations": {}, "fingerprint": "a1", "receivers": [{"name": "x"}]}
LISTED |= {"startsAt": "2026-02-03T12:00:00Z", "endsAt": "2026-02-03T12:09:00Z"}


@pytest.mark.parametrize("state", ["firing", "pending", "inactive"])
def test_a_firing_alert_of_prometheus_is_a_fault_and_a_pending_one_is_not(state: str) -> None:
    body = json.dumps({"status": "success", "data": {"alerts": [RULE | {"state": state}]}}).encode()
    assert registry.recognize(body) == "alertmanager"
    found = faults_and_clears(registry.decode("alertmanager", body))
    shown = [(one.code, one.component.pci, one.observed_at, one.node) for one in found]
    expected = ("smi.hw_thermal_slowdown", "0000:3b:00", NOON, "ip-10-0-0-7")
    assert shown == ([expected] if state == "firing" else [])


@pytest.mark.parametrize(("state", "count"), [("active", 1), ("unprocessed", 1), ("suppressed", 0)])
def test_an_alert_that_alertmanager_lists_is_a_fault_unless_it_is_suppressed(state: str, count: int) -> None:
    body = json.dumps([LISTED | {"status": {"state": state, "silencedBy": []}}]).encode()
    assert registry.recognize(body) == "alertmanager"
    found = faults_and_clears(registry.decode("alertmanager", body))
    assert [(type(one), one.observed_at) for one in found] == [(Fault, NOON)] * count


CHECK = "SysLogsXIDError"
SENTINEL = "ErrorCode:79 PCI:0000:3b:00 kernel: NVRM: Xid (PCI:0000:3b:00): 79, lost Recommended Action=RESTART_VM;"


def sentinel(status: str, message: str, check: str = CHECK) -> dict[str, Any]:
    word = "IsNotHealthy" if status == "True" else "IsHealthy"
    condition = {"type": check, "status": status, "reason": f"{check}{word}", "message": message}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    changed = {"lastTransitionTime": "2026-02-03T12:00:00Z"}
    status_ = {"conditions": [ready | changed, condition | changed], "nodeInfo": {}}
    return {"kind": "Node", "metadata": {"name": "gpu-1", "labels": {"x": "y" * 5000}}, "status": status_}


KILLED = {
    "kind": "Event",
    "type": "Warning",
    "reason": "OOMKilling",
    "involvedObject": {"kind": "Node", "name": "gpu-1"},
}
KILLED |= {"source": {"component": "kernel-monitor"}, "lastTimestamp": "2026-02-03T12:00:00Z"}


@pytest.mark.parametrize("extra", [[], [KILLED]])
def test_the_conditions_of_nvsentinel_are_read_from_a_whole_node_also_beside_events(extra: list[Any]) -> None:
    document = {"kind": "List", "items": [sentinel("True", SENTINEL), *extra]}
    assert registry.recognize(json.dumps(document).encode()) == "kubernetes-node"
    found = [one for one in faults_and_clears(decoded("kubernetes-node", document)) if one.code != "agent.notice"]
    assert [(one.code, one.attributes["pci"], one.node, one.source) for one in found] == [
        ("xid.79", "0000:3b:00", "gpu-1", "kubernetes-node")
    ]
    assert [one.code for one in faults_and_clears(decoded("nvsentinel", document))] == ["xid.79"]


def test_a_healthy_condition_of_nvsentinel_on_a_node_is_no_fault() -> None:
    document = sentinel("False", "No Health Failures")
    assert registry.recognize(json.dumps(document).encode()) == "kubernetes-node"
    assert list(faults_and_clears(decoded("kubernetes-node", document))) == []


def test_the_conditions_of_nvsentinel_are_read_from_a_described_node() -> None:
    times = "Tue, 03 Feb 2026 12:00:00 +0000   Tue, 03 Feb 2026 12:00:00 +0000"
    rows = [
        f"  {CHECK}   True   {times}   {CHECK}IsNotHealthy   {SENTINEL}",
        f"  GpuMemWatch   False   {times}   GpuMemWatchIsHealthy   No Health Failures",
        f"  Ready   True   {times}   KubeletReady   kubelet is posting ready status",
    ]
    head = "  Type   Status   LastHeartbeatTime   LastTransitionTime   Reason   Message"
    body = "\n".join(["Name:   gpu-1", *[f"Label: {'x' * 80}"] * 80, "Conditions:", head, *rows]).encode()
    assert registry.recognize(body) == "kubernetes-node"
    found = list(faults_and_clears(registry.decode("kubernetes-node", body)))
    assert [(one.code, one.attributes["pci"], one.node) for one in found] == [("xid.79", "0000:3b:00", "gpu-1")]


ACCELERATED = {"type": "AcceleratedHardwareReady", "lastTransitionTime": "2026-02-03T12:00:00Z"}
REMAPS = {"component": "accelerator-nvidia-remapped-rows"}


@pytest.mark.parametrize(
    ("source", "wrong", "healthy", "code"),
    [
        (
            "eks-node-condition",
            [ACCELERATED | {"status": "False", "reason": "NvidiaXID79Error", "message": "GPU 0000:c1:00 is lost"}],
            [ACCELERATED | {"status": "True", "reason": "NvidiaAcceleratedHardwareIsReady"}],
            "xid.79",
        ),
        (
            "gpud",
            [REMAPS | {"states": [{"health": "Unhealthy", "reason": f"{UUID}1 has pending remapping"}]}],
            [REMAPS | {"states": [{"health": "Healthy", "reason": "ok"}]}],
            "smi.row_remap_pending",
        ),
        ("kubernetes-node", "ErrorCode:DCGM_FR_FAULTY_MEMORY PCI:0000:3b:00 bad;", "No Health Failures", "faulty"),
        ("kubernetes-node", "ErrorCode:DCGM_FR_FAULTY_MEMORY GPU:3 bad;", "No Health Failures", "faulty"),
    ],
)
def test_a_recovery_that_names_no_gpu_ends_the_fault_whose_text_names_one(
    source: str, wrong: Any, healthy: Any, code: str
) -> None:
    if isinstance(wrong, str):
        wrong, healthy = sentinel("True", wrong, "GpuMemWatch"), sentinel("False", healthy, "GpuMemWatch")
    state = node()
    for minute, document in enumerate((wrong, healthy)):
        at = NOON + timedelta(minutes=minute)
        arrivals = [arrival(one, at, f"r-{minute}-{n}") for n, one in enumerate(decoded(source, document))]
        state = fold(state, arrivals, now=at, catalog=load_catalog(), limits=Limits()).state
        assert [code in one.code for one in state.conditions.values()] == [True] * (1 - minute)


@pytest.mark.parametrize("indent", [None, 4])
def test_a_node_is_read_as_a_node_whatever_the_message_of_a_condition_looks_like(indent: int | None) -> None:
    document = sentinel("True", SENTINEL)
    document["status"]["conditions"][0] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    body = json.dumps(document, indent=indent).encode()
    assert registry.recognize(body) == "kubernetes-node"
    found = {one.code for one in faults_and_clears(registry.decode("kubernetes-node", body))}
    assert found == {"host.unreachable", "xid.79"}


@pytest.mark.parametrize("source", ["kubernetes-node", "nvsentinel"])
def test_a_healthy_check_does_not_end_the_fault_that_another_condition_reports(source: str) -> None:
    document = sentinel("True", SENTINEL)
    (healthy,) = sentinel("False", "No Health Failures", "GpuMemWatch")["status"]["conditions"][1:]
    agent = {"type": "AcceleratedHardwareReady", "status": "True", "reason": "NvidiaAcceleratedHardwareIsReady"}
    beat = {"lastHeartbeatTime": "2026-02-03T12:05:00Z"}
    document["status"]["conditions"] += [healthy | beat, agent | beat]
    at = NOON + timedelta(minutes=9)
    arrivals = [arrival(one, getattr(one, "at", None) or getattr(one, "observed_at", None) or at, f"r-{number}")
                for number, one in enumerate(decoded(source, document))]  # fmt: skip
    state = fold(node(), arrivals, now=at, catalog=load_catalog(), limits=Limits()).state
    assert [one.code for one in state.conditions.values()] == ["xid.79"]
    covered = {code for one in snapshots(decoded(source, document)) for code in one.covers}
    assert ("xid.94" in covered) is (source == "kubernetes-node")

"""Raw records of a cluster's day: mostly healthy snapshots and noise, few faults and invalid records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from faultbridge.serve.ingest.send import RawInput

GPU_LOST = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
DOUBLE_BIT = "NVRM: Xid (PCI:0000:1b:00): 48, pid=9, name=python, DBE (double bit error) of GPU"
NOISE = "NVRM: Xid (PCI:0000:{bus}:00): 31, pid={pid}, name=python, Ch 00000008, intr 00000000. MMU Fault"
UNKNOWN_NODE = "node-unheard-of"


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The source and the text of a record, and its node if the record needs a specific one."""

    source: str
    text: str
    node: str | None = None


def healthy_smi() -> str:
    """Return the output of `nvidia-smi -q -x` for eight healthy GPUs, taken now."""
    return _smi(["None"] * 8)


def lost_gpu_smi() -> str:
    """Return the same output with one lost GPU."""
    return _smi(["None"] * 7 + ["GPU is lost"])


def _smi(actions: Sequence[str]) -> str:
    gpus = "".join(
        f'<gpu id="00000000:{16 * slot + 1:02x}:00.0"><serial>165000000{slot:04}</serial>'
        f"<uuid>GPU-{slot:08x}-aaaa-bbbb-cccc-00000000000{slot}</uuid>"
        f"<gpu_recovery_action>{action}</gpu_recovery_action>"
        "<ecc_errors><volatile><dram_uncorrectable>0</dram_uncorrectable></volatile></ecc_errors>"
        "<remapped_rows><remapped_row_pending>No</remapped_row_pending>"
        "<remapped_row_failure>No</remapped_row_failure></remapped_rows></gpu>"
        for slot, action in enumerate(actions)
    )
    at = datetime.now(UTC).strftime("%a %b %e %H:%M:%S %Y")
    return (
        '<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log>'
        f"<timestamp>{at}</timestamp><attached_gpus>{len(actions)}</attached_gpus>{gpus}</nvidia_smi_log>"
    )


def healthy_dcgm() -> str:
    """Return the output of `dcgmi health -c -j` for a healthy node."""
    return json.dumps({"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]})


def failed_dcgm() -> str:
    """Return the same output with a memory failure of one GPU."""
    errors = {"Memory system": {"value": "Failure", "overflow": ["A pending row remap was detected on GPU 0."]}}
    gpu = {"children": {"Errors": {"children": errors}}, "value": "Failure"}
    body = {"GPU": {"children": {"0": gpu}}, "Overall Health": {"value": "Failure"}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


def hyperpod_replacement_request() -> str:
    """Return a log line of HyperPod's agent that requests a replacement."""
    detail = {"Action": "replace", "Type": "NvidiaGPUUnhealthy", "Reason": "PendingReplacement", "Message": ""}
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"Event detail": detail, "ts": at, "HealthMonitoringAgentDetectionEvent": "HealthEvent"})


def noise(random: Random) -> str:
    """Return an Xid that an application error causes."""
    return NOISE.format(bus=random.choice(["1b", "43", "52", "c1"]), pid=random.randrange(1000, 9999))


FAULTS = (
    RecordKind("kernel-log", GPU_LOST, "node-000"),
    RecordKind("nvidia-smi-xml", lost_gpu_smi(), "node-004"),
    RecordKind("dcgm-health", failed_dcgm(), "node-008"),
    RecordKind("hyperpod-agent-log", hyperpod_replacement_request(), "node-012"),
    RecordKind("kernel-log", DOUBLE_BIT, "node-016"),
)
"""Each fault requires a repair and comes from another source; these nodes are in an Auto Scaling group.

Only one of the four instances under each switch has a fault, because more would trip the breaker of the switch.
"""

FAULTS_GROUP_SIZE = 20
"""The size of the group that contains the nodes of `FAULTS`, from `node-000` on."""

UNKNOWN_FAULT = RecordKind("kernel-log", "NVRM: Xid (PCI:0000:1b:00): 4242, nobody has described this", "node-005")

INVALID = (
    RecordKind("kernel-log", "all quiet"),
    RecordKind("nvidia-smi-xml", healthy_smi()[:400]),
    RecordKind("dcgm-health", '{"half'),
    RecordKind("kernel-log", GPU_LOST, UNKNOWN_NODE),
)
"""An unknown format, two truncated documents, and a node that is not registered."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in sending order, with the numbers of healthy snapshots and of invalid records among them."""

    raw_inputs: tuple[RawInput, ...]
    healthy: int
    invalid: int


def mixed_batch(cluster: str, *, records: int, nodes: int, seed: int) -> Batch:
    """Return 64 % healthy snapshots, 5 % invalid records, each fault of `FAULTS` twice, and noise."""
    random = Random(seed)
    healthy, invalid = records * 64 // 100, records * 5 // 100
    faults = [*FAULTS, UNKNOWN_FAULT] * 2
    # Nodes with faults send no healthy snapshot: contradicting reporters are not a subject of this test.
    others = sorted({f"node-{number:03}" for number in range(nodes)} - {kind.node for kind in faults})
    noisy = records - healthy - invalid - len(faults)
    kinds = [
        *(RecordKind(*random.choice(_HEALTHY), node=random.choice(others)) for _ in range(healthy)),
        *(random.choice(INVALID) for _ in range(invalid)),
        *(RecordKind("kernel-log", noise(random), random.choice(others)) for _ in range(noisy)),
        *faults,
    ]
    random.shuffle(kinds)
    raw_inputs = tuple(
        RawInput(kind.source, cluster, kind.text.encode(), node=kind.node or random.choice(others)) for kind in kinds
    )
    return Batch(raw_inputs, healthy, invalid)


_HEALTHY = (("nvidia-smi-xml", healthy_smi()), ("dcgm-health", healthy_dcgm()))


def reverse_and_interleave(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the messages in reverse order, with early and late messages alternating."""
    backwards = list(reversed(messages))
    half = (len(backwards) + 1) // 2
    late, early = backwards[:half], backwards[half:]
    return [message for pair in _alternate(early, late) for message in pair]


def _alternate(
    few: Sequence[tuple[str, str]], many: Sequence[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], ...]]:
    for number, message in enumerate(many):
        yield (few[number], message) if number < len(few) else (message,)

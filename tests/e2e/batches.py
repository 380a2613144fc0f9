"""Raw records of a day in a cluster: mostly healthy health snapshots and noise, a few faults, and what nobody can use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from faultbridge.ingest.send import Parcel

LOST = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus."
DOUBLE_BIT = "NVRM: Xid (PCI:0000:1b:00): 48, pid=9, name=python, DBE (double bit error) of GPU"
NOISE = "NVRM: Xid (PCI:0000:{bus}:00): 31, pid={pid}, name=python, Ch 00000008, intr 00000000. MMU Fault"
NOBODY = "node-unheard-of"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record: its source, its text, and what the fold must make of it."""

    source: str
    text: str
    node: str | None = None


def healthy_smi() -> str:
    """`nvidia-smi -q -x` of eight GPUs that are well, taken now."""
    return _smi(["None"] * 8)


def lost_smi() -> str:
    """The same with one GPU that is lost."""
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
    """`dcgmi health -c -j` of a node that is well."""
    return json.dumps({"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]})


def failed_dcgm() -> str:
    """The same where the memory of one GPU failed."""
    errors = {"Memory system": {"value": "Failure", "overflow": ["A pending row remap was detected on GPU 0."]}}
    gpu = {"children": {"Errors": {"children": errors}}, "value": "Failure"}
    body = {"GPU": {"children": {"0": gpu}}, "Overall Health": {"value": "Failure"}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]})


def agent_wants_replacement() -> str:
    """A line of HyperPod's agent that asks for another instance."""
    detail = {"Action": "replace", "Type": "NvidiaGPUUnhealthy", "Reason": "PendingReplacement", "Message": ""}
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"Event detail": detail, "ts": at, "HealthMonitoringAgentDetectionEvent": "HealthEvent"})


def noise(random: Random) -> str:
    """An Xid that a program caused by itself."""
    return NOISE.format(bus=random.choice(["1b", "43", "52", "c1"]), pid=random.randrange(1000, 9999))


FAULTY = (
    Kind("kernel-log", LOST, "node-000"),
    Kind("nvidia-smi-xml", lost_smi(), "node-004"),
    Kind("dcgm-health", failed_dcgm(), "node-008"),
    Kind("hyperpod-agent-log", agent_wants_replacement(), "node-012"),
    Kind("kernel-log", DOUBLE_BIT, "node-016"),
)
"""Each calls for a repair, in the words of another source; these nodes sit in a group that fills their nodes.

Of the four machines on one switch one breaks: more would be reason enough for that switch's breaker to trip.
"""

GROUP_OF_THE_FAULTY = 20
"""How many nodes the group must have, from `node-000` on."""

NEEDS_A_PERSON = Kind("kernel-log", "NVRM: Xid (PCI:0000:1b:00): 4242, nobody has described this", "node-005")

UNUSABLE = (
    Kind("kernel-log", "all quiet"),
    Kind("nvidia-smi-xml", healthy_smi()[:400]),
    Kind("dcgm-health", '{"half'),
    Kind("kernel-log", LOST, NOBODY),
)
"""Nothing of the format, cut off twice, and a node that nobody registered."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in the order in which they are sent; how many of them are healthy health snapshots, and how many unusable."""

    parcels: tuple[Parcel, ...]
    healthy: int
    unusable: int


def mixed(cluster: str, *, records: int, nodes: int, seed: int) -> Batch:
    """64 % healthy, 5 % unusable, a fault of each source from `FAULTY` said twice, the rest noise."""
    random = Random(seed)
    healthy, unusable = records * 64 // 100, records * 5 // 100
    faulty = [*FAULTY, NEEDS_A_PERSON] * 2
    # What is about to break says nothing of its health: which of two reporters is right is no matter of this test.
    others = sorted({f"node-{number:03}" for number in range(nodes)} - {kind.node for kind in faulty})
    noisy = records - healthy - unusable - len(faulty)
    kinds = [
        *(Kind(*random.choice(_HEALTHY), node=random.choice(others)) for _ in range(healthy)),
        *(random.choice(UNUSABLE) for _ in range(unusable)),
        *(Kind("kernel-log", noise(random), random.choice(others)) for _ in range(noisy)),
        *faulty,
    ]
    random.shuffle(kinds)
    parcels = tuple(
        Parcel(kind.source, cluster, kind.text.encode(), node=kind.node or random.choice(others)) for kind in kinds
    )
    return Batch(parcels, healthy, unusable)


_HEALTHY = (("nvidia-smi-xml", healthy_smi()), ("dcgm-health", healthy_dcgm()))


def reversed_and_interleaved(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same messages from the last to the first, one of the later half before each of the earlier."""
    backwards = list(reversed(messages))
    half = (len(backwards) + 1) // 2
    late, early = backwards[:half], backwards[half:]
    return [message for pair in _zip(early, late) for message in pair]


def _zip(few: Sequence[tuple[str, str]], many: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    for number, message in enumerate(many):
        yield (few[number], message) if number < len(few) else (message,)
